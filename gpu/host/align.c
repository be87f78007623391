/* How tokens follow the audio: what openai-whisper's timing.py makes of the attention of a few
 * heads, and the path through it. Sums are of doubles, over the rows in their order. */
#include "gpu/host/host.h"

#include <math.h>
#include <omp.h>

#define STRIP 32 /* columns that are standardised together */
#define SIDE 3   /* frames on each side of a median of 7 */

static float *row_of(struct tensor t, int64_t row) { return (float *)t.data + row * t.stride; }

/* Columns [first, first + count) of n rows of one head. */
static void standardise_columns(struct tensor t, int64_t row, int64_t n, int64_t first,
                                int64_t count)
{
    double mean[STRIP] = {0}, variance[STRIP] = {0}, scale[STRIP];
    float low[STRIP], high[STRIP];

    memcpy(low, row_of(t, row) + first, (size_t)count * sizeof(*low));
    memcpy(high, low, (size_t)count * sizeof(*high));
    for (int64_t r = row; r < row + n; r++) {
        const float *x = row_of(t, r) + first;

        for (int64_t c = 0; c < count; c++) {
            mean[c] += (double)x[c];
            low[c] = x[c] < low[c] ? x[c] : low[c];
            high[c] = x[c] > high[c] ? x[c] : high[c];
        }
    }
    for (int64_t c = 0; c < count; c++)
        mean[c] /= (double)n;
    for (int64_t r = row; r < row + n; r++) {
        const float *x = row_of(t, r) + first;

        for (int64_t c = 0; c < count; c++)
            variance[c] += ((double)x[c] - mean[c]) * ((double)x[c] - mean[c]);
    }
    for (int64_t c = 0; c < count; c++)
        scale[c] = low[c] == high[c] ? 0.0 : 1.0 / sqrt(variance[c] / (double)n);
    for (int64_t r = row; r < row + n; r++) {
        float *x = row_of(t, r) + first;

        for (int64_t c = 0; c < count; c++)
            x[c] = (float)(((double)x[c] - mean[c]) * scale[c]);
    }
}

/* The row with what a median needs beside it: reflected at its ends, not repeating them. */
static void pad_by_reflection(const float *x, int64_t frames, float *ret)
{
    for (int64_t i = 1; i <= SIDE; i++) {
        ret[SIDE - i] = x[i];
        ret[SIDE + frames - 1 + i] = x[frames - 1 - i];
    }
    memcpy(ret + SIDE, x, (size_t)frames * sizeof(*ret));
}

/* A window among the rows of all. */
struct aligned {
    struct tensor scores, out; /* of all windows */
    uint32_t heads;
    int64_t first, n, frames; /* its rows, and how many columns are its own */
};

/* Its row r of a head. */
static int64_t score_row(const struct aligned *a, int64_t head, int64_t r)
{
    return head * a->out.rows + a->first + r;
}

/* Row r of all heads. */
static void average_filtered_heads(const struct host *h, const struct aligned *a, int64_t r)
{
    float sum[BACKEND_MAX_KEYS] = {0}, wide[BACKEND_MAX_KEYS + 2 * SIDE] = {0};
    size_t whole = ((size_t)a->frames + 15) / 16 * 16;

    for (uint32_t head = 0; head < a->heads; head++) {
        const float *x = row_of(a->scores, score_row(a, head, r));

        if (a->frames > SIDE) {
            pad_by_reflection(x, a->frames, wide);
            h->kernels->add_median(wide, whole, sum);
            continue;
        }
        for (int64_t i = 0; i < a->frames; i++)
            sum[i] += x[i];
    }
    for (int64_t i = 0; i < a->frames; i++)
        row_of(a->out, a->first + r)[i] = sum[i] / (float)a->heads;
}

static void align_window(const struct host *h, const struct aligned *a)
{
    int64_t strips = (a->frames + STRIP - 1) / STRIP, all = a->n * a->heads;
    int threads = host_threads(h, (size_t)(all * a->frames) * sizeof(float));

#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < all; i++)
        h->kernels->softmax(row_of(a->scores, score_row(a, i / a->n, i % a->n)), (size_t)a->frames);
#pragma omp parallel for collapse(2) schedule(static) num_threads(threads)
    for (uint32_t head = 0; head < a->heads; head++) {
        for (int64_t s = 0; s < strips; s++)
            standardise_columns(a->scores, score_row(a, head, 0), a->n, s * STRIP,
                                a->frames - s * STRIP < STRIP ? a->frames - s * STRIP : STRIP);
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < a->n; r++)
        average_filtered_heads(h, a, r);
}

