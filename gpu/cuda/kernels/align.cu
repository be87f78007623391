/* Scores of one head of the cross-attention, and how tokens follow the audio.
 *
 *     scores  [rows][keys]          q_i . k_j / 8
 *     align   of each window [heads][n][frames]: softmax over the frames
 *             z = (w - mean) / deviation, both of a column over its head's n rows
 *             m = median of z over 7 frames, out [n][frames] = mean of m over the heads
 *
 * Many windows are aligned by each launch: the grid has as many rows as the longest of them needs,
 * and the blocks of others end at once.
 *
 * Scores: a block of four warps for 128 keys of a row; a lane reads 16 bytes, as in attention.cu.
 * Statistics: a block for 32 columns of a head, in float64: of n equal values the mean is then that
 * value and the deviation exactly 0, and where the values hardly differ no digit is lost. That is
 * two sums of a value each; on devices where float64 is slow a large model's 20 heads of 200 tokens
 * (6 million values) still take some 50 microseconds. Medians: a block for 128 frames of a row,
 * which standardises each head's values as it reads them; 13 exchanges take a median. A text is
 * aligned once, so that all this is a hundredth of the decoding.
 *
 * Paths: a block for a window, a thread for a row, in bands of 128 rows. Sums go along
 * anti-diagonals: thread i is at frame d - i, its neighbour above has left its sum there a step
 * before, and the last row of a band leaves its sums for the next. Each sum is of the same two
 * numbers as on the host, and has its bits. A cell keeps where its row was entered, so that the way
 * back is a read for each row. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int HEAD = BACKEND_HEAD_SIZE;
constexpr int SCORE_WARPS = 4;
constexpr int SCORE_KEYS = 128; /* of a block */
constexpr int COLUMNS = 32;     /* of a block of statistics */
constexpr int SHARES = 8;       /* of its rows, each summed by itself */
constexpr int FRAMES = 128;     /* of a block of medians */
constexpr int AROUND = 3;       /* frames of a median on each side */
constexpr int WINDOWS = K_ALIGN_WINDOWS;
constexpr int BAND = 128; /* rows of a path that are under way together */

/* Windows of a launch, and how the scores of all lie. */
struct windows {
    int heads, all; /* rows of all windows, also of those of other launches */
    int columns;    /* of the statistics: the most frames that one of them has */
    struct {
        int first, rows, frames; /* warp: of the path alone */
    } of[WINDOWS];
};

/* T: of the queries, C: of the cache. */
template <class T, class C>
__global__ __launch_bounds__(32 * SCORE_WARPS) void score_rows(struct tensor q, struct kv kv,
                                                               const struct token_row *rows,
                                                               int head, int keys,
                                                               struct tensor out)
{
    constexpr int DIMS = 16 / sizeof(C), LANES = HEAD / DIMS, KEYS = 32 / LANES;
    constexpr int STEPS = SCORE_KEYS / (SCORE_WARPS * KEYS);
    const int row = (int)blockIdx.y, lane = (int)threadIdx.x % 32, part = lane % LANES * DIMS;
    const char *pair = static_cast<const char *>(kv.data) +
                       (size_t)rows[row].cross * kv.slot_stride +
                       (size_t)head * head_bytes<C>(kv.capacity);
    const C *base = reinterpret_cast<const C *>(pair) + part;
    int key = (int)blockIdx.x * SCORE_KEYS + (int)threadIdx.x / 32 * KEYS + lane / LANES;
    float query[DIMS];

