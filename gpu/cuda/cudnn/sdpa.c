/* Fused attention: cuDNN's scaled dot-product attention, one operation of its graphs, for 16-bit
 * types on compute capability 8.0 and later. A plan is made for each shape and kept; a shape that
 * cuDNN has no kernel for is remembered as such.
 *
 * Tensors are [windows][heads][n][64] by their strides, so that queries, keys and values may be
 * columns of one matrix, and the output lies as the next product wants it. */
#include "gpu/cuda/cudnn/graph.h"

#include <stdlib.h>
#include <string.h>

#if NIGHTSHIFT_CUDNN

#define PLANS_MAX 64 /* then all are made again */
#define PROPOSALS 8  /* tried until one will do */
#define MAX_TENSORS 5

enum { UID_Q = 1, UID_K, UID_V, UID_OUT, UID_SCALE };

struct sdpa_key {
    int64_t windows, heads, n, type, q_stride, k_stride, v_stride, out_stride;
};

struct sdpa_plan {
    struct sdpa_key key;
    struct graph_plan run;
};

static void plan_free(struct cuda *c, struct sdpa_plan *p)
{
    graph_plan_free(c, &p->run);
    free(p);
}

static void free_plans(struct cuda *c)
{
    for (size_t i = 0; i < c->sdpa_count; i++)
        plan_free(c, c->sdpa[i]);
    c->sdpa_count = 0;
}

void cuda_sdpa_free(struct cuda *c)
{
    free_plans(c);
    free(c->sdpa);
    c->sdpa = NULL;
}

static cudnnStatus_t make_tensors(struct cuda *c, struct graph *g, const struct sdpa_key *key,
                                  cudnnBackendDescriptor_t tensor[MAX_TENSORS + 1])
{
    const int64_t strides[] = {[UID_Q] = key->q_stride,
                               [UID_K] = key->k_stride,
                               [UID_V] = key->v_stride,
                               [UID_OUT] = key->out_stride};
    struct graph_tensor t = {.type = key->type == DTYPE_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16,
                             .dims = {key->windows, key->heads, key->n, CUDA_HEAD},
                             .alignment = GRAPH_ALIGNMENT};
    const struct graph_tensor scale = {.uid = UID_SCALE,
                                       .type = CUDNN_DATA_FLOAT,
                                       .kind = GRAPH_VALUE,
                                       .dims = {1, 1, 1, 1},
                                       .strides = {1, 1, 1, 1},
                                       .alignment = GRAPH_ALIGNMENT};
    cudnnStatus_t s = CUDNN_STATUS_SUCCESS;

    for (t.uid = UID_Q; t.uid <= UID_OUT && s == CUDNN_STATUS_SUCCESS; t.uid++) {
        const int64_t by[4] = {key->n * strides[t.uid], CUDA_HEAD, strides[t.uid], 1};

        memcpy(t.strides, by, sizeof(by));
        s = graph_tensor(c, g, &t, &tensor[t.uid]);
    }
    return s == CUDNN_STATUS_SUCCESS ? graph_tensor(c, g, &scale, &tensor[UID_SCALE]) : s;
}

static cudnnStatus_t make_operation(struct cuda *c, struct graph *g, const struct sdpa_key *key,
                                    cudnnBackendDescriptor_t *ret)
{
    static const struct {
        cudnnBackendAttributeName_t name;
        int uid;
    } parts[] = {
        {CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, UID_Q},
        {CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, UID_K},
        {CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, UID_V},
        {CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, UID_OUT},
        {CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, UID_SCALE},
    };
    cudnnBackendDescriptor_t tensor[MAX_TENSORS + 1];
    cudnnStatus_t s = make_tensors(c, g, key, tensor);

    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_make(c, g, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, ret);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && s == CUDNN_STATUS_SUCCESS; i++)
        s = graph_set(c, *ret, parts[i].name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                      &tensor[parts[i].uid]);
    return s == CUDNN_STATUS_SUCCESS ? c->libs.dnn.cudnnBackendFinalize(*ret) : s;
}

/* Anything that cuDNN refuses before it runs leaves no plan; the reason is kept for the doctor. */
static int prepare_sdpa_plan(struct cuda *c, struct sdpa_plan *p, struct err *err)
{
    const struct graph_wish wish = {.engines = PROPOSALS};
    struct graph g = {.count = 0};
    cudnnBackendDescriptor_t operation = NULL;
    cudnnStatus_t s = make_operation(c, &g, &p->key, &operation);
    int rc = graph_plan(c, &g, s, &operation, 1, wish, &p->run, c->dnn_reason,
                        sizeof(c->dnn_reason), "preparing attention", err);

    graph_free(c, &g);
    return rc;
}

/* NULL: out of memory, and err says of which; nothing is remembered then. */
static struct sdpa_plan *find_plan(struct cuda *c, const struct sdpa_key *key, struct err *err)
{
    struct sdpa_plan *p;

    for (size_t i = 0; i < c->sdpa_count; i++)
        if (memcmp(&c->sdpa[i]->key, key, sizeof(*key)) == 0)
            return c->sdpa[i];
    if (!c->sdpa)
        c->sdpa = calloc(PLANS_MAX, sizeof(struct sdpa_plan *));
    p = c->sdpa ? calloc(1, sizeof(*p)) : NULL;
    if (!p) {
        (void)err_set(err, ERR_NOMEM, "out of memory for attention");
        return NULL;
    }
    if (c->sdpa_count == PLANS_MAX)
        free_plans(c);
    p->key = *key;
    if (prepare_sdpa_plan(c, p, err) != 0) {
        free(p);
        return NULL;
    }
    c->sdpa[c->sdpa_count++] = p;
    return p;
}

static bool is_tensor_aligned(struct tensor t)
{
    return (uintptr_t)t.data % GRAPH_ALIGNMENT == 0 &&
           (size_t)t.stride * dtype_size(t.type) % GRAPH_ALIGNMENT == 0;
}

int cuda_sdpa(struct cuda *c, uint32_t windows, struct tensor q, struct tensor k, struct tensor v,
              struct tensor out, struct err *err)
{
    const struct sdpa_key key = {windows,  q.cols / CUDA_HEAD, q.rows / windows, q.type,
                                 q.stride, k.stride,           v.stride,         out.stride};
    static const int64_t uids[] = {UID_Q, UID_K, UID_V, UID_OUT, UID_SCALE};
    _Alignas(GRAPH_ALIGNMENT) float scale = 0.125f; /* 1 / sqrt(64) */
    void *const data[] = {q.data, k.data, v.data, out.data, &scale};
    struct sdpa_plan *p;

    if (!c->dnn || q.type == DTYPE_F32 || !is_tensor_aligned(q) || !is_tensor_aligned(k) ||
        !is_tensor_aligned(v) || !is_tensor_aligned(out))
        return ERR_EMPTY;
    p = find_plan(c, &key, err);
    if (!p)
        return err->code;
    return p->run.plan ? graph_run(c, &p->run, uids, data, MAX_TENSORS, "attending", err)
                       : ERR_EMPTY;
}

#else

int cuda_sdpa(struct cuda *c, uint32_t windows, struct tensor q, struct tensor k, struct tensor v,
              struct tensor out, struct err *err)
{
    (void)c;
    (void)windows;
    (void)q;
    (void)k;
    (void)v;
    (void)out;
    (void)err;
    return ERR_EMPTY;
}

#endif