int host_align(struct backend *be, struct tensor scores, uint32_t heads,
               const struct align_window *windows, uint32_t n, struct tensor out, struct err *err)
{
    struct aligned a = {.scores = scores, .out = out, .heads = heads};
    int64_t rows = backend_align_rows(windows, n, scores.cols < out.cols ? scores.cols : out.cols);

    if (scores.type != DTYPE_F32 || out.type != DTYPE_F32 || heads < 1 || rows < 1 ||
        rows != out.rows || scores.rows != rows * heads)
        return host_shape(err, "align");
    for (uint32_t i = 0; i < n; i++, a.first += a.n) {
        a.n = windows[i].rows;
        a.frames = windows[i].frames;
        align_window(host_of(be), &a);
    }
    return 0;
}

/* ---- paths */

/* One row of the sums: below[j + 1] = the cost of j + the least of its three neighbours. above[0]
 * and below[0] lie outside. entry[j]: twice the frame at which the best path to j came into this
 * row, and one more if it came from the frame before. A step must be strictly the cheapest to be
 * diagonal or upwards. */
static void warp_row(const float *value, const struct align_hold *hold, uint32_t frames,
                     const double *above, double *below, uint16_t *entry)
{
    double left = INFINITY;

    below[0] = INFINITY;
    for (uint32_t j = 0; j < frames; j++) {
        double diagonal = above[j], up = above[j + 1];
        double cost = j < hold->from || j >= hold->to ? ALIGN_HELD_COST : -(double)value[j];
        bool is_diagonal = diagonal < up && diagonal < left;
        bool is_up = up < diagonal && up < left;
        double best = is_up ? up : left;

        best = is_diagonal ? diagonal : best;
        entry[j] = is_diagonal || is_up || j == 0 ? (uint16_t)(2 * j + (is_diagonal && j > 0))
                                                  : entry[j - 1];
        below[j + 1] = left = cost + best;
    }
}

/* Rows of one window: of the matrix, the holds (or NULL), the work and the result. */
static void warp_window(struct tensor matrix, const struct align_hold *hold, struct tensor work,
                        int64_t first, uint32_t n, uint32_t frames, uint32_t *first_frame)
{
    const struct align_hold free_row = {0, UINT32_MAX};
    double sums[2][BACKEND_MAX_KEYS + 1];
    uint32_t j = frames - 1;

    for (uint32_t i = 0; i <= frames; i++)
        sums[0][i] = i > 0 ? (double)INFINITY : 0.0;
    for (uint32_t i = 0; i < n; i++)
        warp_row(row_of(matrix, first + i), hold ? &hold[first + i] : &free_row, frames,
                 sums[i % 2], sums[(i + 1) % 2], (uint16_t *)row_of(work, first + i));
    for (uint32_t i = n - 1; i > 0; i--) {
        uint16_t entry = ((const uint16_t *)row_of(work, first + i))[j];

        first_frame[first + i] = entry / 2;
        j = entry / 2 - entry % 2;
    }
    first_frame[first] = 0;
}

int host_warp(struct backend *be, struct tensor matrix, const struct align_window *windows,
              uint32_t n, const struct align_hold *hold, struct tensor work, uint32_t *first_frame,
              struct err *err)
{
    struct host *h = host_of(be);
    int64_t most = matrix.cols < work.cols ? matrix.cols : work.cols;
    int64_t rows = backend_align_rows(windows, n, most);

    if (matrix.type != DTYPE_F32 || work.type != DTYPE_F32 || rows < 1 || rows != matrix.rows ||
        rows != work.rows || !backend_align_paths(windows, n))
        return host_shape(err, "warp");
#pragma omp parallel for schedule(dynamic) num_threads(n > 1 ? h->threads : 1)
    for (uint32_t i = 0; i < n; i++) {
        int64_t first = 0;

        for (uint32_t k = 0; k < i; k++)
            first += windows[k].rows;
        warp_window(matrix, hold, work, first + windows[i].path, windows[i].length,
                    windows[i].frames, first_frame);
    }
    return 0;
}