    if (rows[row].slot < 0) /* the whole block */
        return;
#pragma unroll
    for (int d = 0; d < DIMS; d++)
        query[d] = to_f32(row_of<T>(q, row)[head * HEAD + part + d]) * 0.125f;
    if constexpr (sizeof(C) == 1) {
        const float *scales =
            reinterpret_cast<const float *>(pair + 2 * (size_t)kv.capacity * HEAD) + part;

#pragma unroll
        for (int d = 0; d < DIMS; d++)
            query[d] *= scales[d];
    }
#pragma unroll 4
    for (int i = 0; i < STEPS; i++, key += SCORE_WARPS * KEYS) {
        const pack<C, DIMS> k =
            *reinterpret_cast<const pack<C, DIMS> *>(base + (size_t)min(key, keys - 1) * HEAD);
        float score = 0.0f;

#pragma unroll
        for (int d = 0; d < DIMS; d++)
            score = fmaf(query[d], to_f32(k.v[d]), score);
#pragma unroll
        for (int lanes = LANES / 2; lanes > 0; lanes /= 2)
            score += __shfl_xor_sync(ALL_LANES, score, lanes);
        if (lane % LANES == 0 && key < keys)
            row_of<float>(out, row)[key] = score;
    }
}

/* The sum over the block's shares of a column, in their order; in all threads of the column. */
__device__ inline double column_sum(double v)
{
    __shared__ double shared[SHARES][COLUMNS];
    double sum = 0.0;

    shared[threadIdx.y][threadIdx.x] = v;
    __syncthreads();
    for (int i = 0; i < SHARES; i++)
        sum += shared[i][threadIdx.x];
    __syncthreads();
    return sum;
}

__global__ __launch_bounds__(SOFTMAX_THREADS) void soften(struct tensor w, struct windows all)
{
    const int row = (int)blockIdx.x, head = (int)blockIdx.y;
    const auto window = all.of[blockIdx.z];
    float *x;

    if (row >= window.rows)
        return;
    x = row_of<float>(w, (int64_t)head * all.all + window.first + row);
    soften_row(x, window.frames, 1.0f, x);
}

/* statistics: [windows][heads][columns] of { mean, 1 / deviation (0 where there is none) }. */
__global__ __launch_bounds__(COLUMNS *SHARES) void column_statistics(struct tensor w,
                                                                     struct windows all,
                                                                     double *statistics)
{
    const int column = (int)blockIdx.x * COLUMNS + (int)threadIdx.x, head = (int)blockIdx.y;
    const auto window = all.of[blockIdx.z];
    const int n = window.rows, frames = window.frames;
    const int64_t first = (int64_t)head * all.all + window.first;
    const int shown = min(column, frames - 1); /* all threads come to the barriers */
    double sum = 0.0, spread = 0.0, mean, variance;

    if ((int)blockIdx.x * COLUMNS >= frames) /* the whole block */
        return;
    for (int i = (int)threadIdx.y; i < n; i += SHARES)
        sum += (double)row_of<const float>(w, first + i)[shown];
    mean = column_sum(sum) / n;
    for (int i = (int)threadIdx.y; i < n; i += SHARES) {
        const double d = (double)row_of<const float>(w, first + i)[shown] - mean;

        spread += d * d;
    }
    variance = column_sum(spread) / n;
    if (threadIdx.y == 0 && column < frames) {
        double *to =
            statistics + 2 * (((int64_t)blockIdx.z * all.heads + head) * all.columns + column);

        to[0] = mean;
        to[1] = variance == 0.0 ? 0.0 : 1.0 / sqrt(variance); /* NaN stays */
    }
}

__device__ inline void exchange(float &a, float &b)
{
    const float least = fminf(a, b);

    b = fmaxf(a, b);
    a = least;
}

/* The median of seven. The smallest and the largest of five cannot be it. They are dropped, the
 * next value is added, and so on; three values are left at the end. */
__device__ inline float median(float *v)
{
    exchange(v[0], v[1]);
    exchange(v[3], v[4]);
    exchange(v[0], v[3]);
    exchange(v[1], v[4]);
    exchange(v[0], v[2]);
    exchange(v[2], v[4]); /* v[0] and v[4] are out */
    exchange(v[1], v[2]);
    exchange(v[3], v[5]);
    exchange(v[1], v[3]);
    exchange(v[2], v[5]); /* v[1] and v[5] are out */
    exchange(v[2], v[3]);
    return fmaxf(v[2], fminf(v[3], v[6]));
}

