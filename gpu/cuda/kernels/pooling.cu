/* What is taken over rows, column by column: norms, pools, statistics; float32, sums in double.
 *
 * Norms and statistics: a block for 32 columns of one window or set of weights, its warps each a
 * share of the rows, which are read by 128 bytes; the shares are added in a fixed order. The norm
 * of one column alone, a window's samples, has its rows' neighbours in a warp's lanes. A window of
 * thousands of rows is read three times, the last two out of the second-level cache. Pools: a
 * thread for a column, or four, row after row. Nothing depends on other windows. Pools of
 * magnitudes, and by four columns, have not yet run on a GPU. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int THREADS = 256;
constexpr int WARPS = 32; /* of a block that sums columns: rows, rows + 32 ... each */

typedef double shares[WARPS][32];

/* The sum over the block's warps of a column's shares, the same in all of them. */
__device__ inline double add_shares(double v, shares &all)
{
    double sum = 0.0;

    all[threadIdx.y][threadIdx.x] = v;
    __syncthreads();
    for (int w = 0; w < WARPS; w++)
        sum += all[w][threadIdx.x];
    __syncthreads();
    return sum;
}

/* The sum over the lanes of what all warps hold alike, in their order. */
__device__ inline double add_lanes(double v, double (&all)[32])
{
    double sum = 0.0;

    if (threadIdx.y == 0)
        all[threadIdx.x] = v;
    __syncthreads();
    for (int i = 0; i < 32; i++)
        sum += all[i];
    __syncthreads();
    return sum;
}

/* x: all windows; each has n rows. Every thread writes only what it alone has read. */
__global__ __launch_bounds__(32 * WARPS) void norm_columns(struct tensor x, int64_t n,
                                                           const float *gamma, const float *beta,
                                                           float epsilon, struct tensor y)
{
    __shared__ shares all;
    const int64_t column = (int64_t)blockIdx.y * 32 + threadIdx.x, first = blockIdx.x * n;
    const bool there = column < x.cols; /* the others wait at the barriers, too */
    double sum = 0.0, spread = 0.0;

#pragma unroll 4
    for (int64_t r = threadIdx.y; there && r < n; r += WARPS)
        sum += (double)row_of<const float>(x, first + r)[column];
    const double mean = add_shares(sum, all) / (double)n;

#pragma unroll 4
    for (int64_t r = threadIdx.y; there && r < n; r += WARPS) {
        const double d = (double)row_of<const float>(x, first + r)[column] - mean;

        spread += d * d;
    }
    spread = add_shares(spread, all);
    if (!there)
        return;
    const float centre = (float)mean, shift = beta[column];
    const float scale = (float)((double)gamma[column] / sqrt(spread / (double)n + (double)epsilon));

    for (int64_t r = threadIdx.y; r < n; r += WARPS)
        row_of<float>(y, first + r)[column] =
            fmaf(row_of<const float>(x, first + r)[column] - centre, scale, shift);
}

/* One set of weights for a block in x. t: rows of a window. */
__global__ __launch_bounds__(32 * WARPS) void stats_columns(struct tensor x, int64_t t,
                                                            const uint32_t *of,
                                                            struct tensor weights, struct tensor y)
{
    __shared__ shares all;
    const int64_t column = (int64_t)blockIdx.y * 32 + threadIdx.x, first = of[blockIdx.x] * t;
    const float *w = row_of<const float>(weights, blockIdx.x);
    const bool there = column < x.cols;
    double v1 = 0.0, v2 = 0.0, sum = 0.0, spread = 0.0;

    for (int64_t r = threadIdx.y; r < t; r += WARPS) {
        const double weight = (double)w[r];

        v1 += weight;
        v2 += weight * weight;
        if (there)
            sum += weight * (double)row_of<const float>(x, first + r)[column];
    }
    v1 = add_shares(v1, all) + 1e-8;
    v2 = add_shares(v2, all);
    const double mean = add_shares(sum, all) / v1;

    for (int64_t r = threadIdx.y; there && r < t; r += WARPS) {
        const double d = (double)row_of<const float>(x, first + r)[column] - mean;

        spread += (double)w[r] * d * d;
    }
    spread = add_shares(spread, all);
    if (there && threadIdx.y == 0) {
        row_of<float>(y, blockIdx.x)[column] = (float)mean;
        row_of<float>(y, blockIdx.x)[x.cols + column] = (float)sqrt(spread / (v1 - v2 / v1 + 1e-8));
    }
}

/* The larger; NaN when one is. */
__device__ inline float higher(float a, float b) { return a > b || a != a ? a : b; }

/* n: rows of a window of x; out: of y. */
template <bool MAGNITUDES, int N>
__global__ __launch_bounds__(THREADS) void highest_of_rows(struct tensor x, int64_t n, int64_t out,
                                                           int64_t size, struct tensor y)
{
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, packs = y.cols / N;
    const int64_t row = at / packs, column = at % packs, first = row / out * n + row % out * size;
    pack<float, N> high = {};

    if (row >= y.rows)
        return;
    for (int64_t r = 0; r < size; r++) {
        const pack<float, N> v =
            reinterpret_cast<const pack<float, N> *>(row_of<const float>(x, first + r))[column];

#pragma unroll
        for (int j = 0; j < N; j++) {
            const float a = MAGNITUDES ? fabsf(v.v[j]) : v.v[j];

            high.v[j] = r == 0 ? a : higher(high.v[j], a);
        }
    }
    reinterpret_cast<pack<float, N> *>(row_of<float>(y, row))[column] = high;
}

