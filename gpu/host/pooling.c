/* Activations, and what is taken over the rows of windows and sequences: norms, pools, statistics.
 * Sums over thousands of rows are in double precision, row after row. */
#include "gpu/host/host.h"

#include <math.h>
#include <omp.h>

#define BLOCK KERNEL_BLOCK
#define STRETCH 4096 /* values of a call */

static float *f32_row(struct tensor t, int64_t row) { return (float *)t.data + row * t.stride; }

static size_t bytes_of(struct tensor t) { return (size_t)(t.rows * t.cols) * dtype_size(t.type); }

static bool is_vector(struct tensor t, int64_t cols)
{
    return t.type == DTYPE_F32 && t.rows == 1 && t.cols == cols;
}

int host_activate(struct backend *be, enum activation f, struct tensor x, struct tensor y,
                  struct err *err)
{
    struct host *h = host_of(be);
    int64_t step = 1;

    if (x.type != DTYPE_F32 || y.type == DTYPE_F16 || x.rows != y.rows || x.cols != y.cols ||
        (unsigned)f > ACTIVATION_SIGMOID)
        return host_shape(err, "activate");
    if (x.stride == x.cols && y.stride == y.cols && x.cols > 0)
        step += STRETCH / x.cols; /* rows that lie together are one */
#pragma omp parallel for schedule(static) num_threads(host_threads(h, bytes_of(x)))
    for (int64_t r = 0; r < x.rows; r += step) {
        int64_t rows = x.rows - r < step ? x.rows - r : step;

        h->kernels->activate(f, f32_row(x, r), (size_t)(rows * x.cols), tensor_rows(y, r, 1).data,
                             y.type == DTYPE_BF16);
    }
    return 0;
}

/* One column whose rows lie together, such as samples: as rows of a whole block. */
static void norm_one(const struct host *h, struct tensor x, struct tensor gamma, struct tensor beta,
                     float epsilon, struct tensor y)
{
    size_t blocks = (size_t)x.rows / BLOCK, rest = (size_t)x.rows % BLOCK;
    double part[BLOCK], mean[BLOCK], sum[2] = {0};
    const float *from = x.data, *end = from + blocks * BLOCK;
    float centre[BLOCK], scale[BLOCK], shift[BLOCK];

    for (int squares = 0; squares < 2; squares++) {
        h->kernels->column_sums(from, BLOCK, blocks, BLOCK, NULL, squares ? mean : NULL, part);
        for (size_t i = 0; i < BLOCK; i++)
            sum[squares] += part[i];
        h->kernels->column_sums(end, BLOCK, 1, rest, NULL, squares ? mean : NULL, part);
        for (size_t i = 0; i < rest; i++)
            sum[squares] += part[i];
        for (size_t i = 0; i < BLOCK; i++)
            mean[i] = sum[0] / (double)x.rows;
    }
    for (size_t i = 0; i < BLOCK; i++) {
        centre[i] = (float)mean[i];
        scale[i] =
            (float)((double)f32_row(gamma, 0)[0] / sqrt(sum[1] / (double)x.rows + (double)epsilon));
        shift[i] = f32_row(beta, 0)[0];
    }
    h->kernels->scale_columns(from, BLOCK, blocks, BLOCK, centre, scale, shift, y.data, BLOCK);
    h->kernels->scale_columns(end, BLOCK, 1, rest, centre, scale, shift,
                              (float *)y.data + blocks * BLOCK, BLOCK);
}

/* Columns [c, c + n) of the rows of one window. */
static void norm_columns(const struct host *h, struct tensor x, struct tensor gamma,
                         struct tensor beta, float epsilon, struct tensor y, int64_t c)
{
    size_t n = (size_t)(x.cols - c < BLOCK ? x.cols - c : BLOCK), rows = (size_t)x.rows;
    double mean[BLOCK], spread[BLOCK];
    float centre[BLOCK], scale[BLOCK];

