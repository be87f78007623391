/* Keys and values in reading order, and the division of attention among threads. The loops are in
 * kernels/attention.c; the layout in kernels.h. */
#include "gpu/host/host.h"

#include <omp.h>

#define HEAD BACKEND_HEAD_SIZE

size_t host_kv_bytes(enum dtype type, uint32_t heads, uint32_t capacity)
{
    return 2 * (size_t)heads * kernel_head_bytes(type, capacity);
}

static char *head_keys(const struct kv *kv, uint32_t head)
{
    return (char *)kv->data + 2 * (size_t)head * kernel_head_bytes(kv->type, kv->capacity);
}

static char *head_values(const struct kv *kv, uint32_t head)
{
    return head_keys(kv, head) + kernel_head_bytes(kv->type, kv->capacity);
}

static void store_f32(float *keys, float *values, uint32_t at, const float *k, const float *v)
{
    float *block = keys + (size_t)(at / KERNEL_KEYS) * KERNEL_KEYS * HEAD + at % KERNEL_KEYS;

    for (int d = 0; d < HEAD; d++)
        block[d * KERNEL_KEYS] = k[d];
    memcpy(values + (size_t)at * HEAD, v, HEAD * sizeof(float));
}

/* An even key clears its partner's values: the pair is read whole, and what a former window left
 * there (perhaps a NaN) must not come through, not even times zero. */
static void store_bf16(uint16_t *keys, uint16_t *values, uint32_t at, const uint16_t *k,
                       const uint16_t *v)
{
    uint16_t *block = keys + (size_t)(at / KERNEL_KEYS) * KERNEL_KEYS * HEAD + at % KERNEL_KEYS * 2;
    uint16_t *pair = values + (size_t)(at / 2) * 2 * HEAD;

    for (int d = 0; d < HEAD; d += 2)
        memcpy(block + d / 2 * 2 * KERNEL_KEYS, k + d, 4);
    for (int d = 0; d < HEAD; d++) {
        pair[d * 2 + at % 2] = v[d];
        if (at % 2 == 0)
            pair[d * 2 + 1] = 0;
    }
}

static void store(const struct kv *kv, uint32_t head, uint32_t at, struct tensor k, struct tensor v,
                  int64_t row)
{
    size_t ka = (size_t)(row * k.stride) + (size_t)head * HEAD;
    size_t va = (size_t)(row * v.stride) + (size_t)head * HEAD;

    if (kv->type == DTYPE_F32)
        store_f32((float *)head_keys(kv, head), (float *)head_values(kv, head), at,
                  (const float *)k.data + ka, (const float *)v.data + va);
    else
        store_bf16((uint16_t *)head_keys(kv, head), (uint16_t *)head_values(kv, head), at,
                   (const uint16_t *)k.data + ka, (const uint16_t *)v.data + va);
}

static bool fits(struct host *h, const struct kv *kv, struct tensor t)
{
    return t.type == kv->type && t.cols == (int64_t)kv->heads * HEAD && t.rows > 0 &&
           kv->capacity <= BACKEND_MAX_KEYS &&
           (kv->type == DTYPE_F32 || (kv->type == DTYPE_BF16 && h->kernels->attend_bf16));
}

int host_kv_fill(struct backend *be, struct kv kv, struct tensor k, struct tensor v,
                 struct err *err)
{
    struct host *h = host_of(be);
    int64_t groups = (k.rows + KERNEL_KEYS - 1) / KERNEL_KEYS;

    if (!fits(h, &kv, k) || !fits(h, &kv, v) || k.rows != v.rows || k.rows > kv.capacity)
        return host_shape(err, "kv_fill");
#pragma omp parallel for collapse(2) schedule(static) num_threads(h->threads)
    for (uint32_t head = 0; head < kv.heads; head++) {
        for (int64_t g = 0; g < groups; g++) {
            for (int64_t r = g * KERNEL_KEYS; r < (g + 1) * KERNEL_KEYS && r < k.rows; r++)
                store(&kv, head, (uint32_t)r, k, v, r);
        }
    }
    return 0;
}

