/* gpu/cuda/kernels/values.h - what the kernels share: types, accesses of several values, sums over
 * warps, and the division of a matrix among blocks.
 *
 * All arithmetic is float32; T and U stand for float, __half or __nv_bfloat16. Sums go by xor over
 * the lanes, in an order that is always the same. */
#ifndef NIGHTSHIFT_GPU_CUDA_KERNELS_VALUES_H
#define NIGHTSHIFT_GPU_CUDA_KERNELS_VALUES_H

#include "gpu/cuda/kernels/launch.h"

#define ALL_LANES 0xffffffffu

__device__ inline float to_f32(float v) { return v; }
__device__ inline float to_f32(int8_t v) { return (float)v; }
__device__ inline float to_f32(__half v) { return __half2float(v); }
__device__ inline float to_f32(__nv_bfloat16 v) { return __bfloat162float(v); }

template <class T> struct number;
template <> struct number<float> {
    static __device__ inline float from(float v) { return v; }
};
template <> struct number<__half> {
    static __device__ inline __half from(float v) { return __float2half_rn(v); }
};
template <> struct number<__nv_bfloat16> {
    static __device__ inline __nv_bfloat16 from(float v) { return __float2bfloat16_rn(v); }
};

/* Numbers of 8 bits: int8_t, or uint8_t for e4m3. magnitude: among which a row's largest is sought;
 * what is not a number counts as infinite where 8 bits cannot say so themselves. */
template <class Q> struct eight;
template <> struct eight<int8_t> {
    static constexpr float most = 127.0f;
    static constexpr bool pairs = false; /* two come by one instruction */
    static __device__ inline float magnitude(float v)
    {
        const float a = fabsf(v);

        return a <= FLT_MAX ? a : INFINITY;
    }
    static __device__ inline int8_t from(float v)
    {
        const int r = __float2int_rn(v);

        return (int8_t)(r > 127 ? 127 : r < -127 ? -127 : r);
    }
};
template <> struct eight<uint8_t> {
    static constexpr float most = 448.0f;
    static constexpr bool pairs = true;
    static __device__ inline float magnitude(float v) { return fabsf(v); }
    static __device__ inline uint8_t from(float v)
    {
        return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
    }
};

/* The scale of a row whose largest magnitude is `high`, and what its values are multiplied by. A
 * tiny row, whose factor would be infinite, becomes zeros: so does one that is not finite. */
template <class Q> __device__ inline float scale_of(float high)
{
    return high <= FLT_MAX ? high / eight<Q>::most : NAN;
}

template <class Q> __device__ inline float factor_of(float high)
{
    const float factor = eight<Q>::most / high;

    return high <= FLT_MAX && factor <= FLT_MAX ? factor : 0.0f;
}

/* N values that are read or written by one access, or by several of 16 bytes. */
template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) pack {
    T v[N];
};

template <class Q, int N> __device__ inline float highest_of(const pack<float, N> &v)
{
    float high = 0.0f;

#pragma unroll
    for (int j = 0; j < N; j++)
        high = fmaxf(high, eight<Q>::magnitude(v.v[j]));
    return high;
}

/* v * factor. */
template <class Q, int N>
__device__ inline pack<Q, N> in_eight(const pack<float, N> &v, float factor)
{
    pack<Q, N> q;

    if constexpr (eight<Q>::pairs && N % 2 == 0) {
#pragma unroll
        for (int j = 0; j < N; j += 2) {
            const __nv_fp8x2_storage_t two = __nv_cvt_float2_to_fp8x2(
                make_float2(v.v[j] * factor, v.v[j + 1] * factor), __NV_SATFINITE, __NV_E4M3);

            q.v[j] = (Q)(two & 0xff);
            q.v[j + 1] = (Q)(two >> 8);
        }
    } else {
#pragma unroll
        for (int j = 0; j < N; j++)
            q.v[j] = eight<Q>::from(v.v[j] * factor);
    }
    return q;
}

/* Values of an access: 16 bytes of the wider type, or one value where rows are not aligned. */
template <class T, class U> struct width {
    static constexpr int wide = sizeof(T) + sizeof(U) == 4 ? 8 : 4;
};

template <class T> __device__ inline T *row_of(const struct tensor &t, int64_t row)
{
    return static_cast<T *>(t.data) + row * t.stride;
}

/* k_head_bytes of a cache of C. */
template <class C> __device__ inline size_t head_bytes(uint32_t capacity)
{
    return 2 * (size_t)capacity * BACKEND_HEAD_SIZE * sizeof(C) +
           (sizeof(C) == 1 ? 2 * BACKEND_HEAD_SIZE * sizeof(float) : 0);
}

/* The element of a tensor whose type is known only here: for the small operations. */
__device__ inline float load_any(const struct tensor &t, int64_t row, int64_t col)
{
    if (t.type == DTYPE_F32)
        return row_of<const float>(t, row)[col];
    if (t.type == DTYPE_F16)
        return to_f32(row_of<const __half>(t, row)[col]);
    return to_f32(row_of<const __nv_bfloat16>(t, row)[col]);
}

__device__ inline float warp_sum(float v)
{
    for (int lanes = 16; lanes > 0; lanes /= 2)
        v += __shfl_xor_sync(ALL_LANES, v, lanes);
    return v;
}

