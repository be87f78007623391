/* Layer norm, alone or after a sum, and softmax: over rows, in float32.
 *
 * Layer norm: a warp for a row. Rows of at most 1536 values (all Whisper models have fewer) are
 * held in registers between the three passes, read by 16 bytes, all reads under way at once; longer
 * or unaligned ones are read again for each pass.
 *
 * Softmax: a block of 128 for a row of at most 1536 scores, 12 of them in each thread's registers,
 * so that the result may lie where the scores do. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int WARPS = 4; /* rows of a block */
constexpr int MOST = 12; /* packs of four that a lane holds: 12 * 4 * 32 = 1536 values */
constexpr int SOFTMAX_THREADS = 128;
constexpr int SOFTMAX_VALUES = BACKEND_MAX_KEYS / SOFTMAX_THREADS;
static_assert(SOFTMAX_VALUES * SOFTMAX_THREADS == BACKEND_MAX_KEYS, "a row is held whole");

struct nothing {
}; /* the type of r where there is no sum */

template <class R, int N> struct residual {
    static __device__ inline void add(pack<float, N> &x, const struct tensor &r, int64_t row,
                                      int64_t at)
    {
        pack<R, N> b = reinterpret_cast<const pack<R, N> *>(row_of<R>(r, row))[at];

#pragma unroll
        for (int j = 0; j < N; j++)
            x.v[j] += to_f32(b.v[j]);
    }
    static constexpr bool some = true;
};

template <int N> struct residual<nothing, N> {
    static __device__ inline void add(pack<float, N> &, const struct tensor &, int64_t, int64_t) {}
    static constexpr bool some = false;
};

template <class U, int N>
__device__ inline pack<U, N> normed(const pack<float, N> &x, float mean, float scale,
                                    const float *gamma, const float *beta)
{
    pack<U, N> y;

#pragma unroll
    for (int j = 0; j < N; j++)
        y.v[j] = number<U>::from((x.v[j] - mean) * scale * gamma[j] + beta[j]);
    return y;
}

/* The warp's normed row in 8 bits. */
template <int HELD>
__device__ inline void put_e4m3(const pack<float, 4> (&v)[HELD], const struct tensor &y,
                                int64_t row)
{
    const int packs = (int)(y.cols / 4);
    float high = 0.0f, factor;

#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (i * 32 + (int)threadIdx.x < packs) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                high = fmaxf(high, magnitude(v[i].v[j]));
        }
    }
    high = warp_max(high);
    factor = factor_of<uint8_t>(high);
    if (threadIdx.x == 0)
        y.scales[row] = scale_of<uint8_t>(high);
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const int at = i * 32 + (int)threadIdx.x;
        pack<uint8_t, 4> q;

        if (at >= packs)
            break;
#pragma unroll
        for (int j = 0; j < 4; j++)
            q.v[j] = eight<uint8_t>::from(v[i].v[j] * factor);
        reinterpret_cast<pack<uint8_t, 4> *>(row_of<uint8_t>(y, row))[at] = q;
    }
}

/* HELD packs of four in each lane. gamma, beta: aligned to 16 bytes. U uint8_t: y is DTYPE_E4M3. */
template <class R, class U, int HELD>
__global__ __launch_bounds__(32 * WARPS) void norm_held(struct tensor x, struct tensor r,
                                                        const float *gamma, const float *beta,
                                                        float epsilon, struct tensor y)
{
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.y;
    int packs = (int)(x.cols / 4);
    float sum = 0.0f, spread = 0.0f, mean, scale;
    pack<float, 4> v[HELD];

    if (row >= x.rows) /* a whole warp */
        return;
    pack<float, 4> *in = reinterpret_cast<pack<float, 4> *>(row_of<float>(x, row));

#pragma unroll
    for (int i = 0; i < HELD; i++) {
        int at = i * 32 + (int)threadIdx.x;

        if (at < packs) {
            v[i] = in[at];
            residual<R, 4>::add(v[i], r, row, at);
        }
    }
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        int at = i * 32 + (int)threadIdx.x;

        if (at < packs) {
            if (residual<R, 4>::some)
                in[at] = v[i];
            sum += (v[i].v[0] + v[i].v[1]) + (v[i].v[2] + v[i].v[3]);
        }
    }
    mean = warp_sum(sum) / (float)x.cols;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (i * 32 + (int)threadIdx.x < packs) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                spread += (v[i].v[j] - mean) * (v[i].v[j] - mean);
        }
    }
    scale = 1.0f / sqrtf(warp_sum(spread) / (float)x.cols + epsilon);
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        int at = i * 32 + (int)threadIdx.x;

        if (at < packs) {
            pack<float, 4> g = reinterpret_cast<const pack<float, 4> *>(gamma)[at];
            pack<float, 4> b = reinterpret_cast<const pack<float, 4> *>(beta)[at];

            if constexpr (sizeof(U) == 1)
                v[i] = normed<float, 4>(v[i], mean, scale, g.v, b.v);
            else
                reinterpret_cast<pack<U, 4> *>(row_of<U>(y, row))[at] =
                    normed<U, 4>(v[i], mean, scale, g.v, b.v);
        }
    }
    if constexpr (sizeof(U) == 1)
        put_e4m3<HELD>(v, y, row);
}

