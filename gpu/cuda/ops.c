/* Operations that are one kernel each: shapes checked, then launched. */
#include "gpu/cuda/cuda.h"

#include "gpu/cuda/kernels.h"

static bool is_valid_tensor(struct tensor t)
{
    return t.rows > 0 && t.cols > 0 && t.stride >= t.cols && t.data;
}

/* Whether a kernel may write to t; DTYPE_E4M3 only as backend.h says. */
static bool fits_result(struct tensor t)
{
    return is_valid_tensor(t) && t.type != DTYPE_I8 && (t.type != DTYPE_E4M3 || cuda_is_e4m3(&t));
}

int cuda_copy(struct backend *be, struct tensor dst, struct tensor src, struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (!fits_result(dst) || !src.data || src.stride < 1 || dst.rows != src.rows ||
        dst.cols != src.cols)
        return cuda_shape(err, "copy");
    if (dst.type == DTYPE_E4M3)
        return cuda_status(err, k_quantize_rows(c->work, src, dst), "rounding rows to 8 bits");
    return cuda_status(err, k_copy(c->work, dst, src), "copying");
}

int cuda_layer_norm(struct backend *be, struct tensor x, struct tensor gamma, struct tensor beta,
                    float epsilon, struct tensor y, struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (!is_valid_tensor(x) || !fits_result(y) || x.type != DTYPE_F32 || y.rows != x.rows ||
        y.cols != x.cols || gamma.type != DTYPE_F32 || beta.type != DTYPE_F32 ||
        gamma.cols != x.cols || beta.cols != x.cols || !(epsilon > 0.0f))
        return cuda_shape(err, "layer_norm");
    return cuda_status(err, k_layer_norm(c->work, x, gamma.data, beta.data, epsilon, y),
                       "layer norm");
}

int cuda_add(struct backend *be, struct tensor y, struct tensor x, struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (!is_valid_tensor(x) || !is_valid_tensor(y) || x.type != DTYPE_F32 || y.type != DTYPE_F32 ||
        x.cols != y.cols)
        return cuda_shape(err, "add");
    return cuda_status(err, k_add(c->work, y, x), "adding");
}

int cuda_embed(struct backend *be, struct tensor table, struct tensor positions,
               const struct token_row *rows, struct tensor y, struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (!is_valid_tensor(table) || !is_valid_tensor(positions) || !is_valid_tensor(y) ||
        table.cols != y.cols || positions.cols != y.cols || y.type != DTYPE_F32)
        return cuda_shape(err, "embed");
    return cuda_status(err, k_embed(c->work, table, positions, rows, y), "embedding tokens");
}

int cuda_magnitude(struct backend *be, struct tensor x, struct tensor y, struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (!is_valid_tensor(x) || !is_valid_tensor(y) || x.type != DTYPE_F32 || y.type != DTYPE_F32 ||
        x.rows != y.rows || x.cols != 2 * y.cols)
        return cuda_shape(err, "magnitude");
    return cuda_status(err, k_magnitude(c->work, x, y), "magnitudes");
}

/* --- caches of keys and values -----------------------------------------------------------------
 */

size_t cuda_kv_bytes(enum dtype type, uint32_t heads, uint32_t capacity)
{
    return (k_kv_bytes(type, heads, capacity) + 63) / 64 * 64;
}

bool cuda_is_cache(const struct kv *kv)
{
    return kv->heads > 0 && kv->capacity > 0 && kv->capacity <= BACKEND_MAX_KEYS && kv->slots > 0 &&
           kv->data && kv->slot_stride % 64 == 0 &&
           kv->slot_stride >= k_kv_bytes(kv->type, kv->heads, kv->capacity);
}

/* Whether t may be queries, keys or values of the cache, or what comes of it. */
static bool fits_cache(const struct kv *kv, struct tensor t)
{
    return is_valid_tensor(t) && (t.type == kv->type || kv->type == DTYPE_I8) &&
           t.cols == (int64_t)kv->heads * CUDA_HEAD && cuda_is_cache(kv);
}

int cuda_kv_fill(struct backend *be, struct kv kv, const uint32_t *slots, uint32_t windows,
                 struct tensor k, struct tensor v, struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (windows < 1 || !fits_cache(&kv, k) || !fits_cache(&kv, v) || k.rows != v.rows ||
        k.type != v.type || k.rows % windows != 0 || k.rows / windows > kv.capacity)
        return cuda_shape(err, "kv_fill");
    for (uint32_t i = 0; i < windows; i++)
        if (slots[i] >= kv.slots)
            return cuda_shape(err, "kv_fill");
    return cuda_status(err, k_kv_fill(c->work, kv, slots, windows, k, v), "storing keys");
}

int cuda_kv_append(struct backend *be, struct kv kv, const struct token_row *rows, struct tensor k,
                   struct tensor v, struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (!fits_cache(&kv, k) || !fits_cache(&kv, v) || kv.type == DTYPE_I8 || k.rows != v.rows)
        return cuda_shape(err, "kv_append");
    return cuda_status(err, k_kv_append(c->work, kv, rows, k, v), "storing keys");
}

int cuda_attention_rows(struct backend *be, struct tensor q, struct kv kv,
                        const struct token_row *rows, uint32_t keys, struct tensor out,
                        struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (!fits_cache(&kv, q) || !fits_cache(&kv, out) || q.rows != out.rows || q.type != out.type ||
        (kv.type == DTYPE_I8 && keys == 0) || keys > kv.capacity || q.rows > INT32_MAX / kv.heads)
        return cuda_shape(err, "attention_rows");
    return cuda_status(err, k_attention_rows(c->work, q, kv, rows, keys, out), "attention");
}
