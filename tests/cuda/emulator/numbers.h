/* tests/cuda/emulator/numbers.h - the number types of the libraries' doubles, to and from float. */
#ifndef NIGHTSHIFT_TESTS_CUDA_NUMBERS_H
#define NIGHTSHIFT_TESTS_CUDA_NUMBERS_H

#include <cstdint>
#include <cstring>

#include <cuda_runtime_api.h>
#include <library_types.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace emulated
{
size_t number_size(cudaDataType_t type);
/* Tables, since conversion in software costs more than the products. */
const float *half_table(void); /* [65536] */
const float *e4m3_table(void); /* [256] */
/* n numbers of a type, `step` elements apart. */
void to_float(float *dst, const void *src, cudaDataType_t type, size_t n, size_t step);
float one_to_float(const void *src, cudaDataType_t type, size_t i);
/* To the nearest, ties to even. */
void from_float(void *dst, cudaDataType_t type, size_t i, float x);
/* As a matrix unit takes float32: 10 bits of mantissa. */
float to_tf32(float x);

/* c[j * m + i] = sum over l of a[i * k + l] b[j * k + l], sums in float32, in pieces of 256. */
void product(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k);
void product_int8(const int8_t *a, int64_t lda, const int8_t *b, int64_t ldb, int32_t *c,
                  int64_t ldc, int64_t m, int64_t n, int64_t k);
} // namespace emulated

#endif
