/* Rows to 8 bits, and sums of their products back.
 *
 * quantize_held: a warp has a row and holds it in registers. quantize_rows, for longer ones and
 * unaligned ones: a block of 128 for a row, which is read twice: the largest magnitude, then the
 * values; the second time it comes from the cache (10 KiB for the longest row of Whisper).
 *
 * gelu_rows: a block of 128 holds its row in registers, so that GELU is computed once, and the
 * result may lie where the sums did: it is written behind the barrier that all reads are before. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int THREADS = 128;
constexpr int WARPS = 4; /* rows of a block, a warp each */
constexpr int HELD = 40; /* values of a lane: 1280 of a row */
constexpr int GELU_THREADS = 128;
constexpr int GELU_PACK = 8, GELU_HELD = BACKEND_MAX_E4M3 / (GELU_THREADS * GELU_PACK);
static_assert(GELU_HELD * GELU_THREADS * GELU_PACK == BACKEND_MAX_E4M3, "a row is held whole");

/* The largest of the block's threads. shared: one float for each warp. */
template <int WARPS> __device__ inline float block_max(float v, float *shared)
{
    v = warp_max(v);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = v;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        v = fmaxf(v, shared[w]);
    return v;
}

template <class T, int N> __device__ inline pack<float, N> widened(const pack<T, N> &v)
{
    pack<float, N> r;

#pragma unroll
    for (int j = 0; j < N; j++)
        r.v[j] = to_f32(v.v[j]);
    return r;
}

/* Whole rows of q, whose stride is at most 32 * HELD. */
template <class T, class Q, int N>
__global__ __launch_bounds__(32 * WARPS) void quantize_held(struct tensor x, struct tensor q)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.y;
    const int packs = (int)(x.cols / N), all = (int)(q.stride / N);
    float high = 0.0f, factor;
    pack<T, N> v[HELD / N];

    if (row >= x.rows) /* a whole warp */
        return;
    const pack<T, N> *in = reinterpret_cast<const pack<T, N> *>(row_of<T>(x, row));
    pack<Q, N> *out = reinterpret_cast<pack<Q, N> *>(row_of<Q>(q, row));

#pragma unroll
    for (int i = 0; i < HELD / N; i++)
        if (i * 32 + (int)threadIdx.x < packs)
            v[i] = in[i * 32 + threadIdx.x];
        else
            v[i] = {};
#pragma unroll
    for (int i = 0; i < HELD / N; i++)
        high = fmaxf(high, highest_of<Q>(widened(v[i])));
    high = warp_max(high);
    if (threadIdx.x == 0)
        q.scales[row] = scale_of<Q>(high);
    factor = factor_of<Q>(high);
#pragma unroll
    for (int i = 0; i < HELD / N; i++)
        if (i * 32 + (int)threadIdx.x < all)
            out[i * 32 + threadIdx.x] = in_eight<Q>(widened(v[i]), factor);
}

template <class T, class Q, int N>
__global__ __launch_bounds__(THREADS) void quantize_rows(struct tensor x, struct tensor q)
{
    __shared__ float shared[THREADS / 32];
    const pack<T, N> *in = reinterpret_cast<const pack<T, N> *>(row_of<T>(x, blockIdx.x));
    pack<Q, N> *out = reinterpret_cast<pack<Q, N> *>(row_of<Q>(q, blockIdx.x));
    float high = 0.0f, factor;
    int64_t packs = x.cols / N;

    for (int64_t i = threadIdx.x; i < packs; i += THREADS) {
        const pack<T, N> v = in[i]; /* by one access */

        high = fmaxf(high, highest_of<Q>(widened(v)));
    }
    high = block_max<THREADS / 32>(high, shared);
    if (threadIdx.x == 0)
        q.scales[blockIdx.x] = scale_of<Q>(high);
    factor = factor_of<Q>(high);
    for (int64_t i = threadIdx.x; i < q.stride / N; i += THREADS) {
        pack<T, N> v = {};

        if (i < packs)
            v = in[i];
        out[i] = in_eight<Q>(widened(v), factor);
    }
}

/* tanh to 2^-11 of its value, by one instruction. */
__device__ inline float tanh_fast(float x)
{
#ifdef NIGHTSHIFT_EMULATED
    return tanhf(x);
#else
    float y;

    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

__device__ inline float gelu_fast(float x)
{
    const float half = 0.5f * x;

    return half + half * tanh_fast(x * (0.79788456f + 0.79788456f * 0.044715f * x * x));
}

template <class T>
__global__ __launch_bounds__(GELU_THREADS) void gelu_rows(struct tensor x, struct tensor q)
{
    __shared__ float shared[GELU_THREADS / 32];
    const pack<T, GELU_PACK> *in =
        reinterpret_cast<const pack<T, GELU_PACK> *>(row_of<T>(x, blockIdx.x));
    pack<uint8_t, GELU_PACK> *out =
        reinterpret_cast<pack<uint8_t, GELU_PACK> *>(row_of<uint8_t>(q, blockIdx.x));
    const int packs = (int)(x.cols / GELU_PACK);
    pack<T, GELU_PACK> v[GELU_HELD];
    pack<float, GELU_PACK> r[GELU_HELD];
    float high = 0.0f, factor;

#pragma unroll
    for (int i = 0; i < GELU_HELD; i++) {
        const int at = i * GELU_THREADS + (int)threadIdx.x;

        if (at < packs)
            v[i] = in[at];
    }
#pragma unroll
    for (int i = 0; i < GELU_HELD; i++) {
        if (i * GELU_THREADS + (int)threadIdx.x >= packs)
            break;
#pragma unroll
        for (int j = 0; j < GELU_PACK; j++)
            r[i].v[j] = gelu_fast(to_f32(v[i].v[j]));
        high = fmaxf(high, highest_of<uint8_t>(r[i]));
    }
    high = block_max<GELU_THREADS / 32>(high, shared);
    if (threadIdx.x == 0)
        q.scales[blockIdx.x] = scale_of<uint8_t>(high);
    factor = factor_of<uint8_t>(high);
#pragma unroll
    for (int i = 0; i < GELU_HELD; i++) {
        const int at = i * GELU_THREADS + (int)threadIdx.x;

        if (at >= packs)
            break;
        out[at] = in_eight<uint8_t>(r[i], factor);
    }
}

template <class A, class U, int N>
__global__ __launch_bounds__(256) void dequantize_rows(const A *acc, int64_t acc_stride,
                                                       const float *row_scales,
                                                       const float *column_scales,
                                                       const float *bias, enum epilogue epilogue,
                                                       struct tensor y)
{
    int64_t row = tile_row(), packs = y.cols / N;

    if (row >= y.rows)
        return;
    const pack<A, N> *in = reinterpret_cast<const pack<A, N> *>(acc + row * acc_stride);
    pack<U, N> *out = reinterpret_cast<pack<U, N> *>(row_of<U>(y, row));
    const float scale = row_scales[row];
    pack<A, N> a[TILE_DEPTH];
    pack<U, N> b[TILE_DEPTH] = {};

#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        if (tile_pack(i) < packs) {
            a[i] = in[tile_pack(i)];
            if (epilogue == EPILOGUE_ADD)
                b[i] = out[tile_pack(i)];
        }
    }