__device__ inline float warp_max(float v)
{
    for (int lanes = 16; lanes > 0; lanes /= 2)
        v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, lanes));
    return v;
}

/* Whisper's, with erf. */
__device__ inline float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f)); }

/* r with its bias already added; old: what the result's place held (read by EPILOGUE_ADD alone). */
__device__ inline float finish(float r, enum epilogue epilogue, float old)
{
    if (epilogue == EPILOGUE_RELU)
        return r < 0.0f ? 0.0f : r; /* NaN stays */
    return epilogue == EPILOGUE_GELU ? gelu(r) : epilogue == EPILOGUE_ADD ? r + old : r;
}

/* --- a matrix, divided: each block TILE_ROWS rows, a warp for each, and TILE_PACKS packs of them,
 * so that few long rows fill the machine as many short ones do. ---------------------------------
 */

#define TILE_ROWS 8
#define TILE_DEPTH 2 /* packs of a lane: their reads are under way together */
#define TILE_PACKS (32 * TILE_DEPTH)

static inline dim3 tile_block(void) { return dim3(32, TILE_ROWS); }

static inline dim3 tile_grid(int64_t rows, int64_t packs)
{
    return dim3((unsigned)((rows + TILE_ROWS - 1) / TILE_ROWS),
                (unsigned)((packs + TILE_PACKS - 1) / TILE_PACKS));
}

__device__ inline int64_t tile_row(void) { return (int64_t)blockIdx.x * TILE_ROWS + threadIdx.y; }

/* The lane's i-th pack of its row, i < TILE_DEPTH. */
__device__ inline int64_t tile_pack(int i)
{
    return (int64_t)blockIdx.y * TILE_PACKS + i * 32 + threadIdx.x;
}

/* --- the host's side ---------------------------------------------------------------------------
 */

/* Whether rows of t may be accessed by n values at a time. */
static inline bool in_packs(const struct tensor &t, int64_t n)
{
    uint64_t bytes = (uint64_t)n * dtype_size(t.type);

    if (bytes > 16)
        bytes = 16;
    return (uintptr_t)t.data % bytes == 0 && t.cols % n == 0 &&
           (uint64_t)t.stride * dtype_size(t.type) % bytes == 0;
}

/* Whether vectors of float32 may be; NULL may. */
static inline bool is_aligned(const void *p) { return (uintptr_t)p % 16 == 0; }

static inline bool is_empty(const struct tensor &t) { return t.rows <= 0 || t.cols <= 0; }

static inline int launched(void) { return (int)cudaGetLastError(); }

/* by_type(t, f) is f(T()) with the T that t names. */
template <class F> static inline int by_type(enum dtype type, F f)
{
    switch (type) {
    case DTYPE_F32:
        return f(float());
    case DTYPE_F16:
        return f(__half());
    case DTYPE_BF16:
        return f(__nv_bfloat16());
    case DTYPE_I8:   /* caches alone, whose kernels go by the queries' type */
    case DTYPE_E4M3: /* written by kernels of their own */
        break;
    }
    return (int)cudaErrorInvalidValue;
}

constexpr int SOFTMAX_THREADS = 128;
constexpr int SOFTMAX_VALUES = BACKEND_MAX_KEYS / SOFTMAX_THREADS;
static_assert(SOFTMAX_VALUES * SOFTMAX_THREADS == BACKEND_MAX_KEYS, "a row is held whole");

/* The maximum or the sum over a block of SOFTMAX_THREADS, the same value in every thread. shared:
 * one float for each warp. */
template <bool MAX> __device__ inline float block_reduce(float v, float *shared)
{
    float all;

    v = MAX ? warp_max(v) : warp_sum(v);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = v;
    __syncthreads();
    all = shared[0];
    for (unsigned w = 1; w < SOFTMAX_THREADS / 32; w++)
        all = MAX ? fmaxf(all, shared[w]) : all + shared[w];
    __syncthreads();
    return all;
}

/* out = softmax(scale * in) of `cols` scores, at most BACKEND_MAX_KEYS, by a block of
 * SOFTMAX_THREADS. They are held in registers, 12 in each thread, so that out may be in. */
template <class U> __device__ inline void soften_row(const float *in, int cols, float scale, U *out)
{
    __shared__ float shared[SOFTMAX_THREADS / 32];
    float v[SOFTMAX_VALUES], high = -INFINITY, sum = 0.0f;

#pragma unroll
    for (int i = 0; i < SOFTMAX_VALUES; i++) {
        int c = i * SOFTMAX_THREADS + (int)threadIdx.x;

        v[i] = c < cols ? in[c] * scale : -INFINITY;
        high = fmaxf(high, v[i]);
    }
    high = block_reduce<true>(high, shared);
#pragma unroll
    for (int i = 0; i < SOFTMAX_VALUES; i++) {
        if (i * SOFTMAX_THREADS + (int)threadIdx.x < cols) {
            v[i] = expf(v[i] - high);
            sum += v[i];
        }
    }
    sum = 1.0f / block_reduce<false>(sum, shared);
    /* All of the row has been read: the barriers above stand between. */
#pragma unroll
    for (int i = 0; i < SOFTMAX_VALUES; i++) {
        int c = i * SOFTMAX_THREADS + (int)threadIdx.x;

        if (c < cols)
            out[c] = number<U>::from(v[i] * sum);
    }
}

#endif
