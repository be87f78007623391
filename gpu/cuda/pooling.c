/* Activations, and what is taken over the rows of windows and sequences. */
#include "gpu/cuda/cuda.h"

#include <stdlib.h>

#include "gpu/cuda/kernels.h"

#define MOST_TAPS 1024
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

/* --- rows at another rate ------------------------------------------------------------------ */

struct resampling {
    struct resample_spec spec;
    void *w; /* [taps][up] */
};

static bool resample_spec_fits(const struct resample_spec *s)
{
    return s->up > 0 && s->up <= BACKEND_MAX_RATE && s->down > 0 && s->down <= BACKEND_MAX_RATE &&
           s->taps > 0 && s->taps <= MOST_TAPS && s->before < s->taps;
}

static int put_taps(struct backend *be, struct resampling *r, const float *w, struct err *err)
{
    size_t up = r->spec.up, taps = r->spec.taps, bytes = up * taps * sizeof(float);
    float *turned = malloc(bytes);
    int rc = turned ? cuda_alloc(be, bytes, &r->w, err) : err_no_memory(err, "resampling");

    for (size_t i = 0; turned && i < up * taps; i++)
        turned[i % taps * up + i / taps] = w[i];
    if (rc == 0)
        rc = cuda_write(be, r->w, turned, bytes, err);
    free(turned);
    return rc;
}

int cuda_resample_new(struct backend *be, const struct resample_spec *spec, const float *w,
                      struct resampling **ret, struct err *err)
{
    struct resampling *r;
    int rc;

    if (!resample_spec_fits(spec))
        return cuda_shape(err, "resample_new");
    r = calloc(1, sizeof(*r));
    if (!r)
        return err_no_memory(err, "resampling");
    r->spec = *spec;
    rc = put_taps(be, r, w, err);
    if (rc != 0) {
        cuda_resample_free(be, r);
        return rc;
    }
    *ret = r;
    return 0;
}

void cuda_resample_free(struct backend *be, struct resampling *r)
{
    if (!r)
        return;
    cuda_release(be, r->w);
    free(r);
}

int cuda_resample(struct backend *be, struct resampling *r, uint32_t windows,
                  const uint32_t *lengths, struct tensor x, const struct tensor *gamma,
                  const struct tensor *beta, struct tensor y, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    struct resample_device d;
    uint32_t *device_lengths = NULL;
    int rc = cuda_not_recording(c, "resample", err);

    if (rc != 0)
        return rc;
    if (!is_f32(x) || !is_f32(y) || windows < 1 || x.rows % windows != 0 || y.rows % windows != 0 ||
        y.cols != x.cols || !gamma != !beta ||
        (gamma && (!is_vector(*gamma, x.cols) || !is_vector(*beta, x.cols))))
        return cuda_shape(err, "resample");
    for (uint32_t i = 0; lengths && i < windows; i++)
        if (lengths[i] < 1 || lengths[i] > x.rows / windows)
            return cuda_shape(err, "resample");
    if (lengths)
        rc = cuda_numbers(c, lengths, windows, &device_lengths, err);
    d = (struct resample_device){.up = r->spec.up,
                                 .down = r->spec.down,
                                 .taps = r->spec.taps,
                                 .before = r->spec.before,
                                 .keep_ends = r->spec.keep_ends,
                                 .w = r->w,
                                 .lengths = device_lengths,
                                 .gamma = gamma ? gamma->data : NULL,
                                 .beta = beta ? beta->data : NULL};
    return rc == 0 ? cuda_status(err, k_resample(c->work, &d, windows, x, y), "resampling") : rc;
}
