/* Sequences of different lengths, one below the other: attention within each, and rows moved
 * between layouts. Their bounds pass through the scratch memory. */
#include "gpu/cuda/cuda.h"

#include "gpu/cuda/kernels.h"

#define MOST_COLUMNS (65535 * 64) /* of rows that are gathered: a grid's y, in tiles */

uint32_t cuda_spans(struct spans spans, int64_t rows)
{
    uint32_t longest = 0;

    if (spans.count < 1 || spans.count > INT32_MAX || !spans.at || spans.at[0] != 0 ||
        spans.at[spans.count] != rows)
        return 0;
    for (uint32_t i = 0; i < spans.count; i++) {
        uint32_t n = spans.at[i + 1] - spans.at[i];

        if (spans.at[i] > spans.at[i + 1])
            return 0;
        longest = n > longest ? n : longest;
    }
    return longest;
}

int cuda_gather(struct backend *be, struct tensor x, const int32_t *rows, struct tensor y,
                struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (!x.data || !y.data || x.type != y.type || x.cols != y.cols || x.rows < 1 || y.rows < 1 ||
        y.rows > INT32_MAX || y.cols < 1 || y.cols > MOST_COLUMNS || x.stride < x.cols ||
        y.stride < y.cols)
        return cuda_shape(err, "gather");
    return cuda_status(err, k_gather(c->work, x, rows, y), "gathering rows");
}

static bool view_fits(struct tensor t, struct tensor like, int64_t cols)
{
    return t.data && t.type == like.type && t.rows == like.rows && t.rows > 0 && t.cols == cols &&
           t.stride >= cols;
}

static bool bias_fits(const struct attention_bias *b, struct spans spans, uint32_t heads)
{
    uint32_t n = spans.at[1];

    if (!b)
        return true;
    if (b->tables.type != DTYPE_F32 || !b->tables.data || b->tables.cols != (int64_t)n ||
        b->tables.stride < b->tables.cols || b->sets < 1 ||
        b->tables.rows != (int64_t)b->sets * heads * n)
        return false;
    for (uint32_t i = 0; i < spans.count; i++)
        if (spans.at[i + 1] - spans.at[i] != n || b->set[i] >= b->sets)
            return false;
    return true;
}

/* Bounds and tables' numbers behind each other in scratch memory. */
static int put_bounds(struct cuda *c, struct spans spans, const struct attention_bias *bias,
                      struct spans_device *d, struct err *err)
{
    size_t ends = (size_t)spans.count + 1;
    uint32_t *p;
    void *s;
    int rc = cuda_scratch(c, (ends + spans.count) * sizeof(*p), &s, err);

    if (rc != 0)
        return rc;
    p = s;
    d->at = p;
    rc = cuda_upload(c, c->work, p, spans.at, ends * sizeof(*p), err);
    if (rc != 0 || !bias)
        return rc;
    d->set = p + ends;
    d->tables = bias->tables;
    return cuda_upload(c, c->work, p + ends, bias->set, spans.count * sizeof(*p), err);
}

int cuda_attention_spans(struct backend *be, struct spans spans, uint32_t heads, uint32_t head_size,
                         float scale, struct tensor q, struct tensor k, struct tensor v,
                         const struct attention_bias *bias, struct tensor out, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    struct spans_device d = {
        .heads = heads, .head_size = head_size, .scale = scale, .q = q, .k = k, .v = v, .out = out};
    int64_t cols = (int64_t)heads * head_size;
    uint32_t longest;
    int rc = cuda_not_recording(c, "attention_spans", err);

    if (rc != 0)
        return rc;
    longest = cuda_spans(spans, q.rows);
    if (longest < 1 || longest > BACKEND_MAX_KEYS || heads < 1 || heads > 1024 || head_size < 8 ||
        head_size > 128 || head_size % 8 != 0 || !view_fits(q, q, cols) || !view_fits(k, q, cols) ||
        !view_fits(v, q, cols) || !view_fits(out, q, cols) || !bias_fits(bias, spans, heads))
        return cuda_shape(err, "attention_spans");
    rc = put_bounds(c, spans, bias, &d, err);
    return rc == 0 ? cuda_status(err, k_attend_spans(c->work, &d, spans.count, longest),
                                 "attending within sequences")
                   : rc;
}
