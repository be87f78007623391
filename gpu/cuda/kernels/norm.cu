/* Layer norm, alone or after a sum, and softmax: over rows, in float32.
 *
 * Layer norm: rows of at most 1536 values (all Whisper models have fewer) are held in registers
 * between the passes, read by 16 bytes, all reads under way at once. Many rows have a warp each,
 * since the number of instructions bounds them. Few rows, as in a decoder step, have a block each,
 * a pack to a thread, since one thread's way through its row bounds them. Both sum in the same
 * order: how many rows came together does not show. Longer or unaligned rows are read again for
 * each pass.
 *
 * Softmax: a block for a row (soften_row, values.h). */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int WARPS = 4;    /* rows of a block, a warp each */
constexpr int MOST = 12;    /* packs of four of a lane's column: 12 * 4 * 32 = 1536 values */
constexpr int LARGE = 1280; /* values of a row of Whisper's large models */
constexpr int FEW = 2048;   /* rows up to which a block has each: an H200 took 5.2 us for 9.8 with
                               256 and 7.7 for 10.4 with 768, whose lines meet here */

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
        y.v[j] = number<U>::from(fmaf(__fmul_rn(x.v[j] - mean, scale), gamma[j], beta[j]));
    return y;
}

/* Sums the squared distances from the mean. Each has a name, as in normed, so that every kernel
 * rounds alike. */
__device__ inline float squares(const pack<float, 4> &x, float mean)
{
    const float a = x.v[0] - mean, b = x.v[1] - mean, c = x.v[2] - mean, d = x.v[3] - mean;

    return fmaf(a, a, __fmul_rn(b, b)) + fmaf(c, c, __fmul_rn(d, d));
}

/* Lane l of the row's warps holds packs l, l + 32, ... of it, one after the other in one warp or
 * one in each of several. The sum, or the largest, of its lane's packs and then of all lanes, in
 * every thread. shared: for several warps alone, of this call alone. */
template <bool MAX, int ACROSS> __device__ inline float over_row(float v, float (*shared)[32])
{
    if constexpr (ACROSS > 1) {
        shared[threadIdx.y][threadIdx.x] = v;
        __syncthreads();
        v = shared[0][threadIdx.x];
#pragma unroll
        for (int w = 1; w < ACROSS; w++) {
            const float other = shared[w][threadIdx.x];

            v = MAX ? fmaxf(v, other) : v + other;
        }
    }
    return MAX ? warp_max(v) : warp_sum(v);
}

/* HELD packs of four in each lane of ACROSS warps, which have a row; one of the two is 1. WHOLE:
 * rows fill them all. gamma, beta: aligned to 16 bytes. U uint8_t: y is DTYPE_E4M3. */
template <class R, class U, int HELD, int ACROSS, bool WHOLE>
__global__ __launch_bounds__(32 * (ACROSS > 1 ? ACROSS : WARPS)) void norm_held(
    struct tensor x, struct tensor r, const float *gamma, const float *beta, float epsilon,
    struct tensor y)
{
    __shared__ float shared[ACROSS > 1 ? 3 : 1][ACROSS][32];
    const int64_t row =
        ACROSS > 1 ? (int64_t)blockIdx.x : (int64_t)blockIdx.x * WARPS + threadIdx.y;
    const int first = (ACROSS > 1 ? (int)threadIdx.y * 32 : 0) + (int)threadIdx.x;
    const int packs = (int)(x.cols / 4);
    const pack<float, 4> *gammas = reinterpret_cast<const pack<float, 4> *>(gamma);
    const pack<float, 4> *betas = reinterpret_cast<const pack<float, 4> *>(beta);
    float sum = 0.0f, spread = 0.0f, high = 0.0f, mean, scale, factor;
    pack<float, 4> v[HELD] = {}, g = {}, b = {};

