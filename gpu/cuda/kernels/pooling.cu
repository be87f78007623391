/* Norms, pools and statistics over rows, column by column; float32, sums in double.
 *
 * Norms and statistics: a block for 32 columns, its warps each a share of the rows, which are read
 * by 128 bytes; the shares are added in a fixed order. A norm goes twice through memory, each time
 * in parts of a window, so that few windows fill the machine as well: mean and spread of each part,
 * which are put together (Chan, Golub and LeVeque 1979) where they are applied. One column alone, a
 * window's samples, has its rows' neighbours in a warp's lanes. Statistics read their rows once and
 * keep them in registers, in windows of up to 128 rows. Pools: a thread for a column, or four, row
 * after row. Nothing depends on other windows. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int THREADS = 256;
constexpr int WARPS = 8;  /* of a block that sums columns: rows r, r + 8 ... each */
constexpr int HELD = 16;  /* rows of a thread that stay in registers, or are read together */
constexpr int PART = 256; /* rows of a norm's part; of one column 32 times as many */

typedef double shares[WARPS][32];

/* The sum over the warps of a column's shares; a barrier is behind what they wrote. */
__device__ inline double sum_of(const shares &all)
{
    double sum = 0.0;

    for (int w = 0; w < WARPS; w++)
        sum += all[w][threadIdx.x];
    return sum;
}

/* The same in all lanes. */
__device__ inline double lanes_sum(double v)
{
    for (int lanes = 16; lanes > 0; lanes /= 2)
        v += __shfl_xor_sync(ALL_LANES, v, lanes);
    return v;
}

struct moments {
    double mean, spread; /* the latter: sum of squares about it */
};

/* A norm's block reads rows first, first + 1 ... of one part of one window. ONE: one column alone,
 * whose rows are 32 to a warp. */
template <bool ONE> struct part {
    int64_t window, column, first, rows;
    int64_t begin, step; /* of a thread's rows */

    __device__ part(int64_t n, int parts)
    {
        const int64_t most = ONE ? PART * 32 : PART, before = blockIdx.x % parts * most;

        window = blockIdx.x / parts;
        column = ONE ? 0 : (int64_t)blockIdx.y * 32 + threadIdx.x;
        first = window * n + before;
        rows = n - before < most ? n - before : most;
        begin = ONE ? threadIdx.y * 32 + threadIdx.x : threadIdx.y;
        step = ONE ? 32 * WARPS : WARPS;
    }
};

__host__ __device__ inline int parts_of(int64_t n, bool one)
{
    const int64_t most = one ? PART * 32 : PART;

    return (int)((n + most - 1) / most);
}

/* x: all windows; each has n rows. ret: [windows][parts][cols]. Sums are of differences to the
 * part's first row, which is one of them: so their squares lose at most a factor of its rows in
 * double's precision to the subtraction. */
template <bool ONE>
__global__ __launch_bounds__(32 * WARPS) void norm_parts(struct tensor x, int64_t n, int parts,
                                                         struct moments *ret)
{
    __shared__ shares sums, squares;
    const part<ONE> p(n, parts);
    const bool there = p.column < x.cols; /* the others wait at the barrier, too */
    const double pivot = there ? (double)row_of<const float>(x, p.first)[p.column] : 0.0;
    double sum = 0.0, square = 0.0;

#pragma unroll 8
    for (int64_t r = p.begin; there && r < p.rows; r += p.step) {
        const double d = (double)row_of<const float>(x, p.first + r)[p.column] - pivot;

        sum += d;
        square += d * d;
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    squares[threadIdx.y][threadIdx.x] = square;
    __syncthreads();
    if (threadIdx.y != 0)
        return;
    sum = sum_of(sums);
    square = sum_of(squares);
    if (ONE) {
        sum = lanes_sum(sum);
        square = lanes_sum(square);
    }
    if (there && (!ONE || threadIdx.x == 0))
        ret[(int64_t)blockIdx.x * x.cols + p.column] = {pivot + sum / (double)p.rows,
                                                        square - sum * sum / (double)p.rows};
}

/* From the parts of a column of one window: what x is multiplied with behind `centre`. */
template <bool ONE>
__device__ inline float norm_scale(const struct moments *all, int64_t cols, int64_t n, int parts,
                                   float gamma, float epsilon, float *centre)
{
    const int64_t most = ONE ? PART * 32 : PART;
    double sum = 0.0, spread = 0.0;

#pragma unroll 4
    for (int i = 0; i < parts; i++)
        sum += all[i * cols].mean * (double)(n - i * most < most ? n - i * most : most);
    const double mean = sum / (double)n;

#pragma unroll 4
    for (int i = 0; i < parts; i++) {
        const double d = all[i * cols].mean - mean;

        spread +=
            all[i * cols].spread + d * d * (double)(n - i * most < most ? n - i * most : most);
    }
    *centre = (float)mean;
    return (float)((double)gamma / sqrt(spread / (double)n + (double)epsilon));
}

/* Every thread writes only what it alone has read. */
template <bool ONE>
__global__ __launch_bounds__(32 * WARPS) void apply_norm(struct tensor x, int64_t n, int parts,
                                                         const struct moments *all,
                                                         const float *gamma, const float *beta,
                                                         float epsilon, struct tensor y)
{
    __shared__ float centres[32], scales[32];
    const part<ONE> p(n, parts);
    const bool there = p.column < x.cols;

    if (threadIdx.y == 0 && there)
        scales[threadIdx.x] =
            norm_scale<ONE>(all + p.window * parts * x.cols + p.column, x.cols, n, parts,
                            gamma[p.column], epsilon, &centres[threadIdx.x]);
    __syncthreads();
    if (!there)
        return;
    const float centre = centres[threadIdx.x], scale = scales[threadIdx.x], shift = beta[p.column];

    for (int64_t from = p.begin; from < p.rows; from += HELD * p.step) {
        float held[HELD] = {};

#pragma unroll
        for (int i = 0; i < HELD; i++) {
            const int64_t r = from + i * p.step;

            if (r < p.rows)
                held[i] = row_of<const float>(x, p.first + r)[p.column];
        }
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            const int64_t r = from + i * p.step;

            if (r < p.rows)
                row_of<float>(y, p.first + r)[p.column] = fmaf(held[i] - centre, scale, shift);
        }
    }
}

