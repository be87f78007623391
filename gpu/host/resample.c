/* Rows at another rate. One column whose rate is multiplied, such as samples: the outputs of one
 * phase lie beside each other in the input, and are summed abreast, a block at a time. Anything
 * else row by row, columns abreast. An output's sum has one order either way. */
#include "gpu/host/host.h"

#include <stdlib.h>

#define BLOCK 512 /* samples whose sums stay in the nearest cache */
#define MOST_TAPS 1024

struct resampling {
    struct resample_spec spec;
    float *w;        /* [up][taps]: of each phase those that are not 0, and */
    uint16_t *seen;  /* [up][taps]: which of its rows they are for */
    uint16_t *count; /* [up] */
};

/* One call's. */
struct job {
    const struct host *host;
    const struct resampling *r;
    struct tensor x, y; /* of one window */
    int64_t length;     /* rows of x that count */
    int64_t end;        /* rows of y that are not behind it */
    const float *gamma, *beta;
};

static bool spec_fits(const struct resample_spec *s)
{
    return s->up > 0 && s->up <= BACKEND_MAX_RATE && s->down > 0 && s->down <= BACKEND_MAX_RATE &&
           s->taps > 0 && s->taps <= MOST_TAPS && s->before < s->taps;
}

static void keep_weights(struct resampling *r, const float *w)
{
    for (size_t phase = 0; phase < r->spec.up; phase++) {
        size_t first = phase * r->spec.taps, n = 0;

        for (uint16_t k = 0; k < r->spec.taps; k++) {
            if (w[first + k] == 0.0f)
                continue;
            r->w[first + n] = w[first + k];
            r->seen[first + n++] = k;
        }
        r->count[phase] = (uint16_t)n;
    }
}

int host_resample_new(struct backend *be, const struct resample_spec *spec, const float *w,
                      struct resampling **ret, struct err *err)
{
    struct resampling *r;
    size_t weights;

    if (!spec_fits(spec))
        return host_shape(err, "resample_new");
    r = calloc(1, sizeof(*r));
    if (!r)
        return err_no_memory(err, "resampling");
    r->spec = *spec;
    weights = (size_t)spec->up * spec->taps;
    r->w = malloc(weights * sizeof(*r->w));
    r->seen = malloc(weights * sizeof(*r->seen));
    r->count = malloc(spec->up * sizeof(*r->count));
    if (!r->w || !r->seen || !r->count) {
        host_resample_free(be, r);
        return err_no_memory(err, "resampling");
    }
    keep_weights(r, w);
    *ret = r;
    return 0;
}

void host_resample_free(struct backend *be, struct resampling *r)
{
    (void)be;
    if (!r)
        return;
    free(r->w);
    free(r->seen);
    free(r->count);
    free(r);
}

static void scale_row(const struct job *j, float *y)
{
    for (int64_t c = 0; j->gamma && c < j->y.cols; c++)
        y[c] = y[c] * j->gamma[c] + j->beta[c];
}

/* Row i of y. */
static void resample_row(const struct job *j, int64_t i)
{
    const struct resampling *r = j->r;
    const struct resample_spec *s = &r->spec;
    int64_t from = i * s->down / s->up - s->before;
    size_t first = (size_t)(i * s->down % s->up) * s->taps, n = 0;
    const float *x[MOST_TAPS], *data = j->x.data;
    float w[MOST_TAPS], *y = (float *)j->y.data + i * j->y.stride;

    for (size_t k = first; k < first + r->count[first / s->taps]; k++) {
        int64_t row = from + r->seen[k];

        if (s->keep_ends)
            row = row < 0 ? 0 : row >= j->length ? j->length - 1 : row;
        if (row < 0 || row >= j->length)
            continue;
        w[n] = r->w[k];
        x[n++] = data + row * j->x.stride;
    }
    j->host->kernels->weigh_rows(x, w, n, (size_t)j->y.cols, y);
    scale_row(j, y);
}

static bool is_sampled(const struct job *j)
{
    return j->x.cols == 1 && j->x.stride == 1 && j->y.stride == 1 && j->r->spec.down == 1;
}

