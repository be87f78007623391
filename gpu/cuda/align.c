/* How tokens follow the audio: scores of single heads, and what is made of them. */
#include "gpu/cuda/cuda.h"

#include "gpu/cuda/kernels.h"

#define MOST_ROWS 65535 /* of a grid's second dimension */

static bool is_f32(struct tensor t)
{
    return t.type == DTYPE_F32 && t.data && t.rows > 0 && t.cols > 0 && t.stride >= t.cols;
}

/* Whether q may be compared with the cache's keys. */
static bool has_queries(const struct kv *kv, struct tensor q)
{
    return q.data && (q.type == kv->type || kv->type == DTYPE_I8) && q.rows > 0 &&
           q.rows <= MOST_ROWS && q.cols == (int64_t)kv->heads * CUDA_HEAD && q.stride >= q.cols;
}

int cuda_attention_scores(struct backend *be, struct tensor q, struct kv kv,
                          const struct token_row *rows, uint32_t head, uint32_t keys,
                          struct tensor out, struct err *err)
{
    struct cuda *c = cuda_enter(be);

    if (!cuda_is_cache(&kv) || !has_queries(&kv, q) || !is_f32(out) || out.rows != q.rows ||
        out.cols != (int64_t)keys || keys > kv.capacity || head >= kv.heads)
        return cuda_shape(err, "attention_scores");
    return cuda_status(err, k_attention_scores(c->work, q, kv, rows, head, keys, out),
                       "comparing queries with keys");
}

int cuda_align(struct backend *be, struct tensor scores, uint32_t heads, uint32_t frames,
               struct tensor out, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    void *statistics;
    int rc;

    if (!is_f32(scores) || !is_f32(out) || heads < 1 || heads > MOST_ROWS || out.rows > MOST_ROWS ||
        scores.rows != out.rows * heads || frames < 1 || frames > BACKEND_MAX_KEYS ||
        scores.cols < (int64_t)frames || out.cols < (int64_t)frames)
        return cuda_shape(err, "align");
    rc = cuda_scratch(c, 2 * (size_t)heads * frames * sizeof(double), &statistics, err);
    if (rc != 0)
        return rc;
    return cuda_status(err, k_align(c->work, scores, heads, frames, statistics, out),
                       "aligning tokens");
}
