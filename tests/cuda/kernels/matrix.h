/* tests/cuda/kernels/matrix.h - matrices in device memory, for the tests of single kernels.
 *
 * A matrix has a type, a stride and a shift from the allocation's start, so that rows that are not
 * aligned are met too; what lies between and around its rows is filled with a pattern, and get()
 * fails when a kernel has touched it. Random numbers are a fixed sequence. */
#ifndef NIGHTSHIFT_TESTS_CUDA_KERNELS_MATRIX_H
#define NIGHTSHIFT_TESTS_CUDA_KERNELS_MATRIX_H

#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cmath>
#include <functional>
#include <vector>

#include <cuda_runtime_api.h>

#include <cuda_fp16.h>

#include "gpu/cuda/kernels.h"

extern "C" {
#include "tests/common/test.h"
}

#define WELL(call) assert_int_equal((int)(call), 0)

static const unsigned char PATTERN = 0x5a;

static inline uint64_t next_random(void)
{
    static uint64_t state = 0x9E3779B97F4A7C15u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545F4914F6CDD1Du;
}

/* [0, 1) */
static inline double uniform(void) { return (double)(next_random() >> 11) * 0x1p-53; }
static inline int64_t below(int64_t n) { return (int64_t)(uniform() * (double)n); }

/* Roughly normal. */
static inline float normal(void)
{
    double sum = 0;

    for (int i = 0; i < 12; i++)
        sum += uniform();
    return (float)(sum - 6.0);
}

static inline std::vector<float> normals(size_t n, float scale = 1.0f)
{
    std::vector<float> v(n);

    for (float &x : v)
        x = scale * normal();
    return v;
}

/* What is left of x in a type. */
static inline float rounded(enum dtype type, float x)
{
    if (type == DTYPE_F16)
        return __half2float(__float2half_rn(x));
    return type == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(x)) : x;
}

/* Half of the last place of a type, relative. */
static inline double precision_of(enum dtype type)
{
    return type == DTYPE_F32 ? 0x1p-24 : type == DTYPE_F16 ? 0x1p-11 : 0x1p-8;
}

static const enum dtype ALL_TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
static const char *const TYPE_NAMES[] = {"f32", "bf16", "f16"};

/* Some plain values on the device. */
template <class T> class array
{
  public:
    explicit array(const std::vector<T> &values) : n(values.size())
    {
        WELL(cudaMalloc((void **)&p, (n ? n : 1) * sizeof(T)));
        set(values);
    }
    array(size_t count, T value) : array(std::vector<T>(count, value)) {}
    array(const array &) = delete;
    ~array() { cudaFree(p); }
    void set(const std::vector<T> &values)
    {
        WELL(cudaMemcpy(p, values.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    }
    std::vector<T> get() const
    {
        std::vector<T> v(n);

        WELL(cudaDeviceSynchronize());
        WELL(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
        return v;
    }
    T *p = nullptr;

  private:
    size_t n;
};

class matrix
{
  public:
    matrix(enum dtype type_, int64_t rows_, int64_t cols_, int64_t gap = 0, int64_t shift_ = 0)
        : type(type_), rows(rows_), cols(cols_), stride(cols_ + gap), shift(shift_),
          memory((size_t)(shift_ + rows_ * (cols_ + gap) + 16) * dtype_size(type_), PATTERN)
    {
    }
    matrix(enum dtype type_, int64_t rows_, int64_t cols_, const std::vector<float> &values,
           int64_t gap = 0, int64_t shift_ = 0)
        : matrix(type_, rows_, cols_, gap, shift_)
    {
        set(values);
    }
    struct tensor tensor() const
    {
        return {type, rows, cols, stride, memory.p + (size_t)shift * dtype_size(type), nullptr};
    }
    /* values: [rows][cols]; rounded to the type. */
    void set(const std::vector<float> &values)
    {
        std::vector<unsigned char> bytes = memory.get();

        for (int64_t i = 0; i < rows * cols; i++) {
            float v = values[(size_t)i];
            uint16_t half = f32_to_bf16(v);
            __half h = __float2half_rn(v);

            if (type == DTYPE_F16)
                memcpy(&half, &h, 2);
            memcpy(bytes.data() + place(i), type == DTYPE_F32 ? (void *)&v : (void *)&half,
                   dtype_size(type));
        }
        memory.set(bytes);
    }
    /* [rows][cols]; fails when something outside of them has been written. */
    std::vector<float> get() const
    {
        std::vector<unsigned char> bytes = memory.get();
        std::vector<float> v((size_t)(rows * cols));

        for (int64_t i = 0; i < rows * cols; i++) {
            uint16_t half;

            memcpy(&half, bytes.data() + place(i), 2);
            if (type == DTYPE_F32)
                memcpy(&v[(size_t)i], bytes.data() + place(i), 4);
            else
                v[(size_t)i] = type == DTYPE_F16 ? f16_to_f32(half) : bf16_to_f32(half);
            memset(bytes.data() + place(i), PATTERN, dtype_size(type));
        }
        for (unsigned char b : bytes)
            assert_int_equal(b, PATTERN);
        return v;
    }

    const enum dtype type;
    const int64_t rows, cols, stride, shift;

  private:
    size_t place(int64_t i) const
    {
        return (size_t)(shift + i / cols * stride + i % cols) * dtype_size(type);
    }
    array<unsigned char> memory;
};

/* |got - want| <= absolute + relative |want|, NaN where NaN is wanted. */
static inline void assert_near(const std::vector<float> &got, const std::vector<double> &want,
                               double relative, double absolute, const char *what)
{
    assert_int_equal(got.size(), want.size());
    for (size_t i = 0; i < got.size(); i++) {
        double d = fabs((double)got[i] - want[i]);

        if (std::isnan(want[i])
                ? !std::isnan(got[i])
                : !(d <= absolute + relative * fabs(want[i]) || (double)got[i] == want[i]))
            fail_msg("%s: element %zu of %zu is %.9g, not %.9g", what, i, got.size(),
                     (double)got[i], want[i]);
    }
}

static inline double exact_gelu(double x) { return 0.5 * x * (1.0 + erf(x * sqrt(0.5))); }

#endif