/* Samples [from, from + BLOCK) of x, times `up`. */
static void resample_block(const struct job *j, int64_t from)
{
    const struct resampling *r = j->r;
    const struct resample_spec *s = &r->spec;
    float near[MOST_TAPS + BLOCK], sum[BLOCK], *y = j->y.data;
    const float *x[MOST_TAPS], *data = j->x.data;

    for (int64_t i = 0; i < s->taps + BLOCK; i++) {
        int64_t row = from - s->before + i;

        if (s->keep_ends)
            row = row < 0 ? 0 : row >= j->length ? j->length - 1 : row;
        near[i] = row < 0 || row >= j->length ? 0.0f : data[row];
    }
    for (uint32_t phase = 0; phase < s->up; phase++) {
        const size_t first = (size_t)phase * s->taps;

        for (uint32_t k = 0; k < r->count[phase]; k++)
            x[k] = near + r->seen[first + k];
        j->host->kernels->weigh_rows(x, r->w + first, r->count[phase], BLOCK, sum);
        for (int64_t i = 0; i < BLOCK && (from + i) * s->up + phase < j->end; i++) {
            y[(from + i) * s->up + phase] = sum[i];
            scale_row(j, &y[(from + i) * s->up + phase]);
        }
    }
}

/* Part k of the outputs of a window: a block's, or a row. */
static void resample_part(const struct job *j, int64_t k)
{
    if (is_sampled(j))
        resample_block(j, k * BLOCK);
    else
        resample_row(j, k);
}

static bool is_scale(const struct tensor *t, int64_t cols)
{
    return !t || (t->type == DTYPE_F32 && t->rows == 1 && t->cols == cols);
}

static struct tensor window_of(struct tensor t, uint32_t windows, uint32_t i)
{
    int64_t n = t.rows / windows;

    return tensor_rows(t, i * n, n);
}

int host_resample(struct backend *be, struct resampling *r, uint32_t windows,
                  const uint32_t *lengths, struct tensor x, const struct tensor *gamma,
                  const struct tensor *beta, struct tensor y, struct err *err)
{
    struct host *h = host_of(be);
    int64_t n = windows ? x.rows / windows : 0, m = windows ? y.rows / windows : 0;

    if (x.type != DTYPE_F32 || y.type != DTYPE_F32 || n < 1 || m < 1 || x.rows != n * windows ||
        y.rows != m * windows || y.cols != x.cols || !gamma != !beta || !is_scale(gamma, x.cols) ||
        !is_scale(beta, x.cols))
        return host_shape(err, "resample");
    for (uint32_t i = 0; lengths && i < windows; i++)
        if (lengths[i] < 1 || lengths[i] > n)
            return host_shape(err, "resample");
    for (uint32_t i = 0; i < windows; i++) {
        struct job j = {.host = h,
                        .r = r,
                        .x = window_of(x, windows, i),
                        .y = window_of(y, windows, i),
                        .length = lengths ? lengths[i] : n,
                        .gamma = gamma ? gamma->data : NULL,
                        .beta = beta ? beta->data : NULL};
        int64_t parts;

        j.end = (j.length * r->spec.up + r->spec.down - 1) / r->spec.down;
        j.end = j.end < m ? j.end : m;
        parts = is_sampled(&j)
                    ? (j.end + BLOCK * (int64_t)r->spec.up - 1) / (BLOCK * (int64_t)r->spec.up)
                    : j.end;
#pragma omp parallel for schedule(static) \
    num_threads(host_threads(h, (size_t)(m * y.cols) * sizeof(float)))
        for (int64_t k = 0; k < parts; k++)
            resample_part(&j, k);
        for (int64_t row = j.end; row < m && j.y.stride != j.y.cols; row++)
            memset((float *)j.y.data + row * j.y.stride, 0, (size_t)j.y.cols * sizeof(float));
        if (j.y.stride == j.y.cols)
            memset((float *)j.y.data + j.end * j.y.cols, 0,
                   (size_t)((m - j.end) * j.y.cols) * sizeof(float));
    }
    return 0;
}