int host_kv_append(struct backend *be, const struct kv *kv, const uint32_t *pos, struct tensor k,
                   struct tensor v, struct err *err)
{
    struct host *h = host_of(be);

    for (int64_t r = 0; r < k.rows; r++) {
        if (!fits(h, &kv[r], k) || !fits(h, &kv[r], v) || v.rows != k.rows ||
            pos[r] >= kv[r].capacity)
            return host_shape(err, "kv_append");
    }
    for (int64_t r = 0; r < k.rows; r++) {
        for (uint32_t head = 0; head < kv[r].heads; head++)
            store(&kv[r], head, pos[r], k, v, r);
    }
    return 0;
}

int host_attention(struct backend *be, struct tensor q, struct kv kv, uint32_t keys,
                   struct tensor out, struct err *err)
{
    struct host *h = host_of(be);
    int64_t groups = (q.rows + KERNEL_QUERIES - 1) / KERNEL_QUERIES;

    if (!fits(h, &kv, q) || !fits(h, &kv, out) || q.rows != out.rows || keys < 1 ||
        keys > kv.capacity)
        return host_shape(err, "attention");
        /* Shares of a few milliseconds at most, in order, so that a head stays in the cache and a
         * thread that was put aside does not keep the others waiting. */
#pragma omp parallel for collapse(2) schedule(dynamic, 16) num_threads(h->threads)
    for (uint32_t head = 0; head < kv.heads; head++) {
        for (int64_t g = 0; g < groups; g++) {
            int64_t row = g * KERNEL_QUERIES, left = q.rows - row;
            size_t n = (size_t)(left < KERNEL_QUERIES ? left : KERNEL_QUERIES);
            size_t from = (size_t)(row * q.stride) + (size_t)head * HEAD;
            size_t to = (size_t)(row * out.stride) + (size_t)head * HEAD;
            const void *k = head_keys(&kv, head), *v = head_values(&kv, head);

            if (kv.type == DTYPE_F32)
                h->kernels->attend_f32((const float *)q.data + from, (size_t)q.stride, n, k, v,
                                       keys, (float *)out.data + to, (size_t)out.stride);
            else
                h->kernels->attend_bf16((const uint16_t *)q.data + from, (size_t)q.stride, n, k, v,
                                        keys, (uint16_t *)out.data + to, (size_t)out.stride);
        }
    }
    return 0;
}

int host_attention_rows(struct backend *be, struct tensor q, const struct kv *kv,
                        const uint32_t *keys, struct tensor out, struct err *err)
{
    struct host *h = host_of(be);
    int64_t heads = q.cols / HEAD;
    size_t bytes = 0;

    for (int64_t r = 0; r < q.rows; r++) {
        if (!fits(h, &kv[r], q) || !fits(h, &kv[r], out) || q.rows != out.rows || keys[r] < 1 ||
            keys[r] > kv[r].capacity)
            return host_shape(err, "attention_rows");
        bytes += 2 * (size_t)keys[r] * (size_t)q.cols * dtype_size(q.type);
    }
#pragma omp parallel for schedule(dynamic) num_threads(host_threads(h, bytes))
    for (int64_t i = 0; i < q.rows * heads; i++) {
        int64_t r = i / heads;
        uint32_t head = (uint32_t)(i % heads);
        size_t from = (size_t)(r * q.stride) + (size_t)head * HEAD;
        size_t to = (size_t)(r * out.stride) + (size_t)head * HEAD;
        const void *k = head_keys(&kv[r], head), *v = head_values(&kv[r], head);

        if (q.type == DTYPE_F32)
            h->kernels->query_f32((const float *)q.data + from, k, v, keys[r],
                                  (float *)out.data + to);
        else
            h->kernels->query_bf16((const uint16_t *)q.data + from, k, v, keys[r],
                                   (uint16_t *)out.data + to);
    }
    return 0;
}