    if (x.cols == 1 && x.stride == 1 && y.stride == 1) {
        norm_one(h, x, gamma, beta, epsilon, y);
        return;
    }
    h->kernels->column_sums(f32_row(x, 0) + c, (size_t)x.stride, rows, n, NULL, NULL, mean);
    for (size_t i = 0; i < n; i++)
        mean[i] /= (double)rows;
    h->kernels->column_sums(f32_row(x, 0) + c, (size_t)x.stride, rows, n, NULL, mean, spread);
    for (size_t i = 0; i < n; i++) {
        centre[i] = (float)mean[i];
        scale[i] = (float)((double)f32_row(gamma, 0)[(size_t)c + i] /
                           sqrt(spread[i] / (double)rows + (double)epsilon));
    }
    h->kernels->scale_columns(f32_row(x, 0) + c, (size_t)x.stride, rows, n, centre, scale,
                              f32_row(beta, 0) + c, f32_row(y, 0) + c, (size_t)y.stride);
}

int host_instance_norm(struct backend *be, uint32_t windows, struct tensor x, struct tensor gamma,
                       struct tensor beta, float epsilon, struct tensor y, struct err *err)
{
    struct host *h = host_of(be);
    int64_t n = windows ? x.rows / windows : 0, blocks = (x.cols + BLOCK - 1) / BLOCK;

    if (x.type != DTYPE_F32 || y.type != DTYPE_F32 || n < 1 || x.rows != n * windows ||
        y.rows != x.rows || y.cols != x.cols || !is_vector(gamma, x.cols) ||
        !is_vector(beta, x.cols) || !(epsilon > 0.0f))
        return host_shape(err, "instance_norm");
#pragma omp parallel for collapse(2) schedule(dynamic) num_threads(host_threads(h, bytes_of(x)))
    for (uint32_t w = 0; w < windows; w++) {
        for (int64_t b = 0; b < blocks; b++)
            norm_columns(h, tensor_rows(x, w * n, n), gamma, beta, epsilon,
                         tensor_rows(y, w * n, n), b * BLOCK);
    }
    return 0;
}

/* The largest magnitude of each column; NaN when one is. */
static void highest_magnitudes(struct tensor x, float *y)
{
    for (int64_t c = 0; c < x.cols; c++)
        y[c] = fabsf(f32_row(x, 0)[c]);
    for (int64_t r = 1; r < x.rows; r++) {
        const float *row = f32_row(x, r);

        for (int64_t c = 0; c < x.cols; c++) {
            float v = fabsf(row[c]);

            y[c] = y[c] > v || y[c] != y[c] ? y[c] : v;
        }
    }
}

int host_max_pool(struct backend *be, uint32_t windows, uint32_t size, bool magnitudes,
                  struct tensor x, struct tensor y, struct err *err)
{
    struct host *h = host_of(be);
    int64_t n = windows ? x.rows / windows : 0, out = size ? n / size : 0;

    if (x.type != DTYPE_F32 || y.type != DTYPE_F32 || n < 1 || x.rows != n * windows || out < 1 ||
        y.rows != out * windows || y.cols != x.cols)
        return host_shape(err, "max_pool");
#pragma omp parallel for schedule(static) num_threads(host_threads(h, bytes_of(x)))
    for (int64_t r = 0; r < y.rows; r++) {
        const struct tensor some = tensor_rows(x, r / out * n + r % out * size, size);

        if (magnitudes)
            highest_magnitudes(some, f32_row(y, r));
        else
            h->kernels->highest_rows(some.data, (size_t)x.stride, size, (size_t)x.cols,
                                     f32_row(y, r));
    }
    return 0;
}

bool host_spans_fit(struct spans spans, int64_t rows)
{
    if (spans.count < 1 || !spans.at || spans.at[0] != 0 || spans.at[spans.count] != rows)
        return false;
    for (uint32_t i = 0; i < spans.count; i++)
        if (spans.at[i] > spans.at[i + 1])
            return false;
    return true;
}

