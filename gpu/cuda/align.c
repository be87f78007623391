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

int cuda_align(struct backend *be, struct tensor scores, uint32_t heads,
               const struct align_window *windows, uint32_t n, struct tensor out, struct err *err)
{
    int64_t rows = backend_align_rows(windows, n, scores.cols < out.cols ? scores.cols : out.cols);
    struct cuda *c = cuda_enter(be);
    void *statistics;
    int rc;

    if (!is_f32(scores) || !is_f32(out) || heads < 1 || heads > MOST_ROWS || rows < 1 ||
        rows > MOST_ROWS || rows != out.rows || scores.rows != rows * heads)
        return cuda_shape(err, "align");
    rc = cuda_scratch(c, k_align_statistics(heads, n) * sizeof(double), &statistics, err);
    if (rc != 0)
        return rc;
    return cuda_status(err, k_align(c->work, scores, heads, windows, n, statistics, out),
                       "aligning tokens");
}

/* The ranges are pairs of numbers. */
_Static_assert(sizeof(struct align_hold) == 2 * sizeof(uint32_t), "two numbers of a row");

int cuda_warp(struct backend *be, struct tensor matrix, const struct align_window *windows,
              uint32_t n, const struct align_hold *hold, struct tensor work, uint32_t *first_frame,
              struct err *err)
{
    int64_t most = matrix.cols < work.cols ? matrix.cols : work.cols;
    int64_t rows = backend_align_rows(windows, n, most);
    struct cuda *c = cuda_enter(be);
    uint32_t *numbers = NULL;
    int rc = 0;

    if (!is_f32(matrix) || !is_f32(work) || rows < 1 || rows != matrix.rows || rows != work.rows ||
        !backend_align_paths(windows, n))
        return cuda_shape(err, "warp");
    if (hold)
        rc = cuda_numbers(c, &hold->from, 2 * (size_t)rows, &numbers, err);
    if (rc != 0)
        return rc;
    return cuda_status(err, k_warp(c->work, matrix, windows, n, numbers, work, first_frame),
                       "looking for paths");
}