#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        const int64_t at = tile_pack(i);
        pack<float, N> column, add = {};

        if (at >= packs)
            break;
        column = reinterpret_cast<const pack<float, N> *>(column_scales)[at];
        if (bias)
            add = reinterpret_cast<const pack<float, N> *>(bias)[at];
#pragma unroll
        for (int j = 0; j < N; j++) {
            const float r = (float)a[i].v[j] * (scale * column.v[j]) + add.v[j];

            b[i].v[j] = number<U>::from(finish(r, epilogue, to_f32(b[i].v[j])));
        }
        out[at] = b[i];
    }
}

template <class T, class Q, int N>
int quantize_by(cudaStream_t s, const struct tensor &x, const struct tensor &q)
{
    auto kernel = quantize_rows<T, Q, N>;
    dim3 grid((unsigned)x.rows), block(THREADS);

    if constexpr (N > 1) {
        if (q.stride <= 32 * HELD) {
            kernel = quantize_held<T, Q, N>;
            grid = dim3((unsigned)((x.rows + WARPS - 1) / WARPS));
            block = dim3(32, WARPS);
        }
    }
    LAUNCH(kernel, grid, block, 0, s)(x, q);
    return launched();
}

template <class Q> int quantize_to(cudaStream_t s, const struct tensor &x, const struct tensor &q)
{
    return by_type(
        x.type,
        [&](auto a) {
            using T = decltype(a);
            constexpr int N = width<T, T>::wide;

            /* Whole rows of q are written: its stride counts, not its columns. */
            if (in_packs(x, N) && (uintptr_t)q.data % N == 0 && q.stride % N == 0)
                return quantize_by<T, Q, N>(s, x, q);
            return quantize_by<T, Q, 1>(s, x, q);
        });
}

template <class A>
int dequantize_by(cudaStream_t s, const A *acc, int64_t acc_stride, const float *row_scales,
                  const float *column_scales, const float *bias, enum epilogue epilogue,
                  const struct tensor &y)
{
    return by_type(
        y.type,
        [&](auto to) {
            using U = decltype(to);
            const bool packs = in_packs(y, 4) && is_aligned(acc) && acc_stride % 4 == 0 &&
                               is_aligned(column_scales) && is_aligned(bias);
            auto kernel = packs ? dequantize_rows<A, U, 4> : dequantize_rows<A, U, 1>;

            LAUNCH(kernel, tile_grid(y.rows, packs ? y.cols / 4 : y.cols), tile_block(), 0, s)
            (acc, acc_stride, row_scales, column_scales, bias, epilogue, y);
            return launched();
        });
}

} // namespace

int k_quantize_rows(cudaStream_t s, struct tensor x, struct tensor q)
{
    if (is_empty(x))
        return 0;
    return q.type == DTYPE_E4M3 ? quantize_to<uint8_t>(s, x, q) : quantize_to<int8_t>(s, x, q);
}

int k_gelu_rows(cudaStream_t s, struct tensor x, struct tensor q)
{
    if (is_empty(x))
        return 0;
    if (x.cols > BACKEND_MAX_E4M3 || !in_packs(x, GELU_PACK) || !in_packs(q, GELU_PACK) ||
        dtype_size(x.type) != 2)
        return (int)cudaErrorInvalidValue;
    return by_type(x.type, [&](auto a) {
        auto kernel = gelu_rows<decltype(a)>;

        LAUNCH(kernel, dim3((unsigned)x.rows), dim3(GELU_THREADS), 0, s)(x, q);
        return launched();
    });
}

int k_dequantize(cudaStream_t s, const void *acc, bool whole, int64_t acc_stride,
                 const float *row_scales, const float *column_scales, const float *bias,
                 enum epilogue epilogue, struct tensor y)
{
    if (is_empty(y))
        return 0;
    if (epilogue == EPILOGUE_ADD_RELU)
        return (int)cudaErrorInvalidValue;
    return whole ? dequantize_by(s, static_cast<const int32_t *>(acc), acc_stride, row_scales,
                                 column_scales, bias, epilogue, y)
                 : dequantize_by(s, static_cast<const float *>(acc), acc_stride, row_scales,
                                 column_scales, bias, epilogue, y);
}
