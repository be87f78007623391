/* How tokens follow the audio: what openai-whisper's timing.py makes of the attention of a few
 * heads, before it looks for a path. Sums are of doubles, over the rows in their order. */
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

/* Row r of all heads. */
static void average_filtered_heads(const struct host *h, struct tensor scores, uint32_t heads,
                                   int64_t frames, int64_t r, struct tensor out)
{
    float sum[BACKEND_MAX_KEYS] = {0}, wide[BACKEND_MAX_KEYS + 2 * SIDE] = {0};
    size_t whole = ((size_t)frames + 15) / 16 * 16;

    for (uint32_t head = 0; head < heads; head++) {
        const float *x = row_of(scores, head * out.rows + r);

        if (frames > SIDE) {
            pad_by_reflection(x, frames, wide);
            h->kernels->add_median(wide, whole, sum);
            continue;
        }
        for (int64_t i = 0; i < frames; i++)
            sum[i] += x[i];
    }
    for (int64_t i = 0; i < frames; i++)
        row_of(out, r)[i] = sum[i] / (float)heads;
}

int host_align(struct backend *be, struct tensor scores, uint32_t heads, uint32_t frames,
               struct tensor out, struct err *err)
{
    struct host *h = host_of(be);
    int64_t n = out.rows, strips = ((int64_t)frames + STRIP - 1) / STRIP;
    int threads = host_threads(h, (size_t)scores.rows * frames * sizeof(float));

    if (scores.type != DTYPE_F32 || out.type != DTYPE_F32 || heads < 1 || frames < 1 ||
        frames > BACKEND_MAX_KEYS || n < 1 || scores.rows != n * heads || scores.cols < frames ||
        out.cols < frames)
        return host_shape(err, "align");
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < scores.rows; r++)
        h->kernels->softmax(row_of(scores, r), frames);
#pragma omp parallel for collapse(2) schedule(static) num_threads(threads)
    for (uint32_t head = 0; head < heads; head++) {
        for (int64_t s = 0; s < strips; s++)
            standardise_columns(scores, head * n, n, s * STRIP,
                                frames - s * STRIP < STRIP ? frames - s * STRIP : STRIP);
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < n; r++)
        average_filtered_heads(h, scores, heads, frames, r, out);
    return 0;
}