/* A block: 32 columns for one set of weights. t: rows of a window. Neighbours in the grid read
 * neighbours of the same rows. */
__global__ __launch_bounds__(32 * WARPS) void stats_columns(struct tensor x, int64_t t,
                                                            const uint32_t *of,
                                                            struct tensor weights, struct tensor y)
{
    __shared__ shares sums, spreads;
    const unsigned tiles = (unsigned)((x.cols + 31) / 32);
    const int64_t set = blockIdx.x / tiles, first = of[set] * t;
    const int64_t column = blockIdx.x % tiles * 32 + threadIdx.x;
    const float *w = row_of<const float>(weights, set);
    const bool there = column < x.cols; /* the others wait at the barriers, too */
    double v1 = 0.0, v2 = 0.0, sum = 0.0, spread = 0.0;
    float held[HELD] = {};

#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const int64_t r = threadIdx.y + i * WARPS;

        if (there && r < t)
            held[i] = row_of<const float>(x, first + r)[column];
    }
    for (int64_t r = threadIdx.x; r < t; r += 32) { /* each warp for itself */
        v1 += (double)w[r];
        v2 += (double)w[r] * (double)w[r];
    }
    v1 = lanes_sum(v1) + 1e-8;
    v2 = lanes_sum(v2);
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (threadIdx.y + i * WARPS < t)
            sum += (double)w[threadIdx.y + i * WARPS] * (double)held[i];
    for (int64_t r = threadIdx.y + HELD * WARPS; there && r < t; r += WARPS)
        sum += (double)w[r] * (double)row_of<const float>(x, first + r)[column];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    const double mean = sum_of(sums) / v1;

#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const double d = (double)held[i] - mean;

        if (threadIdx.y + i * WARPS < t)
            spread += (double)w[threadIdx.y + i * WARPS] * d * d;
    }
    for (int64_t r = threadIdx.y + HELD * WARPS; there && r < t; r += WARPS) {
        const double d = (double)row_of<const float>(x, first + r)[column] - mean;

        spread += (double)w[r] * d * d;
    }
    spreads[threadIdx.y][threadIdx.x] = spread;
    __syncthreads();
    if (!there || threadIdx.y != 0)
        return;
    spread = sum_of(spreads);
    row_of<float>(y, set)[column] = (float)mean;
    row_of<float>(y, set)[x.cols + column] = (float)sqrt(spread / (v1 - v2 / v1 + 1e-8));
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

template <bool ONE>
int norm_windows(cudaStream_t s, uint32_t windows, const struct tensor &x, const float *gamma,
                 const float *beta, float epsilon, struct moments *all, const struct tensor &y)
{
    const int64_t n = x.rows / windows;
    const int parts = parts_of(n, ONE);
    const dim3 grid((unsigned)((int64_t)windows * parts), (unsigned)((x.cols + 31) / 32));
    auto sum = norm_parts<ONE>;
    auto apply = apply_norm<ONE>;

    LAUNCH(sum, grid, dim3(32, WARPS), 0, s)(x, n, parts, all);
    if (int rc = launched())
        return rc;
    LAUNCH(apply, grid, dim3(32, WARPS), 0, s)(x, n, parts, all, gamma, beta, epsilon, y);
    return launched();
}

bool is_one(const struct tensor &x) { return x.cols == 1; }

} // namespace

size_t k_norm_bytes(uint32_t windows, struct tensor x)
{
    return (size_t)windows * (size_t)parts_of(x.rows / windows, is_one(x)) * (size_t)x.cols *
           sizeof(struct moments);
}

int k_instance_norm(cudaStream_t s, uint32_t windows, struct tensor x, const float *gamma,
                    const float *beta, float epsilon, void *scratch, struct tensor y)
{
    struct moments *all = static_cast<struct moments *>(scratch);

    if (is_empty(x) || windows == 0)
        return 0;
    return is_one(x) ? norm_windows<true>(s, windows, x, gamma, beta, epsilon, all, y)
                     : norm_windows<false>(s, windows, x, gamma, beta, epsilon, all, y);
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
    LAUNCH(stats_columns, dim3((unsigned)(weights.rows * ((x.cols + 31) / 32))), dim3(32, WARPS), 0,
           s)
    (x, x.rows / windows, of, weights, y);
    return launched();
}
