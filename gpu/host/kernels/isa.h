/* gpu/host/kernels/isa.h - the suffix of this compilation: KERNEL(norm) is norm_avx512, say. */
#ifndef NIGHTSHIFT_GPU_HOST_KERNELS_ISA_H
#define NIGHTSHIFT_GPU_HOST_KERNELS_ISA_H

#include "gpu/host/kernels.h"

#define KERNEL_PASTE(a, b) a##_##b
#define KERNEL_NAME(a, b) KERNEL_PASTE(a, b)
#define KERNEL(name) KERNEL_NAME(name, NIGHTSHIFT_ISA)

#if defined(__F16C__)
#include <immintrin.h>
#define KERNEL_F16 1
#else
#define KERNEL_F16 0
#endif

#if defined(__AVX512BF16__)
#define KERNEL_BF16 1
#else
#define KERNEL_BF16 0
#endif

#if defined(__AVX2__)
#define KERNEL_INTEGERS 1
#else
#define KERNEL_INTEGERS 0
#endif

void KERNEL(rows_f32)(const struct row_job *job);
void KERNEL(rows_f16)(const struct row_job *job);
void KERNEL(rows_bf16)(const struct row_job *job);
void KERNEL(rows_i8)(const struct row_job *job);
void KERNEL(to_i8)(const void *x, bool bf16, size_t n, int8_t *to, struct row8 *ret);
void KERNEL(rows_i16)(const struct row_job *job);
void KERNEL(rows_i16_vnni)(const struct row_job *job);
void KERNEL(to_i16)(const float *x, size_t n, int16_t *to, float *scales);
bool KERNEL(pack_f16)(const float *w, size_t in, uint16_t *packed);
void KERNEL(attend_f32)(const float *q, size_t q_stride, size_t n, const float *k, const float *v,
                        struct key_tail tail, float *out, size_t out_stride);
void KERNEL(attend_bf16)(const uint16_t *q, size_t q_stride, size_t n, const uint16_t *k,
                         const uint16_t *v, struct key_tail tail, uint16_t *out, size_t out_stride);
void KERNEL(query_f32)(const float *q, const struct head_cache *c, struct key_tail tail,
                       float *out);
void KERNEL(query_bf16)(const uint16_t *q, const struct head_cache *c, struct key_tail tail,
                        uint16_t *out);
void KERNEL(scores_f32)(const float *q, const float *k, size_t keys, float *out);
void KERNEL(scores_bf16)(const uint16_t *q, const uint16_t *k, size_t keys, float *out);
void KERNEL(queries_i8)(const float *q, size_t q_stride, size_t n, const int8_t *k, const int8_t *v,
                        struct key_tail tail, const float *v_scales, float *out, size_t out_stride);
void KERNEL(scores_i8)(const float *q, const int8_t *k, size_t keys, float *out);
void KERNEL(fill_i8)(const void *x, bool bf16, size_t stride, size_t n, bool values, int8_t *to,
                     float *scales);
void KERNEL(softmax)(float *x, size_t n);
void KERNEL(add_median)(const float *x, size_t n, float *sum);
void KERNEL(lstm_step)(const float *in, const float *rec, size_t hidden, float *c, float *h);
void KERNEL(norm)(const float *x, const float *gamma, const float *beta, size_t n, float epsilon,
                  void *y, bool bf16);
void KERNEL(to_bf16)(uint16_t *dst, const float *src, size_t n);
float KERNEL(mel)(const struct mel_tables *t, const float *audio, float *out);
void KERNEL(filter_bank)(const struct bank_job *job);
double KERNEL(exp_sum)(double sum, const float *x, size_t n, double max, double temperature);
float KERNEL(largest)(const float *x, size_t n, size_t *at);
void KERNEL(depthwise)(const struct depthwise_job *job);
void KERNEL(activate)(enum activation f, const float *x, size_t n, void *y, bool bf16);
void KERNEL(column_sums)(const float *x, size_t stride, size_t rows, size_t cols,
                         const float *weights, const double *centre, double *sum);
void KERNEL(scale_columns)(const float *x, size_t x_stride, size_t rows, size_t cols,
                           const float *centre, const float *scale, const float *beta, float *y,
                           size_t y_stride);
void KERNEL(highest_rows)(const float *x, size_t stride, size_t rows, size_t cols, float *y);
void KERNEL(weigh_rows)(const float *const *x, const float *w, size_t taps, size_t n, float *y);
void KERNEL(attend_span)(const struct span_job *job);
void KERNEL(mel_clamp)(float *x, size_t n, float floor);

#endif
