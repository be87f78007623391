/* Attention within windows: cuDNN's fused one where there is one (cudnn/sdpa.c), else two products
 * and a softmax, over as many heads at once as the bound on scratch memory allows.
 *
 * Scores of a head are [n][n] float32. With 16-bit values the softmax writes its weights over them,
 * each row at the place of its scores, so that no second matrix is needed. */
#include "gpu/cuda/cuda.h"

#include "gpu/cuda/kernels.h"

static bool has_attention_shape(struct tensor t, struct tensor like, uint32_t windows)
{
    return t.data && t.type == like.type && t.rows == like.rows && t.cols == like.cols &&
           t.stride >= t.cols && t.cols > 0 && t.cols % CUDA_HEAD == 0 && t.rows > 0 &&
           t.rows % windows == 0 && t.rows / windows <= BACKEND_MAX_KEYS;
}

static void *locate_element(struct tensor t, int64_t row, int64_t col)
{
    return (char *)t.data + (size_t)(row * t.stride + col) * dtype_size(t.type);
}

struct job {
    struct tensor q, k, v, out;
    int64_t n;      /* positions of a window */
    int64_t row;    /* first of the window */
    int64_t head;   /* first of these */
    int64_t heads;  /* how many */
    int64_t stride; /* of the scores, float32 */
    void *scores;
};

static int compute_scores(struct cuda *c, const struct job *j, struct err *err)
{
    const struct product p = {
        .type = cuda_type(j->q.type),
        .y_type = CUDA_R_32F,
        .rows = j->n,
        .out = j->n,
        .in = CUDA_HEAD,
        .x_stride = j->q.stride,
        .w_stride = j->k.stride,
        .y_stride = j->stride,
        .batch = j->heads,
        .x_step = CUDA_HEAD,
        .w_step = CUDA_HEAD,
        .y_step = j->n * j->stride,
        .epilogue = EPILOGUE_NONE,
        .x = locate_element(j->q, j->row, j->head * CUDA_HEAD),
        .w = locate_element(j->k, j->row, j->head * CUDA_HEAD),
        .y = j->scores,
        .alpha = 1.0f,
    };

    return cuda_product(c, &p, "comparing queries with keys", err);
}

/* `stride` is that of the weights, in elements of the values' type. */
static int weigh_values(struct cuda *c, const struct job *j, int64_t stride, struct err *err)
{
    const struct product p = {
        .type = cuda_type(j->v.type),
        .y_type = cuda_type(j->out.type),
        .w_by_input = true,
        .rows = j->n,
        .out = CUDA_HEAD,
        .in = j->n,
        .x_stride = stride,
        .w_stride = j->v.stride,
        .y_stride = j->out.stride,
        .batch = j->heads,
        .x_step = j->n * stride,
        .w_step = CUDA_HEAD,
        .y_step = CUDA_HEAD,
        .epilogue = EPILOGUE_NONE,
        .x = j->scores,
        .w = locate_element(j->v, j->row, j->head * CUDA_HEAD),
        .y = locate_element(j->out, j->row, j->head * CUDA_HEAD),
        .alpha = 1.0f,
    };

    return cuda_product(c, &p, "weighing values", err);
}

static int attend_head_group(struct cuda *c, const struct job *j, struct err *err)
{
    int64_t ratio = (int64_t)(sizeof(float) / dtype_size(j->v.type));
    struct tensor s = {DTYPE_F32, j->heads * j->n, j->n, j->stride, j->scores, NULL};
    struct tensor w = {j->v.type, j->heads * j->n, j->n, j->stride * ratio, j->scores, NULL};
    int rc;

    rc = compute_scores(c, j, err);
    if (rc == 0)
        rc = cuda_status(err, k_softmax(c->work, s, 0.125f, w), "softmax");
    return rc == 0 ? weigh_values(c, j, w.stride, err) : rc;
}

static int attend_unfused(struct cuda *c, uint32_t windows, struct tensor q, struct tensor k,
                          struct tensor v, struct tensor out, struct err *err)
{
    int64_t heads = q.cols / CUDA_HEAD, n = q.rows / windows;
    int64_t stride = (n + 7) / 8 * 8; /* rows begin at multiples of 16 bytes, also as halves */
    int64_t bytes = n * stride * (int64_t)sizeof(float);
    int64_t step = CUDA_ATTENTION_BYTES / bytes;
    struct job j = {.q = q, .k = k, .v = v, .out = out, .n = n, .stride = stride};
    int rc;

    step = step < 1 ? 1 : step > heads ? heads : step;
    rc = cuda_scratch(c, (size_t)(step * bytes), &j.scores, err);
    for (uint32_t w = 0; w < windows; w++) {
        for (int64_t h = 0; h < heads && rc == 0; h += step) {
            j.row = w * n;
            j.head = h;
            j.heads = heads - h < step ? heads - h : step;
            rc = attend_head_group(c, &j, err);
        }
    }
    return rc;
}

static struct tensor window_of(struct tensor t, uint32_t windows, uint32_t w)
{
    t.data = locate_element(t, w * (t.rows / windows), 0);
    t.rows /= windows;
    return t;
}

static int compute_attention(struct cuda *c, uint32_t windows, struct tensor q, struct tensor k,
                             struct tensor v, struct tensor out, struct err *err)
{
    int rc = cuda_sdpa(c, windows, q, k, v, out, err);

    return rc == ERR_EMPTY ? attend_unfused(c, windows, q, k, v, out, err) : rc;
}

int cuda_attention(struct backend *be, uint32_t windows, struct tensor q, struct tensor k,
                   struct tensor v, struct tensor out, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int rc = 0;

    if (windows < 1 || !has_attention_shape(q, q, windows) || !has_attention_shape(k, q, windows) ||
        !has_attention_shape(v, q, windows) || !has_attention_shape(out, q, windows))
        return cuda_shape(err, "attention");
    if (!c->deterministic)
        return compute_attention(c, windows, q, k, v, out, err);
    for (uint32_t w = 0; w < windows && rc == 0; w++)
        rc = compute_attention(c, 1, window_of(q, windows, w), window_of(k, windows, w),
                               window_of(v, windows, w), window_of(out, windows, w), err);
    return rc;
}
