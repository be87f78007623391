/* Activations, and what is taken over the rows of windows and sequences. */
#include "gpu/cuda/cuda.h"

#include "gpu/cuda/kernels.h"

#define MOST_COLUMNS (1 << 20) /* their blocks are a grid's second dimension */

static bool is_f32(struct tensor t)
{
    return t.type == DTYPE_F32 && t.data && t.rows > 0 && t.rows <= INT32_MAX && t.cols > 0 &&
           t.cols <= MOST_COLUMNS && t.stride >= t.cols;
}

static bool is_vector(struct tensor t, int64_t cols)
{
    return is_f32(t) && t.rows == 1 && t.cols == cols;
}

int cuda_activate(struct backend *be, enum activation f, struct tensor x, struct tensor y,
                  struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (!is_f32(x) || !y.data || y.stride < y.cols || y.rows != x.rows || y.cols != x.cols ||
        (unsigned)f > ACTIVATION_SIGMOID)
        return cuda_shape(err, "activate");
    return cuda_status(err, k_activate(c->work, f, x, y), "activating");
}

int cuda_instance_norm(struct backend *be, uint32_t windows, struct tensor x, struct tensor gamma,
                       struct tensor beta, float epsilon, struct tensor y, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    void *scratch;
    int rc;

    if (!is_f32(x) || !is_f32(y) || windows < 1 || x.rows % windows != 0 || y.rows != x.rows ||
        y.cols != x.cols || !is_vector(gamma, x.cols) || !is_vector(beta, x.cols) ||
        !(epsilon > 0.0f))
        return cuda_shape(err, "instance_norm");
    rc = cuda_scratch(c, k_norm_bytes(windows, x), &scratch, err);
    return rc != 0 ? rc
                   : cuda_status(err,
                                 k_instance_norm(c->work, windows, x, gamma.data, beta.data,
                                                 epsilon, scratch, y),
                                 "instance norm");
}

int cuda_max_pool(struct backend *be, uint32_t windows, uint32_t size, bool magnitudes,
                  struct tensor x, struct tensor y, struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (!is_f32(x) || !is_f32(y) || windows < 1 || size < 1 || x.rows % windows != 0 ||
        y.rows != x.rows / windows / size * windows || y.cols != x.cols)
        return cuda_shape(err, "max_pool");
    return cuda_status(err, k_max_pool(c->work, windows, size, magnitudes, x, y), "pooling");
}

int cuda_numbers(struct cuda *c, const uint32_t *numbers, size_t n, uint32_t **ret, struct err *err)
{
    void *p;
    int rc = cuda_scratch(c, n * sizeof(*numbers), &p, err);

    *ret = p;
    return rc == 0 ? cuda_upload(c, c->work, p, numbers, n * sizeof(*numbers), err) : rc;
}

int cuda_pool(struct backend *be, enum pool kind, struct spans spans, struct tensor x,
              struct tensor y, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    uint32_t *at = NULL;
    int rc = cuda_not_recording(c, "pool", err);

    if (rc != 0)
        return rc;
    if (!is_f32(x) || !is_f32(y) || (unsigned)kind > POOL_FIRST || cuda_spans(spans, x.rows) == 0 ||
        y.rows != spans.count || y.cols != x.cols)
        return cuda_shape(err, "pool");
    for (uint32_t i = 0; i < spans.count; i++)
        if (spans.at[i] == spans.at[i + 1])
            return cuda_shape(err, "pool");
    rc = cuda_numbers(c, spans.at, (size_t)spans.count + 1, &at, err);
    return rc == 0 ? cuda_status(err, k_pool(c->work, kind, at, x, y), "pooling") : rc;
}

int cuda_weighted_stats(struct backend *be, uint32_t windows, struct tensor x, const uint32_t *of,
                        struct tensor weights, struct tensor y, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    uint32_t *device_of = NULL;
    int rc = cuda_not_recording(c, "weighted_stats", err);

    if (rc != 0)
        return rc;
    if (!is_f32(x) || !is_f32(weights) || !is_f32(y) || windows < 1 ||
        x.rows != weights.cols * windows || y.rows != weights.rows || y.cols != 2 * x.cols)
        return cuda_shape(err, "weighted_stats");
    for (int64_t i = 0; i < weights.rows; i++)
        if (of[i] >= windows)
            return cuda_shape(err, "weighted_stats");
    rc = cuda_numbers(c, of, (size_t)weights.rows, &device_of, err);
    return rc == 0 ? cuda_status(err, k_weighted_stats(c->work, windows, x, device_of, weights, y),
                                 "taking statistics")
                   : rc;
}