/* Any length and alignment. Each lane reads again only what it has itself written. */
template <class R, class U>
__global__ __launch_bounds__(32 * WARPS) void norm_long(struct tensor x, struct tensor r,
                                                        const float *gamma, const float *beta,
                                                        float epsilon, struct tensor y)
{
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.y;
    float sum = 0.0f, spread = 0.0f, mean, scale;

    if (row >= x.rows)
        return;
    float *in = row_of<float>(x, row);

    for (int64_t c = threadIdx.x; c < x.cols; c += 32) {
        pack<float, 1> v = {{in[c]}};

        residual<R, 1>::add(v, r, row, c);
        if (residual<R, 1>::some)
            in[c] = v.v[0];
        sum += v.v[0];
    }
    mean = warp_sum(sum) / (float)x.cols;
    for (int64_t c = threadIdx.x; c < x.cols; c += 32)
        spread += (in[c] - mean) * (in[c] - mean);
    scale = 1.0f / sqrtf(warp_sum(spread) / (float)x.cols + epsilon);
    for (int64_t c = threadIdx.x; c < x.cols; c += 32) {
        pack<float, 1> v = {{in[c]}};

        row_of<U>(y, row)[c] = normed<U, 1>(v, mean, scale, gamma + c, beta + c).v[0];
    }
}

/* op over the block, the same value in every thread. shared: one float for each warp. */
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

template <class U>
__global__ __launch_bounds__(SOFTMAX_THREADS) void softmax_rows(struct tensor x, float scale,
                                                                struct tensor out)
{
    __shared__ float shared[SOFTMAX_THREADS / 32];
    const float *in = row_of<float>(x, blockIdx.x);
    float v[SOFTMAX_VALUES], high = -INFINITY, sum = 0.0f;
    int cols = (int)x.cols;

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
            row_of<U>(out, blockIdx.x)[c] = number<U>::from(v[i] * sum);
    }
}

template <class R, class U>
int norm_by(cudaStream_t s, const struct tensor &x, const struct tensor &r, const float *gamma,
            const float *beta, float epsilon, const struct tensor &y)
{
    bool packs = in_packs(x, 4) && in_packs(y, 4) && is_aligned(gamma) && is_aligned(beta) &&
                 (!residual<R, 4>::some || in_packs(r, 4));
    auto kernel = norm_held<R, U, MOST / 2>;

    if (packs && x.cols <= MOST * 128)
        kernel = x.cols <= MOST / 2 * 128 ? kernel : norm_held<R, U, MOST>;
    else if constexpr (sizeof(U) > 1)
        kernel = norm_long<R, U>;
    else
        return (int)cudaErrorInvalidValue;
    LAUNCH(kernel, dim3((unsigned)((x.rows + WARPS - 1) / WARPS)), dim3(32, WARPS), 0, s)
    (x, r, gamma, beta, epsilon, y);
    return launched();
}

} // namespace

int k_layer_norm(cudaStream_t s, struct tensor x, const float *gamma, const float *beta,
                 float epsilon, struct tensor y)
{
    if (is_empty(x))
        return 0;
    if (y.type == DTYPE_E4M3)
        return norm_by<nothing, uint8_t>(s, x, x, gamma, beta, epsilon, y);
    return by_type(y.type, [&](auto to) {
        return norm_by<nothing, decltype(to)>(s, x, x, gamma, beta, epsilon, y);
    });
}

int k_add_layer_norm(cudaStream_t s, struct tensor x, struct tensor r, const float *gamma,
                     const float *beta, float epsilon, struct tensor y)
{
    if (is_empty(x))
        return 0;
    return by_type(r.type, [&](auto sum) {
        return by_type(y.type, [&](auto to) {
            return norm_by<decltype(sum), decltype(to)>(s, x, r, gamma, beta, epsilon, y);
        });
    });
}

int k_softmax(cudaStream_t s, struct tensor x, float scale, struct tensor out)
{
    if (is_empty(x))
        return 0;
    if (x.cols > BACKEND_MAX_KEYS)
        return (int)cudaErrorInvalidValue;
    return by_type(out.type, [&](auto to) {
        auto kernel = softmax_rows<decltype(to)>;

        LAUNCH(kernel, dim3((unsigned)x.rows), dim3(SOFTMAX_THREADS), 0, s)(x, scale, out);
        return launched();
    });
}