/* The frame that stands for one outside of [0, frames): mirrored at the first and the last. */
__device__ inline int reflected(int frame, int frames)
{
    frame = abs(frame);
    return frame < frames ? frame : 2 * (frames - 1) - frame;
}

__global__ __launch_bounds__(FRAMES) void median_rows(struct tensor w, struct windows all,
                                                      const double *statistics, struct tensor out)
{
    __shared__ float z[FRAMES + 2 * AROUND];
    const auto window = all.of[blockIdx.z];
    const int row = (int)blockIdx.y, thread = (int)threadIdx.x, frames = window.frames;
    const int first = (int)blockIdx.x * FRAMES, there = min(FRAMES, frames - first);
    float sum = 0.0f, v[2 * AROUND + 1];

    if (row >= window.rows || there <= 0) /* the whole block */
        return;
    for (int head = 0; head < all.heads; head++) {
        const float *in = row_of<const float>(w, (int64_t)head * all.all + window.first + row);
        const double *about =
            statistics + 2 * ((int64_t)blockIdx.z * all.heads + head) * all.columns;

        for (int i = thread; i < there + 2 * AROUND; i += FRAMES) {
            /* With up to AROUND frames nothing is mirrored, nor used. */
            const int at = frames > AROUND ? reflected(first + i - AROUND, frames)
                                           : min(max(i - AROUND, 0), frames - 1);

            z[i] = (float)(((double)in[at] - about[2 * at]) * about[2 * at + 1]);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 2 * AROUND + 1; i++)
            v[i] = z[min(thread, there - 1) + i];
        sum += frames > AROUND ? median(v) : v[AROUND];
        __syncthreads();
    }
    if (thread < there)
        row_of<float>(out, window.first + row)[first + thread] = sum / (float)all.heads;
}

/* hold: two numbers of each row of the matrix, or NULL. */
__global__ __launch_bounds__(BAND) void warp_windows(struct tensor matrix, struct windows all,
                                                     const uint32_t *hold, struct tensor work,
                                                     uint32_t *first_frame)
{
    __shared__ double above[BACKEND_MAX_KEYS], sums[2][BAND];
    const auto window = all.of[blockIdx.x];
    const int n = window.rows, frames = window.frames, thread = (int)threadIdx.x;

    for (int j = thread; j < frames; j += BAND)
        above[j] = INFINITY;
    __syncthreads();
    for (int band = 0; band < n; band += BAND) {
        const int row = band + thread, steps = frames + min(BAND, n - band) - 1;
        const int at = window.first + min(row, n - 1);
        const float *value = row_of<const float>(matrix, at);
        uint16_t *entries = reinterpret_cast<uint16_t *>(row_of<float>(work, at));
        const uint32_t from = hold ? hold[2 * at] : 0, to = hold ? hold[2 * at + 1] : UINT32_MAX;
        double left = INFINITY, diagonal = row == 0 ? 0.0 : INFINITY;
        uint16_t entry = 0;

        for (int d = 0; d < steps; d++) {
            const int j = d - thread;

            if (row < n && j >= 0 && j < frames) {
                const double up = thread == 0 ? above[j] : sums[(d + 1) % 2][thread - 1];
                const bool held = (uint32_t)j < from || (uint32_t)j >= to;
                const double cost = held ? ALIGN_HELD_COST : -(double)value[j];
                const bool is_diagonal = diagonal < up && diagonal < left;
                const bool is_up = up < diagonal && up < left;

                if (is_diagonal || is_up || j == 0)
                    entry = (uint16_t)(2 * j + (is_diagonal && j > 0));
                entries[j] = entry;
                left = cost + (is_diagonal ? diagonal : is_up ? up : left);
                sums[d % 2][thread] = left;
                if (thread == BAND - 1) /* thread 0 has read what was there */
                    above[j] = left;
                diagonal = up;
            }
            __syncthreads();
        }
    }
    if (thread == 0) {
        int j = frames - 1;

        for (int i = n - 1; i > 0; i--) {
            const uint16_t entry =
                reinterpret_cast<const uint16_t *>(row_of<float>(work, window.first + i))[j];

            first_frame[window.first + i] = entry / 2u;
            j = entry / 2 - entry % 2;
        }
        first_frame[window.first] = 0;
    }
}

