/* Keys and values of windows in 8 bits: filling their caches, and looking at them. The loops are in
 * kernels/attention.c; the layout in kernels.h; what a number means in backend.h, struct kv.
 *
 * A scale for each dimension costs nothing where they are read: the keys' go into the query before,
 * the values' into the sum behind. */
#include "gpu/host/host.h"

#include <omp.h>

#define HEAD BACKEND_HEAD_SIZE

static int8_t *head_keys(const struct kv *kv, uint32_t slot, uint32_t head)
{
    return (int8_t *)kv->data + slot * kv->slot_stride +
           head * kernel_pair_bytes(DTYPE_I8, kv->capacity);
}

static int8_t *head_values(const struct kv *kv, uint32_t slot, uint32_t head)
{
    return head_keys(kv, slot, head) + kernel_head_bytes(DTYPE_I8, kv->capacity);
}

/* [2][64]: the keys', the values'. */
static float *head_scales(const struct kv *kv, uint32_t slot, uint32_t head)
{
    return (float *)(void *)(head_keys(kv, slot, head) +
                             2 * kernel_head_bytes(DTYPE_I8, kv->capacity));
}

/* One row of one head of t, as float32: where it lies, or in `room`. */
static const float *row_of(struct tensor t, int64_t row, uint32_t head, float *scratch)
{
    int64_t at = row * t.stride + (int64_t)head * HEAD;

    if (t.type == DTYPE_F32)
        return (const float *)t.data + at;
    for (int d = 0; d < HEAD; d++)
        scratch[d] = bf16_to_f32(((const uint16_t *)t.data)[at + d]);
    return scratch;
}

void host_fill_i8(const struct host *h, const struct kv *kv, uint32_t slot, struct tensor k,
                  struct tensor v, int64_t from, int64_t n)
{
#pragma omp parallel for collapse(2) schedule(static) num_threads(h->threads)
    for (uint32_t head = 0; head < kv->heads; head++)
        for (int value = 0; value < 2; value++) {
            struct tensor t =
                tensor_rows(tensor_columns(value ? v : k, head * HEAD, HEAD), from, n);

            h->kernels->fill_i8(t.data, t.type == DTYPE_BF16, (size_t)t.stride, (size_t)n, value,
                                value ? head_values(kv, slot, head) : head_keys(kv, slot, head),
                                head_scales(kv, slot, head) + (value ? HEAD : 0));
        }
}

/* A query of one head, times the keys' scales. Returns 0, or NaN where one of them is not finite: a
 * soft maximum over nothing but NaN would hide it. */
static float scaled_query(struct tensor q, int64_t row, uint32_t head, const float *scales,
                          float *ret)
{
    float scratch[HEAD];
    const float *x = row_of(q, row, head, scratch);
    float taint = 0.0f;

    for (int d = 0; d < HEAD; d++) {
        ret[d] = x[d] * scales[d];
        taint += ret[d] * 0.0f;
    }
    return taint;
}

static void put_row(const struct host *h, struct tensor out, int64_t row, uint32_t head,
                    const float *x)
{
    int64_t at = row * out.stride + (int64_t)head * HEAD;

    if (out.type == DTYPE_F32)
        memcpy((float *)out.data + at, x, HEAD * sizeof(float));
    else
        h->kernels->to_bf16((uint16_t *)out.data + at, x, HEAD);
}

/* n rows from `row`, which look at one slot. */
static void attend_slot_queries(const struct host *h, struct tensor q, const struct kv *kv,
                                uint32_t slot, uint32_t head, int64_t row, int64_t n,
                                struct key_tail tail, struct tensor out)
{
    const float *scales = head_scales(kv, slot, head);
    float queries[KERNEL_TOGETHER * HEAD] = {0}, found[KERNEL_TOGETHER * HEAD];
    float taint[KERNEL_TOGETHER] = {0};

    for (int64_t i = 0; i < n; i++)
        taint[i] = scaled_query(q, row + i, head, scales, queries + i * HEAD);
    h->kernels->queries_i8(queries, HEAD, (size_t)n, head_keys(kv, slot, head),
                           head_values(kv, slot, head), tail, scales + HEAD, found, HEAD);
    for (int64_t i = 0; i < n; i++) {
        for (int d = 0; d < HEAD; d++)
            found[i * HEAD + d] += taint[i];
        put_row(h, out, row + i, head, found + i * HEAD);
    }
}

void host_attend_i8(const struct host *h, struct tensor q, const struct kv *kv,
                    const struct token_row *rows, uint32_t keys, struct tensor out)
{
    size_t bytes = 2 * (size_t)(q.rows * q.cols) * keys;
    int64_t groups = (q.rows + KERNEL_TOGETHER - 1) / KERNEL_TOGETHER;

    /* Hypotheses of a window, and rows of a prompt, stand beside each other. */
#pragma omp parallel for schedule(dynamic) num_threads(host_threads(h, bytes))
    for (int64_t i = 0; i < groups * kv->heads; i++) {
        uint32_t head = (uint32_t)(i % kv->heads);
        int64_t first = i / kv->heads * KERNEL_TOGETHER, end = first + KERNEL_TOGETHER, r, next;

        for (r = first; r < end && r < q.rows; r = next) {
            next = r + 1;
            if (rows[r].slot == -1)
                continue;
            while (next < end && next < q.rows && rows[next].slot != -1 &&
                   rows[next].cross == rows[r].cross)
                next++;
            attend_slot_queries(
                h, q, kv, (uint32_t)rows[r].cross, head, r, next - r,
                kv->tails ? kv->tails[rows[r].cross] : (struct key_tail){keys, keys, 1}, out);
        }
    }
}

void host_score_i8(const struct host *h, struct tensor q, const struct kv *kv, uint32_t slot,
                   uint32_t head, int64_t row, uint32_t keys, float *ret)
{
    float query[HEAD];

    scaled_query(q, row, head, head_scales(kv, slot, head), query);
    h->kernels->scores_i8(query, head_keys(kv, slot, head), keys, ret);
}