template <bool MAGNITUDES, int N>
int highest_by(cudaStream_t s, int64_t n, int64_t out, int64_t size, const struct tensor &x,
               const struct tensor &y)
{
    auto kernel = highest_of_rows<MAGNITUDES, N>;

    LAUNCH(kernel, dim3((unsigned)((y.rows * (y.cols / N) + THREADS - 1) / THREADS)), dim3(THREADS),
           0, s)
    (x, n, out, size, y);
    return launched();
}

__global__ __launch_bounds__(THREADS) void pool_spans(enum pool kind, const uint32_t *at,
                                                      struct tensor x, struct tensor y)
{
    const int64_t column = (int64_t)blockIdx.y * THREADS + threadIdx.x;
    const int64_t first = at[blockIdx.x], end = at[blockIdx.x + 1];

    if (column >= x.cols)
        return;
    float result = row_of<const float>(x, first)[column];
    double sum = (double)result;

    for (int64_t r = first + 1; r < end && kind != POOL_FIRST; r++) {
        const float v = row_of<const float>(x, r)[column];

        sum += (double)v;
        result = higher(result, v);
    }
    row_of<float>(y, blockIdx.x)[column] =
        kind == POOL_MEAN ? (float)(sum / (double)(end - first)) : result;
}

/* The same of one dense column: x, y of [windows * n]. */
__global__ __launch_bounds__(32 * WARPS) void norm_samples(const float *x, int64_t n,
                                                           const float *gamma, const float *beta,
                                                           float epsilon, float *y)
{
    __shared__ shares all;
    __shared__ double sums[32];
    const float *from = x + blockIdx.x * n;
    float *to = y + blockIdx.x * n;
    const int64_t mine = (int64_t)threadIdx.y * 32 + threadIdx.x, step = 32 * WARPS;
    double sum = 0.0, spread = 0.0;

#pragma unroll 4
    for (int64_t r = mine; r < n; r += step)
        sum += (double)from[r];
    const double mean = add_lanes(add_shares(sum, all), sums) / (double)n;

#pragma unroll 4
    for (int64_t r = mine; r < n; r += step) {
        const double d = (double)from[r] - mean;

        spread += d * d;
    }
    spread = add_lanes(add_shares(spread, all), sums);

    const float centre = (float)mean, shift = beta[0];
    const float scale = (float)((double)gamma[0] / sqrt(spread / (double)n + (double)epsilon));

    for (int64_t r = mine; r < n; r += step)
        to[r] = fmaf(from[r] - centre, scale, shift);
}

} // namespace

int k_instance_norm(cudaStream_t s, uint32_t windows, struct tensor x, const float *gamma,
                    const float *beta, float epsilon, struct tensor y)
{
    if (is_empty(x) || windows == 0)
        return 0;
    if (x.cols == 1 && x.stride == 1 && y.stride == 1) {
        LAUNCH(norm_samples, dim3(windows), dim3(32, WARPS), 0, s)
        (static_cast<const float *>(x.data), x.rows / windows, gamma, beta, epsilon,
         static_cast<float *>(y.data));
        return launched();
    }
    LAUNCH(norm_columns, dim3(windows, (unsigned)((x.cols + 31) / 32)), dim3(32, WARPS), 0, s)
    (x, x.rows / windows, gamma, beta, epsilon, y);
    return launched();
}

int k_max_pool(cudaStream_t s, uint32_t windows, uint32_t size, bool magnitudes, struct tensor x,
               struct tensor y)
{
    if (is_empty(y) || windows == 0)
        return 0;
    const bool wide = in_packs(x, 4) && in_packs(y, 4);
    auto by = magnitudes ? (wide ? highest_by<true, 4> : highest_by<true, 1>)
                         : (wide ? highest_by<false, 4> : highest_by<false, 1>);

    return by(s, x.rows / windows, y.rows / windows, (int64_t)size, x, y);
}

int k_pool(cudaStream_t s, enum pool kind, const uint32_t *at, struct tensor x, struct tensor y)
{
    if (is_empty(y))
        return 0;
    LAUNCH(pool_spans, dim3((unsigned)y.rows, (unsigned)((y.cols + THREADS - 1) / THREADS)),
           dim3(THREADS), 0, s)
    (kind, at, x, y);
    return launched();
}

int k_weighted_stats(cudaStream_t s, uint32_t windows, struct tensor x, const uint32_t *of,
                     struct tensor weights, struct tensor y)
{
    if (is_empty(x) || is_empty(weights) || windows == 0)
        return 0;
    LAUNCH(stats_columns, dim3((unsigned)weights.rows, (unsigned)((x.cols + 31) / 32)),
           dim3(32, WARPS), 0, s)
    (x, x.rows / windows, of, weights, y);
    return launched();
}
