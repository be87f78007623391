/* Sequences of different lengths, one below the other: attention within each, and rows moved
 * between layouts. The loops are in kernels/spans.c. */
#include "gpu/host/host.h"

#include <omp.h>

#define PART 96 /* queries of one piece of work: a long sequence is shared among the threads */

struct piece {
    uint32_t span, from;
};

/* One call's. */
struct call {
    struct spans spans;
    uint32_t heads, head_size;
    float scale;
    struct tensor q, k, v, out;
    const struct attention_bias *bias;
};

int host_gather(struct backend *be, struct tensor x, const int32_t *rows, struct tensor y,
                struct err *err)
{
    struct host *h = host_of(be);
    size_t bytes = (size_t)y.cols * dtype_size(y.type);

    if (x.type != y.type || x.cols != y.cols)
        return host_shape(err, "gather");
    for (int64_t r = 0; r < y.rows; r++)
        if (rows[r] < -1 || rows[r] >= x.rows)
            return host_shape(err, "gather");
#pragma omp parallel for schedule(static) num_threads(host_threads(h, (size_t)y.rows *bytes))
    for (int64_t r = 0; r < y.rows; r++) {
        void *to = tensor_rows(y, r, 1).data;

        if (rows[r] < 0)
            memset(to, 0, bytes);
        else
            memcpy(to, tensor_rows(x, rows[r], 1).data, bytes);
    }
    return 0;
}

static bool view_fits(const struct call *c, struct tensor t)
{
    return t.type == c->q.type && t.rows == c->q.rows &&
           t.cols == (int64_t)c->heads * c->head_size && t.stride >= t.cols;
}

static bool bias_fits(const struct call *c)
{
    const struct attention_bias *b = c->bias;
    int64_t n = c->spans.at[1];

    if (!b)
        return true;
    if (b->tables.type != DTYPE_F32 || b->tables.cols != n || b->sets < 1 ||
        b->tables.rows != (int64_t)b->sets * c->heads * n)
        return false;
    for (uint32_t i = 0; i < c->spans.count; i++)
        if (c->spans.at[i + 1] - c->spans.at[i] != n || b->set[i] >= b->sets)
            return false;
    return true;
}

static bool call_fits(const struct call *c)
{
    if (!host_spans_fit(c->spans, c->q.rows) || c->heads < 1 || c->heads > 1024 ||
        c->head_size < 8 || c->head_size > 128 || c->head_size % 8 != 0 || c->q.type == DTYPE_F16 ||
        !view_fits(c, c->q) || !view_fits(c, c->k) || !view_fits(c, c->v) || !view_fits(c, c->out))
        return false;
    for (uint32_t i = 0; i < c->spans.count; i++)
        if (c->spans.at[i + 1] - c->spans.at[i] > BACKEND_MAX_KEYS)
            return false;
    return bias_fits(c);
}

static uint32_t length_of(const struct call *c, uint32_t span)
{
    return c->spans.at[span + 1] - c->spans.at[span];
}

static void run_piece(const struct host *h, const struct call *c, struct piece p, uint32_t head,
                      float *scratch)
{
    uint32_t n = length_of(c, p.span);
    size_t first = c->spans.at[p.span], at = (size_t)head * c->head_size;
    size_t size = dtype_size(c->q.type);
    struct span_job job = {
        .q = (char *)tensor_rows(c->q, (int64_t)first, 1).data + at * size,
        .k = (char *)tensor_rows(c->k, (int64_t)first, 1).data + at * size,
        .v = (char *)tensor_rows(c->v, (int64_t)first, 1).data + at * size,
        .out = (char *)tensor_rows(c->out, (int64_t)first, 1).data + at * size,
        .q_stride = (size_t)c->q.stride,
        .k_stride = (size_t)c->k.stride,
        .v_stride = (size_t)c->v.stride,
        .out_stride = (size_t)c->out.stride,
        .bf16 = c->q.type == DTYPE_BF16,
        .n = n,
        .head = c->head_size,
        .from = p.from,
        .count = n - p.from < PART ? n - p.from : PART,
        .scale = c->scale,
        .scratch = scratch,
    };

    if (c->bias) {
        int64_t row = ((int64_t)c->bias->set[p.span] * c->heads + head) * n;

        job.bias = tensor_rows(c->bias->tables, row, 1).data;
        job.bias_stride = (size_t)c->bias->tables.stride;
    }
    h->kernels->attend_span(&job);
}

int host_attention_spans(struct backend *be, struct spans spans, uint32_t heads, uint32_t head_size,
                         float scale, struct tensor q, struct tensor k, struct tensor v,
                         const struct attention_bias *bias, struct tensor out, struct err *err)
{
    struct call c = {spans, heads, head_size, scale, q, k, v, out, bias};
    struct host *h = host_of(be);
    size_t count = 0, capacity, most = 0, at = 0;
    struct piece *pieces;
    int threads, rc;

    if (!call_fits(&c))
        return host_shape(err, "attention_spans");
    for (uint32_t i = 0; i < spans.count; i++) {
        count += (length_of(&c, i) + PART - 1) / PART;
        most = length_of(&c, i) > most ? length_of(&c, i) : most;
    }
    threads = host_threads(h, (size_t)(q.rows * q.cols) * most);
    capacity = (kernel_span_floats(most, head_size) + 15) / 16 * 16;
    rc = host_grow(h, &h->scratch, &h->scratch_bytes,
                   (size_t)threads * capacity * sizeof(float) + count * sizeof(*pieces), err);
    if (rc != 0)
        return rc;
    pieces = (struct piece *)((float *)h->scratch + (size_t)threads * capacity);
    for (uint32_t i = 0; i < spans.count; i++)
        for (uint32_t from = 0; from < length_of(&c, i); from += PART)
            pieces[at++] = (struct piece){i, from};
#pragma omp parallel for collapse(2) schedule(dynamic) num_threads(threads)
    for (size_t i = 0; i < count; i++) {
        for (uint32_t head = 0; head < heads; head++)
            run_piece(h, &c, pieces[i], head,
                      (float *)h->scratch + (size_t)omp_get_thread_num() * capacity);
    }
    return 0;
}
