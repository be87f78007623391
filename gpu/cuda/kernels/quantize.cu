/* Rows to 8 bits, and sums of their products back.
 *
 * quantize_rows: a block of 128 for a row, which is read twice: the largest magnitude, then the
 * values; the second time it comes from the cache (10 KiB for the longest row of Whisper). fp8 has
 * no scale: Whisper's activations between layer norms lie well inside of e4m3's 448. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int THREADS = 128;

template <class T, int N>
__global__ __launch_bounds__(THREADS) void quantize_rows(struct tensor x, int8_t *q,
                                                         int64_t q_stride, float *scales)
{
    __shared__ float shared[THREADS / 32];
    const pack<T, N> *in = reinterpret_cast<const pack<T, N> *>(row_of<T>(x, blockIdx.x));
    pack<int8_t, N> *out = reinterpret_cast<pack<int8_t, N> *>(q + (int64_t)blockIdx.x * q_stride);
    float high = 0.0f, factor;
    int64_t packs = x.cols / N;

    for (int64_t i = threadIdx.x; i < packs; i += THREADS) {
        pack<T, N> v = in[i];

#pragma unroll
        for (int j = 0; j < N; j++) {
            float a = fabsf(to_f32(v.v[j]));

            high = fmaxf(high, a <= FLT_MAX ? a : INFINITY); /* NaN too */
        }
    }
    high = warp_max(high);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = high;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++)
        high = fmaxf(high, shared[w]);
    if (threadIdx.x == 0)
        scales[blockIdx.x] = high <= FLT_MAX ? high / 127.0f : NAN;
    /* A tiny row, whose factor would be infinite, becomes zeros: so does one that is not finite. */
    factor = high >= 1e-36f && high <= FLT_MAX ? 127.0f / high : 0.0f;
    for (int64_t i = threadIdx.x; i < q_stride / N; i += THREADS) {
        pack<int8_t, N> y = {};

        if (i < packs) {
            pack<T, N> v = in[i];

#pragma unroll
            for (int j = 0; j < N; j++) {
                int r = __float2int_rn(to_f32(v.v[j]) * factor);

                y.v[j] = (int8_t)(r > 127 ? 127 : r < -127 ? -127 : r);
            }
        }
        out[i] = y;
    }
}

template <class U, int N>
__global__ __launch_bounds__(256) void dequantize_rows(const int32_t *acc, int64_t acc_stride,
                                                       const float *row_scales,
                                                       const float *column_scales,
                                                       const float *bias, enum epilogue epilogue,
                                                       struct tensor y)
{
    int64_t row = tile_row(), packs = y.cols / N;

    if (row >= y.rows)
        return;
    const pack<int32_t, N> *in = reinterpret_cast<const pack<int32_t, N> *>(acc + row * acc_stride);
    pack<U, N> *out = reinterpret_cast<pack<U, N> *>(row_of<U>(y, row));
    const float scale = row_scales[row];
    pack<int32_t, N> a[TILE_DEPTH];
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

template <class T, int N>
__global__ __launch_bounds__(256) void fp8_rows(struct tensor x, uint8_t *q, int64_t q_stride)
{
    int64_t row = tile_row(), packs = x.cols / N;

    if (row >= x.rows)
        return;
    const pack<T, N> *in = reinterpret_cast<const pack<T, N> *>(row_of<T>(x, row));
    pack<uint8_t, N> *out = reinterpret_cast<pack<uint8_t, N> *>(q + row * q_stride);
    pack<T, N> v[TILE_DEPTH];

#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        if (tile_pack(i) < packs)
            v[i] = in[tile_pack(i)];
    }
#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        pack<uint8_t, N> y = {};

        if (tile_pack(i) >= q_stride / N)
            break;
#pragma unroll
        for (int j = 0; j < N; j++) {
            if (tile_pack(i) < packs)
                y.v[j] = __nv_cvt_float_to_fp8(to_f32(v[i].v[j]), __NV_SATFINITE, __NV_E4M3);
        }
        out[tile_pack(i)] = y;
    }
}

/* Whether rows of bytes may be accessed by n at a time. */
bool bytes_in_packs(const void *q, int64_t stride, int n)
{
    return (uintptr_t)q % (uintptr_t)n == 0 && stride % n == 0;
}

template <class T, int N>
int quantize_by(cudaStream_t s, const struct tensor &x, int8_t *q, int64_t q_stride, float *scales)
{
    auto kernel = quantize_rows<T, N>;

    LAUNCH(kernel, dim3((unsigned)x.rows), dim3(THREADS), 0, s)(x, q, q_stride, scales);
    return launched();
}

template <class T, int N>
int fp8_by(cudaStream_t s, const struct tensor &x, uint8_t *q, int64_t q_stride)
{
    auto kernel = fp8_rows<T, N>;

    LAUNCH(kernel, tile_grid(x.rows, q_stride / N), tile_block(), 0, s)(x, q, q_stride);
    return launched();
}

} // namespace

int k_quantize_rows(cudaStream_t s, struct tensor x, int8_t *q, int64_t q_stride, float *scales)
{
    if (is_empty(x))
        return 0;
    return by_type(x.type, [&](auto a) {
        using T = decltype(a);
        constexpr int N = width<T, T>::wide;

        if (in_packs(x, N) && bytes_in_packs(q, q_stride, N))
            return quantize_by<T, N>(s, x, q, q_stride, scales);
        return quantize_by<T, 1>(s, x, q, q_stride, scales);
    });
}

int k_to_fp8(cudaStream_t s, struct tensor x, uint8_t *q, int64_t q_stride)
{
    if (is_empty(x))
        return 0;
    return by_type(x.type, [&](auto a) {
        using T = decltype(a);
        constexpr int N = width<T, T>::wide;

        if (in_packs(x, N) && bytes_in_packs(q, q_stride, N))
            return fp8_by<T, N>(s, x, q, q_stride);
        return fp8_by<T, 1>(s, x, q, q_stride);
    });
}

int k_dequantize(cudaStream_t s, const int32_t *acc, int64_t acc_stride, const float *row_scales,
                 const float *column_scales, const float *bias, enum epilogue epilogue,
                 struct tensor y)
{
    if (is_empty(y))
        return 0;
    return by_type(y.type, [&](auto to) {
        using U = decltype(to);

        if (in_packs(y, 4) && is_aligned(acc) && acc_stride % 4 == 0 && is_aligned(column_scales) &&
            is_aligned(bias)) {
            auto kernel = dequantize_rows<U, 4>;

            LAUNCH(kernel, tile_grid(y.rows, y.cols / 4), tile_block(), 0, s)
            (acc, acc_stride, row_scales, column_scales, bias, epilogue, y);
        } else {
            auto kernel = dequantize_rows<U, 1>;

            LAUNCH(kernel, tile_grid(y.rows, y.cols), tile_block(), 0, s)
            (acc, acc_stride, row_scales, column_scales, bias, epilogue, y);
        }
        return launched();
    });
}