/* All windows of a launch, of which the longest has so many rows and frames. */
int align_windows(cudaStream_t s, const struct tensor &scores, const struct windows &all,
                  unsigned count, unsigned rows, double *statistics, const struct tensor &out)
{
    const unsigned frames = (unsigned)all.columns, heads = (unsigned)all.heads;
    int rc;

    LAUNCH(soften, dim3(rows, heads, count), dim3(SOFTMAX_THREADS), 0, s)(scores, all);
    rc = launched();
    if (rc != 0)
        return rc;
    LAUNCH(column_statistics, dim3((frames + COLUMNS - 1) / COLUMNS, heads, count),
           dim3(COLUMNS, SHARES), 0, s)
    (scores, all, statistics);
    rc = launched();
    if (rc != 0)
        return rc;
    LAUNCH(median_rows, dim3((frames + FRAMES - 1) / FRAMES, rows, count), dim3(FRAMES), 0, s)
    (scores, all, statistics, out);
    return launched();
}

} // namespace

int k_attention_scores(cudaStream_t s, struct tensor q, struct kv kv, const struct token_row *rows,
                       uint32_t head, uint32_t keys, struct tensor out)
{
    dim3 grid((keys + SCORE_KEYS - 1) / SCORE_KEYS, (unsigned)q.rows);

    if (is_empty(q) || keys == 0)
        return 0;
    if (q.rows > 65535)
        return (int)cudaErrorInvalidValue;
    return by_type(q.type, [&](auto a) {
        using T = decltype(a);
        auto kernel = kv.type == DTYPE_I8 ? score_rows<T, int8_t> : score_rows<T, T>;

        LAUNCH(kernel, grid, dim3(32 * SCORE_WARPS), 0, s)
        (q, kv, rows, (int)head, (int)keys, out);
        return launched();
    });
}

int k_align(cudaStream_t s, struct tensor scores, uint32_t heads,
            const struct align_window *windows, uint32_t n, double *statistics, struct tensor out)
{
    int first = 0, rc = 0;

    if (is_empty(out) || heads == 0 || n == 0)
        return 0;
    if (out.rows > 65535 || heads > 65535)
        return (int)cudaErrorInvalidValue;
    for (uint32_t at = 0; rc == 0 && at < n; at += WINDOWS) {
        const uint32_t count = n - at < WINDOWS ? n - at : WINDOWS;
        struct windows all = {(int)heads, (int)out.rows, 0, {}};
        uint32_t rows = 0;

        for (uint32_t i = 0; i < count; i++) {
            const struct align_window w = windows[at + i];

            all.of[i] = {first, (int)w.rows, (int)w.frames};
            all.columns = (int)w.frames > all.columns ? (int)w.frames : all.columns;
            rows = w.rows > rows ? w.rows : rows;
            first += (int)w.rows;
        }
        rc = align_windows(s, scores, all, count, rows, statistics, out);
    }
    return rc;
}

int k_warp(cudaStream_t s, struct tensor matrix, const struct align_window *windows, uint32_t n,
           const uint32_t *hold, struct tensor work, uint32_t *first_frame)
{
    int first = 0, rc = 0;

    for (uint32_t at = 0; rc == 0 && at < n; at += WINDOWS) {
        const uint32_t count = n - at < WINDOWS ? n - at : WINDOWS;
        struct windows all = {0, (int)matrix.rows, 0, {}};

        for (uint32_t i = 0; i < count; i++) {
            const struct align_window w = windows[at + i];

            all.of[i] = {first + (int)w.path, (int)w.length, (int)w.frames};
            first += (int)w.rows;
        }
        LAUNCH(warp_windows, dim3(count), dim3(BAND), 0, s)
        (matrix, all, hold, work, first_frame);
        rc = launched();
    }
    return rc;
}