    if (row >= x.rows) /* a whole warp, and never one of several */
        return;
    pack<float, 4> *in = reinterpret_cast<pack<float, 4> *>(row_of<float>(x, row));
    const auto holds = [&](int i) { return WHOLE || i * 32 + first < packs; };

#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (holds(i)) {
            v[i] = in[i * 32 + first];
            residual<R, 4>::add(v[i], r, row, i * 32 + first);
            if (ACROSS > 1) { /* under way before anything waits */
                g = gammas[first];
                b = betas[first];
            }
        }
    }
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (holds(i)) {
            if (residual<R, 4>::some)
                in[i * 32 + first] = v[i];
            sum += (v[i].v[0] + v[i].v[1]) + (v[i].v[2] + v[i].v[3]);
        }
    }
    mean = over_row<false, ACROSS>(sum, shared[0]) / (float)x.cols;
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (holds(i))
            spread += squares(v[i], mean);
    spread = over_row<false, ACROSS>(spread, shared[ACROSS > 1 ? 1 : 0]);
    scale = 1.0f / sqrtf(spread / (float)x.cols + epsilon);
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (holds(i)) {
            if (ACROSS == 1) {
                g = gammas[i * 32 + first];
                b = betas[i * 32 + first];
            }
            if constexpr (sizeof(U) == 1) {
                v[i] = normed<float, 4>(v[i], mean, scale, g.v, b.v);
                high = fmaxf(high, highest_of<U>(v[i]));
            } else {
                reinterpret_cast<pack<U, 4> *>(row_of<U>(y, row))[i * 32 + first] =
                    normed<U, 4>(v[i], mean, scale, g.v, b.v);
            }
        }
    }
    if constexpr (sizeof(U) == 1) {
        high = over_row<true, ACROSS>(high, shared[ACROSS > 1 ? 2 : 0]);
        if (first == 0)
            y.scales[row] = scale_of<U>(high);
        factor = factor_of<U>(high);
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (holds(i))
                reinterpret_cast<pack<U, 4> *>(row_of<U>(y, row))[i * 32 + first] =
                    in_eight<U>(v[i], factor);
    }
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

template <class U>
__global__ __launch_bounds__(SOFTMAX_THREADS) void softmax_rows(struct tensor x, float scale,
                                                                struct tensor out)
{
    soften_row(row_of<float>(x, blockIdx.x), (int)x.cols, scale, row_of<U>(out, blockIdx.x));
}

template <class R, class U>
int norm_any(cudaStream_t s, const struct tensor &x, const struct tensor &r, const float *gamma,
             const float *beta, float epsilon, const struct tensor &y)
{
    auto kernel = norm_long<R, U>;

    LAUNCH(kernel, dim3((unsigned)((x.rows + WARPS - 1) / WARPS)), dim3(32, WARPS), 0, s)
    (x, r, gamma, beta, epsilon, y);
    return launched();
}

template <class R, class U, int HELD, int ACROSS, bool WHOLE>
int norm_rows(cudaStream_t s, const struct tensor &x, const struct tensor &r, const float *gamma,
              const float *beta, float epsilon, const struct tensor &y)
{
    constexpr int ROWS = ACROSS > 1 ? 1 : WARPS; /* of a block */
    auto kernel = norm_held<R, U, HELD, ACROSS, WHOLE>;

    LAUNCH(kernel, dim3((unsigned)((x.rows + ROWS - 1) / ROWS)),
           dim3(32, ACROSS > 1 ? ACROSS : WARPS), 0, s)
    (x, r, gamma, beta, epsilon, y);
    return launched();
}

template <class R, class U>
int norm_by(cudaStream_t s, const struct tensor &x, const struct tensor &r, const float *gamma,
            const float *beta, float epsilon, const struct tensor &y)
{
    const int64_t column = (x.cols + 127) / 128; /* packs of a lane's */
    bool packs = in_packs(x, 4) && in_packs(y, 4) && is_aligned(gamma) && is_aligned(beta) &&
                 (!residual<R, 4>::some || in_packs(r, 4));
    auto rows = norm_rows<R, U, MOST, 1, false>;

    if (!packs || column > MOST) {
        if constexpr (sizeof(U) == 1)
            return (int)cudaErrorInvalidValue;
        else
            rows = norm_any<R, U>;
    } else if (x.rows <= FEW) {
        rows = column <= MOST / 3       ? norm_rows<R, U, 1, MOST / 3, false>
               : column <= MOST / 3 * 2 ? norm_rows<R, U, 1, MOST / 3 * 2, false>
                                        : norm_rows<R, U, 1, MOST, false>;
    } else if (column <= MOST / 2) {
        rows = norm_rows<R, U, MOST / 2, 1, false>;
    } else if (x.cols == LARGE) {
        rows = norm_rows<R, U, LARGE / 128, 1, true>;
    }
    return rows(s, x, r, gamma, beta, epsilon, y);
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
