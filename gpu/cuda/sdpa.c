/* Fused attention: cuDNN's scaled dot-product attention, one operation of its graphs, for 16-bit
 * types on compute capability 8.0 and later. A plan is made for each shape and kept; a shape that
 * cuDNN has no kernel for is remembered as such.
 *
 * Tensors are [windows][heads][n][64] by their strides, so that queries, keys and values may be
 * columns of one matrix, and the output lies as the next product wants it. */
#include "gpu/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if NIGHTSHIFT_CUDNN

#define PLANS_MAX 64  /* then all are made again */
#define ENGINES_MAX 8 /* of cuDNN's proposals, best first, tried until one will do */
#define ALIGNMENT 16  /* bytes: what its kernels load at once */
#define MAX_TENSORS 5

enum { UID_Q = 1, UID_K, UID_V, UID_OUT, UID_SCALE };

struct sdpa_key {
    int64_t windows, heads, n, type, q_stride, k_stride, v_stride, out_stride;
};

struct sdpa_plan {
    struct sdpa_key key;
    cudnnBackendDescriptor_t plan; /* NULL: cuDNN has none for this shape */
    size_t workspace_bytes;
};

/* Descriptors that live until a plan is made. */
struct making {
    struct cuda *c;
    cudnnBackendDescriptor_t tensor[MAX_TENSORS + 1]; /* by UID */
    cudnnBackendDescriptor_t operation, graph, heuristic, engine[ENGINES_MAX];
    int64_t engines;
};

/* The host's memory too: fewer windows at once want less of both. */
static bool no_memory(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

static int failed(struct cuda *c, cudnnStatus_t status, const char *doing, struct err *err)
{
    char text[256] = "";

    c->libs.dnn.cudnnGetLastErrorString(text, sizeof(text));
    return err_set(err, no_memory(status) ? ERR_VRAM : ERR_DEVICE,
                   "cuDNN failed while %s: status %d%s%.200s", doing, (int)status,
                   text[0] ? ": " : "", text);
}

int cuda_sdpa_open(struct cuda *c, struct err *err)
{
    cudnnHandle_t handle = NULL;
    cudnnStatus_t status;

    (void)err;
    if (!c->libs.cudnn.handle) {
        snprintf(c->dnn_reason, sizeof(c->dnn_reason), "no cuDNN");
        return 0;
    }
    if (c->sm < 80) {
        snprintf(c->dnn_reason, sizeof(c->dnn_reason), "wants sm_80");
        return 0;
    }
    status = c->libs.dnn.cudnnCreate(&handle);
    if (status != CUDNN_STATUS_SUCCESS) {
        snprintf(c->dnn_reason, sizeof(c->dnn_reason), "cuDNN does not start (status %d)",
                 (int)status);
        return 0;
    }
    c->dnn = handle;
    return 0;
}

static void plan_free(struct cuda *c, struct sdpa_plan *p)
{
    if (p && p->plan)
        (void)c->libs.dnn.cudnnBackendDestroyDescriptor(p->plan);
    free(p);
}

static void free_plans(struct cuda *c)
{
    for (size_t i = 0; i < c->sdpa_count; i++)
        plan_free(c, c->sdpa[i]);
    c->sdpa_count = 0;
}

void cuda_sdpa_close(struct cuda *c)
{
    free_plans(c);
    free(c->sdpa);
    c->sdpa = NULL;
    if (c->dnn)
        (void)c->libs.dnn.cudnnDestroy(c->dnn);
    c->dnn = NULL;
}

static cudnnStatus_t set(struct cuda *c, cudnnBackendDescriptor_t d,
                         cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         int64_t count, const void *values)
{
    return c->libs.dnn.cudnnBackendSetAttribute(d, name, type, count, values);
}

static cudnnStatus_t make_tensor(struct cuda *c, int64_t uid, cudnnDataType_t type,
                                 const int64_t dims[4], const int64_t strides[4], bool by_value,
                                 cudnnBackendDescriptor_t *ret)
{
    const int64_t alignment = ALIGNMENT;
    cudnnStatus_t s =
        c->libs.dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, ret);

    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, *ret, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, *ret, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, *ret, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, *ret, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, *ret, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (s == CUDNN_STATUS_SUCCESS && by_value)
        s = set(c, *ret, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    return s == CUDNN_STATUS_SUCCESS ? c->libs.dnn.cudnnBackendFinalize(*ret) : s;
}

static cudnnStatus_t make_tensors(struct making *m, const struct sdpa_key *key)
{
    const int64_t dims[4] = {key->windows, key->heads, key->n, CUDA_HEAD};
    const int64_t strides[] = {[UID_Q] = key->q_stride,
                               [UID_K] = key->k_stride,
                               [UID_V] = key->v_stride,
                               [UID_OUT] = key->out_stride};
    const int64_t one[4] = {1, 1, 1, 1};
    cudnnDataType_t type = key->type == DTYPE_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
    cudnnStatus_t s = CUDNN_STATUS_SUCCESS;

    for (int64_t uid = UID_Q; uid <= UID_OUT && s == CUDNN_STATUS_SUCCESS; uid++) {
        const int64_t by[4] = {key->n * strides[uid], CUDA_HEAD, strides[uid], 1};

        s = make_tensor(m->c, uid, type, dims, by, false, &m->tensor[uid]);
    }
    if (s == CUDNN_STATUS_SUCCESS)
        s = make_tensor(m->c, UID_SCALE, CUDNN_DATA_FLOAT, one, one, true, &m->tensor[UID_SCALE]);
    return s;
}

static cudnnStatus_t make_graph(struct making *m)
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
    struct cuda *c = m->c;
    cudnnHandle_t handle = c->dnn;
    cudnnStatus_t s;

    s = c->libs.dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
                                                 &m->operation);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && s == CUDNN_STATUS_SUCCESS; i++)
        s = set(c, m->operation, parts[i].name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                &m->tensor[parts[i].uid]);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendFinalize(m->operation);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
                                                     &m->graph);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, m->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, m->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                &m->operation);
    return s == CUDNN_STATUS_SUCCESS ? c->libs.dnn.cudnnBackendFinalize(m->graph) : s;
}

