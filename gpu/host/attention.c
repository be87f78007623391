/* Keys and values in reading order, and the division of attention among threads. The loops are in
 * kernels/attention.c; the layout in kernels.h. */
#include "gpu/host/host.h"

#include <omp.h>

#define HEAD BACKEND_HEAD_SIZE

size_t host_kv_bytes(enum dtype type, uint32_t heads, uint32_t capacity)
{
    return heads * kernel_pair_bytes(type, capacity);
}

static char *head_keys(const struct kv *kv, uint32_t slot, uint32_t head)
{
    return (char *)kv->data + slot * kv->slot_stride +
           2 * (size_t)head * kernel_head_bytes(kv->type, kv->capacity);
}

static char *head_values(const struct kv *kv, uint32_t slot, uint32_t head)
{
    return head_keys(kv, slot, head) + kernel_head_bytes(kv->type, kv->capacity);
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

/* Row `row` of k and v becomes key `at` of a slot's head. */
static void store_key_value(const struct kv *kv, uint32_t slot, uint32_t head, uint32_t at,
                            struct tensor k, struct tensor v, int64_t row)
{
    size_t ka = (size_t)(row * k.stride) + (size_t)head * HEAD;
    size_t va = (size_t)(row * v.stride) + (size_t)head * HEAD;
    char *keys = head_keys(kv, slot, head), *values = head_values(kv, slot, head);

    if (kv->type == DTYPE_F32)
        store_f32((float *)keys, (float *)values, at, (const float *)k.data + ka,
                  (const float *)v.data + va);
    else
        store_bf16((uint16_t *)keys, (uint16_t *)values, at, (const uint16_t *)k.data + ka,
                   (const uint16_t *)v.data + va);
}

static bool can_attend_type(const struct host *h, enum dtype type)
{
    return type == DTYPE_F32 || (type == DTYPE_BF16 && h->kernels->attend_bf16);
}

/* Whether t may be queries, keys or values of the cache, or what comes of it. */
static bool matches_kv_cache(const struct host *h, const struct kv *kv, struct tensor t)
{
    return (t.type == kv->type || kv->type == DTYPE_I8) && t.cols == (int64_t)kv->heads * HEAD &&
           t.rows > 0 && kv->capacity <= BACKEND_MAX_KEYS && can_attend_type(h, t.type);
}

/* Rows [from, from + n) of k and v become keys 0 .. n-1 of a slot. */
static void fill_kv_cache(const struct host *h, const struct kv *kv, uint32_t slot, struct tensor k,
                          struct tensor v, int64_t from, int64_t n)
{
    int64_t groups = (n + KERNEL_KEYS - 1) / KERNEL_KEYS;

#pragma omp parallel for collapse(2) schedule(static) num_threads(h->threads)
    for (uint32_t head = 0; head < kv->heads; head++) {
        for (int64_t g = 0; g < groups; g++)
            for (int64_t r = g * KERNEL_KEYS; r < (g + 1) * KERNEL_KEYS && r < n; r++)
                store_key_value(kv, slot, head, (uint32_t)r, k, v, from + r);
    }
}

int host_kv_fill(struct backend *be, struct kv kv, const uint32_t *slots, uint32_t windows,
                 struct tensor k, struct tensor v, struct err *err)
{
    struct host *h = host_of(be);
    int64_t n = windows ? k.rows / windows : 0;

    if (!matches_kv_cache(h, &kv, k) || !matches_kv_cache(h, &kv, v) || k.rows != v.rows || n < 1 ||
        k.rows != n * windows || n > kv.capacity)
        return host_shape(err, "kv_fill");
    for (uint32_t i = 0; i < windows; i++)
        if (slots[i] >= kv.slots)
            return host_shape(err, "kv_fill");
    for (uint32_t i = 0; i < windows; i++)
        if (kv.type == DTYPE_I8)
            host_fill_i8(h, &kv, slots[i], k, v, n * i, n);
        else
            fill_kv_cache(h, &kv, slots[i], k, v, n * i, n);
    return 0;
}

static bool nobodys(const struct token_row *row) { return row->slot == -1; }

/* Whether the decoder's own cache has the rows' places. */
static bool rows_fit(const struct kv *kv, const struct token_row *rows, int64_t n)
{
    for (int64_t r = 0; r < n; r++)
        if (!nobodys(&rows[r]) && (rows[r].slot < 0 || (uint32_t)rows[r].slot >= kv->slots ||
                                   rows[r].pos < 0 || (uint32_t)rows[r].pos >= kv->capacity))
            return false;
    return true;
}

/* Whether the windows' cache has the rows' slots, and so many keys. */
static bool cross_fits(const struct kv *kv, const struct token_row *rows, int64_t n, uint32_t keys)
{
    for (int64_t r = 0; r < n; r++)
        if (!nobodys(&rows[r]) && (rows[r].cross < 0 || (uint32_t)rows[r].cross >= kv->slots))
            return false;
    return keys <= kv->capacity;
}

int host_kv_append(struct backend *be, struct kv kv, const struct token_row *rows, struct tensor k,
                   struct tensor v, struct err *err)
{
    struct host *h = host_of(be);

    if (!matches_kv_cache(h, &kv, k) || !matches_kv_cache(h, &kv, v) || kv.type == DTYPE_I8 ||
        v.rows != k.rows || !rows_fit(&kv, rows, k.rows))
        return host_shape(err, "kv_append");
        /* A head's rows in their order: a pair's second key comes after its first (store_bf16). */
#pragma omp parallel for schedule(static) \
    num_threads(host_threads(h, 2 * (size_t)(k.rows * k.cols) * dtype_size(kv.type)))
    for (uint32_t head = 0; head < kv.heads; head++)
        for (int64_t r = 0; r < k.rows; r++)
            if (!nobodys(&rows[r]))
                store_key_value(&kv, (uint32_t)rows[r].slot, head, (uint32_t)rows[r].pos, k, v, r);
    return 0;
}

/* One window's queries, rows [from, from + n), over its packed keys. */
static void attend_window(const struct host *h, const struct kv *kv, struct tensor q,
                          struct tensor out, int64_t from, struct key_tail tail)
{
    int64_t n = tail.keys, groups = (n + KERNEL_QUERIES - 1) / KERNEL_QUERIES;

    /* Shares of a few milliseconds at most, in order, so that a head stays in the cache and a
     * thread that was quarantined does not keep the others waiting. */
#pragma omp parallel for collapse(2) schedule(dynamic, 16) num_threads(h->threads)
    for (uint32_t head = 0; head < kv->heads; head++) {
        for (int64_t g = 0; g < groups; g++) {
            int64_t row = g * KERNEL_QUERIES, left = n - row;
            size_t count = (size_t)(left < KERNEL_QUERIES ? left : KERNEL_QUERIES);
            size_t at = (size_t)((from + row) * q.stride) + (size_t)head * HEAD;
            size_t to = (size_t)((from + row) * out.stride) + (size_t)head * HEAD;
            const void *k = head_keys(kv, 0, head), *v = head_values(kv, 0, head);

            if (kv->type == DTYPE_F32)
                h->kernels->attend_f32((const float *)q.data + at, (size_t)q.stride, count, k, v,
                                       tail, (float *)out.data + to, (size_t)out.stride);
            else
                h->kernels->attend_bf16((const uint16_t *)q.data + at, (size_t)q.stride, count, k,
                                        v, tail, (uint16_t *)out.data + to, (size_t)out.stride);
        }
    }
}

static bool same_shape(struct tensor a, struct tensor b)
{
    return a.type == b.type && a.rows == b.rows && a.cols == b.cols;
}

/* No tail: all of n keys count once. */
static struct key_tail whole_keys(size_t n)
{
    return (struct key_tail){(uint32_t)n, (uint32_t)n, 1};
}

/* tail: of each window; or NULL, none. */
static int attend_windows(struct backend *be, uint32_t windows, struct tensor q, struct tensor k,
                          struct tensor v, const struct key_tail *tail, struct tensor out,
                          struct err *err)
{
    struct host *h = host_of(be);
    int64_t n = windows ? q.rows / windows : 0;
    struct kv kv = {
        .type = q.type, .heads = (uint32_t)(q.cols / HEAD), .capacity = (uint32_t)n, .slots = 1};
    int rc;

    if (!can_attend_type(h, q.type) || q.cols < HEAD || q.cols % HEAD != 0 || n < 1 ||
        n > BACKEND_MAX_KEYS || q.rows != n * windows || !same_shape(q, k) || !same_shape(q, v) ||
        !same_shape(q, out))
        return host_shape(err, "attention");
    kv.slot_stride = host_kv_bytes(kv.type, kv.heads, kv.capacity);
    rc = host_grow(h, &h->packed, &h->packed_bytes, kv.slot_stride, err);
    if (rc != 0 || be->rehearsing)
        return rc;
    kv.data = h->packed;
    for (uint32_t i = 0; i < windows; i++) {
        fill_kv_cache(h, &kv, 0, k, v, n * i, n);
        attend_window(h, &kv, q, out, n * i, tail ? *tail : whole_keys((size_t)n));
    }
    return 0;
}

int host_attention(struct backend *be, uint32_t windows, struct tensor q, struct tensor k,
                   struct tensor v, struct tensor out, struct err *err)
{
    return attend_windows(be, windows, q, k, v, NULL, out, err);
}

int host_attention_tail(struct backend *be, struct tensor q, struct tensor k, struct tensor v,
                        struct key_tail tail, struct tensor out, struct err *err)
{
    if (tail.keys != q.rows || tail.dense < 1 || tail.dense > tail.keys || tail.times < 1)
        return host_shape(err, "attention_tail");
    return attend_windows(be, 1, q, k, v, &tail, out, err);
}

/* What row r looks at. keys: as of attention_rows. */
static struct key_tail keys_of(const struct kv *kv, const struct token_row *row, uint32_t keys)
{
    if (keys && kv->tails)
        return kv->tails[row->cross];
    return whole_keys(keys ? keys : (uint32_t)row->pos + 1);
}

int host_attention_rows(struct backend *be, struct tensor q, struct kv kv,
                        const struct token_row *rows, uint32_t keys, struct tensor out,
                        struct err *err)
{
    struct host *h = host_of(be);
    size_t bytes = 0;

    if (!matches_kv_cache(h, &kv, q) || !matches_kv_cache(h, &kv, out) || q.rows != out.rows ||
        q.type != out.type || (kv.type == DTYPE_I8 && keys == 0) ||
        !(keys ? cross_fits(&kv, rows, q.rows, keys) : rows_fit(&kv, rows, q.rows)))
        return host_shape(err, "attention_rows");
    if (be->rehearsing)
        return 0;
    if (kv.type == DTYPE_I8) {
        host_attend_i8(h, q, &kv, rows, keys, out);
        return 0;
    }
    for (int64_t r = 0; r < q.rows; r++)
        bytes += 2 * (size_t)(keys ? keys : (uint32_t)rows[r].pos + 1) * (size_t)q.cols *
                 dtype_size(q.type);
#pragma omp parallel for schedule(dynamic) num_threads(host_threads(h, bytes))
    for (int64_t i = 0; i < q.rows * kv.heads; i++) {
        int64_t r = i / kv.heads;
        uint32_t head = (uint32_t)(i % kv.heads);
        uint32_t slot = (uint32_t)(keys ? rows[r].cross : rows[r].slot);
        size_t from = (size_t)(r * q.stride) + (size_t)head * HEAD;
        size_t to = (size_t)(r * out.stride) + (size_t)head * HEAD;
        struct head_cache c = {.stride = kv.slot_stride};
        struct key_tail tail;

        if (nobodys(&rows[r]))
            continue;
        tail = keys_of(&kv, &rows[r], keys);
        if (keys == 0 && kv.lies_in) {
            c.lies_in = kv.lies_in + (size_t)slot * kv.capacity;
            slot = 0;
        }
        c.k = head_keys(&kv, slot, head);
        c.v = head_values(&kv, slot, head);
        if (q.type == DTYPE_F32)
            h->kernels->query_f32((const float *)q.data + from, &c, tail, (float *)out.data + to);
        else
            h->kernels->query_bf16((const uint16_t *)q.data + from, &c, tail,
                                   (uint16_t *)out.data + to);
    }
    return 0;
}

int host_attention_scores(struct backend *be, struct tensor q, struct kv kv,
                          const struct token_row *rows, uint32_t head, uint32_t keys,
                          struct tensor out, struct err *err)
{
    struct host *h = host_of(be);
    size_t bytes = (size_t)q.rows * keys * HEAD * dtype_size(kv.type);

    if (!matches_kv_cache(h, &kv, q) || head >= kv.heads || keys < 1 || out.type != DTYPE_F32 ||
        out.rows != q.rows || out.cols != (int64_t)keys || !cross_fits(&kv, rows, q.rows, keys))
        return host_shape(err, "attention_scores");
#pragma omp parallel for schedule(dynamic, 4) num_threads(host_threads(h, bytes))
    for (int64_t r = 0; r < q.rows; r++) {
        size_t from = (size_t)(r * q.stride) + (size_t)head * HEAD;
        float *to = (float *)out.data + r * out.stride;
        const void *k;

        if (nobodys(&rows[r]))
            continue;
        if (kv.type == DTYPE_I8) {
            host_score_i8(h, q, &kv, (uint32_t)rows[r].cross, head, r, keys, to);
            continue;
        }
        k = head_keys(&kv, (uint32_t)rows[r].cross, head);
        if (q.type == DTYPE_F32)
            h->kernels->scores_f32((const float *)q.data + from, k, keys, to);
        else
            h->kernels->scores_bf16((const uint16_t *)q.data + from, k, keys, to);
    }
    return 0;
}