/* One sequence to one row. */
static void pool_one(const struct host *h, enum pool kind, struct tensor x, float *y)
{
    double sum[BLOCK];

    if (kind == POOL_FIRST)
        memcpy(y, x.data, (size_t)x.cols * sizeof(*y));
    if (kind == POOL_MAX)
        h->kernels->highest_rows(x.data, (size_t)x.stride, (size_t)x.rows, (size_t)x.cols, y);
    for (int64_t c = 0; kind == POOL_MEAN && c < x.cols; c += BLOCK) {
        size_t n = (size_t)(x.cols - c < BLOCK ? x.cols - c : BLOCK);

        h->kernels->column_sums((const float *)x.data + c, (size_t)x.stride, (size_t)x.rows, n,
                                NULL, NULL, sum);
        for (size_t i = 0; i < n; i++)
            y[(size_t)c + i] = (float)(sum[i] / (double)x.rows);
    }
}

int host_pool(struct backend *be, enum pool kind, struct spans spans, struct tensor x,
              struct tensor y, struct err *err)
{
    struct host *h = host_of(be);

    if (x.type != DTYPE_F32 || y.type != DTYPE_F32 || (unsigned)kind > POOL_FIRST ||
        !host_spans_fit(spans, x.rows) || y.rows != spans.count || y.cols != x.cols)
        return host_shape(err, "pool");
    for (uint32_t i = 0; i < spans.count; i++)
        if (spans.at[i] == spans.at[i + 1])
            return host_shape(err, "pool");
#pragma omp parallel for schedule(dynamic) num_threads(host_threads(h, bytes_of(x)))
    for (uint32_t i = 0; i < spans.count; i++)
        pool_one(h, kind, tensor_rows(x, spans.at[i], spans.at[i + 1] - spans.at[i]),
                 f32_row(y, i));
    return 0;
}

/* Columns from c of one set of weights. x: one window's. */
static void stats_columns(const struct host *h, struct tensor x, const float *weights, float *y,
                          int64_t c)
{
    size_t n = (size_t)(x.cols - c < BLOCK ? x.cols - c : BLOCK);
    double v1 = 1e-8, v2 = 0.0, mean[BLOCK], spread[BLOCK];

    for (int64_t t = 0; t < x.rows; t++) {
        v1 += (double)weights[t];
        v2 += (double)weights[t] * (double)weights[t];
    }
    h->kernels->column_sums(f32_row(x, 0) + c, (size_t)x.stride, (size_t)x.rows, n, weights, NULL,
                            mean);
    for (size_t i = 0; i < n; i++)
        mean[i] /= v1;
    h->kernels->column_sums(f32_row(x, 0) + c, (size_t)x.stride, (size_t)x.rows, n, weights, mean,
                            spread);
    for (size_t i = 0; i < n; i++) {
        y[(size_t)c + i] = (float)mean[i];
        y[(size_t)(x.cols + c) + i] = (float)sqrt(spread[i] / (v1 - v2 / v1 + 1e-8));
    }
}

int host_weighted_stats(struct backend *be, uint32_t windows, struct tensor x, const uint32_t *of,
                        struct tensor weights, struct tensor y, struct err *err)
{
    struct host *h = host_of(be);
    int64_t t = windows ? x.rows / windows : 0, blocks = (x.cols + BLOCK - 1) / BLOCK;

    if (x.type != DTYPE_F32 || weights.type != DTYPE_F32 || y.type != DTYPE_F32 || t < 1 ||
        x.rows != t * windows || weights.cols != t || weights.rows < 1 || y.rows != weights.rows ||
        y.cols != 2 * x.cols)
        return host_shape(err, "weighted_stats");
    for (int64_t i = 0; i < weights.rows; i++)
        if (of[i] >= windows)
            return host_shape(err, "weighted_stats");
#pragma omp parallel for collapse(2) schedule(dynamic) num_threads(host_threads(h, bytes_of(x)))
    for (int64_t i = 0; i < weights.rows; i++) {
        for (int64_t b = 0; b < blocks; b++)
            stats_columns(h, tensor_rows(x, of[i] * t, t), f32_row(weights, i), f32_row(y, i),
                          b * BLOCK);
    }
    return 0;
}