/* cuDNN's proposals for the graph, best first. */
static cudnnStatus_t make_engines(struct making *m)
{
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    struct cuda *c = m->c;
    cudnnStatus_t s;

    s = c->libs.dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
                                                 &m->heuristic);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, m->heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &m->graph);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, m->heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendFinalize(m->heuristic);
    for (int i = 0; i < ENGINES_MAX && s == CUDNN_STATUS_SUCCESS; i++)
        s = c->libs.dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                                     &m->engine[i]);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendGetAttribute(m->heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, ENGINES_MAX,
                                                 &m->engines, m->engine);
    if (m->engines > ENGINES_MAX)
        m->engines = ENGINES_MAX; /* it may count those that it did not return */
    return s;
}

static cudnnStatus_t make_plan(struct cuda *c, cudnnBackendDescriptor_t engine,
                               cudnnBackendDescriptor_t *ret)
{
    cudnnHandle_t handle = c->dnn;
    cudnnStatus_t s;

    s = c->libs.dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, ret);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, *ret, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, *ret, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                &engine);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendFinalize(*ret);
    if (s != CUDNN_STATUS_SUCCESS && *ret) {
        (void)c->libs.dnn.cudnnBackendDestroyDescriptor(*ret);
        *ret = NULL;
    }
    return s;
}

static void making_free(struct making *m)
{
    cudnnBackendDescriptor_t one[] = {m->heuristic, m->graph, m->operation};
    struct cuda *c = m->c;

    for (int i = 0; i < ENGINES_MAX; i++)
        if (m->engine[i])
            (void)c->libs.dnn.cudnnBackendDestroyDescriptor(m->engine[i]);
    for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++)
        if (one[i])
            (void)c->libs.dnn.cudnnBackendDestroyDescriptor(one[i]);
    for (int i = 0; i <= MAX_TENSORS; i++)
        if (m->tensor[i])
            (void)c->libs.dnn.cudnnBackendDestroyDescriptor(m->tensor[i]);
}

/* Keeps why cuDNN has no plan, for the doctor. */
static void remember_refusal(struct cuda *c, cudnnStatus_t status)
{
    char text[160] = "";

    if (status == CUDNN_STATUS_SUCCESS) {
        snprintf(c->dnn_reason, sizeof(c->dnn_reason), "cuDNN proposes no kernel");
        return;
    }
    c->libs.dnn.cudnnGetLastErrorString(text, sizeof(text));
    snprintf(c->dnn_reason, sizeof(c->dnn_reason), "cuDNN refuses it: status %d%s%s", (int)status,
             text[0] ? ": " : "", text);
}

/* Anything that cuDNN refuses before it runs leaves p->plan NULL. Want of memory is no refusal:
 * ERR_VRAM. */
static int prepare(struct cuda *c, struct sdpa_plan *p, struct err *err)
{
    struct making m = {.c = c};
    cudnnStatus_t s, tried = CUDNN_STATUS_SUCCESS;
    int rc = 0;

    s = make_tensors(&m, &p->key);
    if (s == CUDNN_STATUS_SUCCESS)
        s = make_graph(&m);
    if (s == CUDNN_STATUS_SUCCESS)
        s = make_engines(&m);
    for (int64_t i = 0; i < m.engines && s == CUDNN_STATUS_SUCCESS && !p->plan; i++) {
        int64_t bytes = 0, count = 0;

        tried = make_plan(c, m.engine[i], &p->plan);
        if (no_memory(tried))
            s = tried;
        if (tried != CUDNN_STATUS_SUCCESS)
            continue;
        s = c->libs.dnn.cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                 CUDNN_TYPE_INT64, 1, &count, &bytes);
        p->workspace_bytes = bytes > 0 ? (size_t)bytes : 0;
    }
    if (s != CUDNN_STATUS_SUCCESS && p->plan) {
        (void)c->libs.dnn.cudnnBackendDestroyDescriptor(p->plan);
        p->plan = NULL;
    }
    if (no_memory(s))
        rc = failed(c, s, "preparing attention", err);
    else if (!p->plan)
        remember_refusal(c, s != CUDNN_STATUS_SUCCESS ? s : tried);
    making_free(&m);
    (void)cudaGetLastError(); /* what was tried in vain may have left one */
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
    if (prepare(c, p, err) != 0) {
        free(p);
        return NULL;
    }
    c->sdpa[c->sdpa_count++] = p;
    return p;
}

static int execute(struct cuda *c, const struct sdpa_plan *p, void *q, void *k, void *v, void *out,
                   void *workspace, struct err *err)
{
    _Alignas(ALIGNMENT) float scale = 0.125f; /* 1 / sqrt(64); read before the call returns */
    const int64_t uids[] = {UID_Q, UID_K, UID_V, UID_OUT, UID_SCALE};
    void *data[] = {q, k, v, out, &scale};
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t s;

    s = c->libs.dnn.cudnnSetStream(c->dnn, c->work);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, MAX_TENSORS, uids);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, MAX_TENSORS,
                data);
    if (s == CUDNN_STATUS_SUCCESS)
        s = set(c, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendFinalize(pack);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendExecute(c->dnn, p->plan, pack);
    if (pack)
        (void)c->libs.dnn.cudnnBackendDestroyDescriptor(pack);
    if (s != CUDNN_STATUS_SUCCESS)
        return failed(c, s, "attending", err);
    return cuda_status(err, cudaGetLastError(), "attending");
}

static bool aligned(struct tensor t)
{
    return (uintptr_t)t.data % ALIGNMENT == 0 &&
           (size_t)t.stride * dtype_size(t.type) % ALIGNMENT == 0;
}

int cuda_sdpa(struct cuda *c, uint32_t windows, struct tensor q, struct tensor k, struct tensor v,
              struct tensor out, struct err *err)
{
    const struct sdpa_key key = {windows,  q.cols / CUDA_HEAD, q.rows / windows, q.type,
                                 q.stride, k.stride,           v.stride,         out.stride};
    void *workspace = c->workspace;
    struct sdpa_plan *p;
    int rc = 0;

    if (!c->dnn || q.type == DTYPE_F32 || !aligned(q) || !aligned(k) || !aligned(v) ||
        !aligned(out))
        return ERR_EMPTY;
    p = find_plan(c, &key, err);
    if (!p)
        return err->code;
    if (!p->plan)
        return ERR_EMPTY;
    if (p->workspace_bytes > c->workspace_bytes)
        rc = cuda_scratch(c, p->workspace_bytes, &workspace, err);
    return rc == 0 ? execute(c, p, q.data, k.data, v.data, out.data, workspace, err) : rc;
}

#else

int cuda_sdpa_open(struct cuda *c, struct err *err)
{
    (void)err;
    snprintf(c->dnn_reason, sizeof(c->dnn_reason), "built without cuDNN");
    return 0;
}

void cuda_sdpa_close(struct cuda *c) { (void)c; }

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
