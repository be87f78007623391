/* cuDNN's handle, and its graphs. */
#include "gpu/cuda/cudnn/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if NIGHTSHIFT_CUDNN

int cuda_dnn_open(struct cuda *c, struct err *err)
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

void cuda_dnn_close(struct cuda *c)
{
    cuda_sdpa_free(c);
    cuda_convolve_free(c);
    if (c->dnn)
        (void)c->libs.dnn.cudnnDestroy(c->dnn);
    c->dnn = NULL;
}

/* The host's memory too: fewer windows at once want less of both. */
static bool no_memory(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

static int report_cudnn_failure(struct cuda *c, cudnnStatus_t status, const char *doing,
                                struct err *err)
{
    char text[256] = "";

    c->libs.dnn.cudnnGetLastErrorString(text, sizeof(text));
    return err_set(err, no_memory(status) ? ERR_VRAM : ERR_DEVICE,
                   "cuDNN failed while %s: status %d%s%.200s", doing, (int)status,
                   text[0] ? ": " : "", text);
}

/* --- making one ---------------------------------------------------------------------------- */

cudnnStatus_t graph_make(struct cuda *c, struct graph *g, cudnnBackendDescriptorType_t type,
                         cudnnBackendDescriptor_t *ret)
{
    cudnnStatus_t s;

    *ret = NULL;
    if (g->count == (int)(sizeof(g->kept) / sizeof(g->kept[0])))
        return CUDNN_STATUS_NOT_SUPPORTED;
    s = c->libs.dnn.cudnnBackendCreateDescriptor(type, ret);
    if (s == CUDNN_STATUS_SUCCESS)
        g->kept[g->count++] = *ret;
    return s;
}

cudnnStatus_t graph_set(struct cuda *c, cudnnBackendDescriptor_t d,
                        cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        int64_t count, const void *values)
{
    return c->libs.dnn.cudnnBackendSetAttribute(d, name, type, count, values);
}

cudnnStatus_t graph_tensor(struct cuda *c, struct graph *g, const struct graph_tensor *t,
                           cudnnBackendDescriptor_t *ret)
{
    const bool yes = true;
    cudnnStatus_t s = graph_make(c, g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, ret);

    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, *ret, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t->type);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, *ret, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t->dims);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, *ret, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t->strides);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, *ret, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t->uid);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, *ret, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
                      &t->alignment);
    if (s == CUDNN_STATUS_SUCCESS && t->kind != GRAPH_DATA)
        s = graph_set(c, *ret,
                      t->kind == GRAPH_VALUE ? CUDNN_ATTR_TENSOR_IS_BY_VALUE
                                             : CUDNN_ATTR_TENSOR_IS_VIRTUAL,
                      CUDNN_TYPE_BOOLEAN, 1, &yes);
    return s == CUDNN_STATUS_SUCCESS ? c->libs.dnn.cudnnBackendFinalize(*ret) : s;
}

void graph_free(struct cuda *c, struct graph *g)
{
    while (g->count > 0)
        (void)c->libs.dnn.cudnnBackendDestroyDescriptor(g->kept[--g->count]);
    (void)cudaGetLastError(); /* what was tried in vain may have left one */
}

/* --- planning ------------------------------------------------------------------------------ */

struct proposals {
    cudnnBackendDescriptor_t engine[GRAPH_ENGINES]; /* configurations; NULL behind the last */
    int64_t count;
};

static cudnnStatus_t make_operation_graph(struct cuda *c, struct graph *g,
                                          const cudnnBackendDescriptor_t *operations, int count,
                                          cudnnBackendDescriptor_t *ret)
{
    cudnnHandle_t handle = c->dnn;
    cudnnStatus_t s = graph_make(c, g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, ret);

    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, *ret, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, *ret, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                      operations);
    return s == CUDNN_STATUS_SUCCESS ? c->libs.dnn.cudnnBackendFinalize(*ret) : s;
}

static cudnnStatus_t list_proposed_engines(struct cuda *c, struct graph *g,
                                           cudnnBackendDescriptor_t graph, int most,
                                           struct proposals *ret)
{
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t heuristic;
    cudnnStatus_t s = graph_make(c, g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristic);

    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendFinalize(heuristic);
    for (int i = 0; i < most && s == CUDNN_STATUS_SUCCESS; i++)
        s = c->libs.dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                                     &ret->engine[i]);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &ret->count,
                                                 ret->engine);
    if (ret->count > most)
        ret->count = most; /* it may count those that it did not return */
    return s;
}

/* *ret: the bits of what an engine says about its numbers. */
static cudnnStatus_t notes_of(struct cuda *c, cudnnBackendDescriptor_t config, unsigned *ret)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendDescriptor_t engine = NULL;
    int64_t count = 0;
    cudnnStatus_t s =
        c->libs.dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);

    *ret = 0;
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                 CUDNN_TYPE_NUMERICAL_NOTE,
                                                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes);
    for (int64_t i = 0; s == CUDNN_STATUS_SUCCESS && i < count; i++)
        *ret |= (unsigned)notes[i] < 32 ? 1u << notes[i] : 0u;
    if (engine)
        (void)c->libs.dnn.cudnnBackendDestroyDescriptor(engine);
    return s;
}

static cudnnStatus_t make_execution_plan(struct cuda *c, cudnnBackendDescriptor_t engine,
                                         struct graph_plan *ret)
{
    cudnnHandle_t handle = c->dnn;
    int64_t bytes = 0, count = 0;
    cudnnStatus_t s = c->libs.dnn.cudnnBackendCreateDescriptor(
        CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &ret->plan);

    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, ret->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                      &handle);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, ret->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendFinalize(ret->plan);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendGetAttribute(ret->plan,
                                                 CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                 CUDNN_TYPE_INT64, 1, &count, &bytes);
    ret->workspace_bytes = bytes > 0 ? (size_t)bytes : 0;
    if (s != CUDNN_STATUS_SUCCESS)
        graph_plan_free(c, ret);
    return s;
}

/* Takes the first proposal that will do. *tried: the last one's status if none does. */
static cudnnStatus_t choose_engine_plan(struct cuda *c, const struct proposals *p,
                                        struct graph_wish wish, struct graph_plan *ret,
                                        cudnnStatus_t *tried)
{
    for (int64_t i = 0; i < p->count && !ret->plan; i++) {
        unsigned notes = 0;

        *tried = wish.without ? notes_of(c, p->engine[i], &notes) : CUDNN_STATUS_SUCCESS;
        if (*tried == CUDNN_STATUS_SUCCESS && !(notes & wish.without))
            *tried = make_execution_plan(c, p->engine[i], ret);
        if (no_memory(*tried))
            return *tried;
        if (ret->plan && wish.most_bytes && ret->workspace_bytes > wish.most_bytes)
            graph_plan_free(c, ret);
    }
    return CUDNN_STATUS_SUCCESS;
}

static void format_refusal(struct cuda *c, cudnnStatus_t status, char *why, size_t capacity)
{
    char text[160] = "";

    if (status == CUDNN_STATUS_SUCCESS) {
        snprintf(why, capacity, "cuDNN proposes no kernel");
        return;
    }
    c->libs.dnn.cudnnGetLastErrorString(text, sizeof(text));
    snprintf(why, capacity, "cuDNN refuses it: status %d%s%s", (int)status, text[0] ? ": " : "",
             text);
}

int graph_plan(struct cuda *c, struct graph *g, cudnnStatus_t status,
               const cudnnBackendDescriptor_t *operations, int count, struct graph_wish wish,
               struct graph_plan *ret, char *why, size_t capacity, const char *doing,
               struct err *err)
{
    int most = wish.engines < GRAPH_ENGINES ? wish.engines : GRAPH_ENGINES, rc = 0;
    cudnnBackendDescriptor_t graph = NULL;
    cudnnStatus_t tried = CUDNN_STATUS_SUCCESS;
    struct proposals p = {.count = 0};

    *ret = (struct graph_plan){NULL, 0};
    if (status == CUDNN_STATUS_SUCCESS)
        status = make_operation_graph(c, g, operations, count, &graph);
    if (status == CUDNN_STATUS_SUCCESS)
        status = list_proposed_engines(c, g, graph, most, &p);
    if (status == CUDNN_STATUS_SUCCESS)
        status = choose_engine_plan(c, &p, wish, ret, &tried);
    if (no_memory(status))
        rc = report_cudnn_failure(c, status, doing, err);
    else if (!ret->plan)
        format_refusal(c, status != CUDNN_STATUS_SUCCESS ? status : tried, why, capacity);
    for (int i = 0; i < most; i++)
        if (p.engine[i])
            (void)c->libs.dnn.cudnnBackendDestroyDescriptor(p.engine[i]);
    return rc;
}

void graph_plan_free(struct cuda *c, struct graph_plan *p)
{
    if (p->plan)
        (void)c->libs.dnn.cudnnBackendDestroyDescriptor(p->plan);
    *p = (struct graph_plan){NULL, 0};
}

/* --- running ------------------------------------------------------------------------------- */

int graph_run(struct cuda *c, const struct graph_plan *p, const int64_t *uids, void *const *data,
              int count, const char *doing, struct err *err)
{
    cudnnBackendDescriptor_t pack = NULL;
    void *workspace = c->workspace;
    cudnnStatus_t s;
    int rc;

    if (p->workspace_bytes > c->workspace_bytes) {
        rc = cuda_scratch(c, p->workspace_bytes, &workspace, err);
        if (rc != 0)
            return rc;
    }
    s = c->libs.dnn.cudnnSetStream(c->dnn, c->work);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uids);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                      data);
    if (s == CUDNN_STATUS_SUCCESS)
        s = graph_set(c, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                      &workspace);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendFinalize(pack);
    if (s == CUDNN_STATUS_SUCCESS)
        s = c->libs.dnn.cudnnBackendExecute(c->dnn, p->plan, pack);
    if (pack)
        (void)c->libs.dnn.cudnnBackendDestroyDescriptor(pack);
    if (s != CUDNN_STATUS_SUCCESS)
        return report_cudnn_failure(c, s, doing, err);
    return cuda_status(err, cudaGetLastError(), doing);
}

/* --- all that will do ---------------------------------------------------------------------- */

int graph_plans(struct cuda *c, struct graph *g, const cudnnBackendDescriptor_t *operations,
                int count, struct graph_wish wish, struct graph_plan *ret, int most)
{
    int engines = wish.engines < GRAPH_ENGINES ? wish.engines : GRAPH_ENGINES, n = 0;
    cudnnBackendDescriptor_t graph = NULL;
    struct proposals p = {.count = 0};

    if (make_operation_graph(c, g, operations, count, &graph) == CUDNN_STATUS_SUCCESS &&
        list_proposed_engines(c, g, graph, engines, &p) != CUDNN_STATUS_SUCCESS)
        p.count = 0;
    for (int64_t i = 0; i < p.count && n < most; i++) {
        struct proposals one = {.engine = {p.engine[i]}, .count = 1};
        cudnnStatus_t tried;

        ret[n] = (struct graph_plan){NULL, 0};
        (void)choose_engine_plan(c, &one, wish, &ret[n], &tried);
        n += ret[n].plan != NULL;
    }
    for (int i = 0; i < engines; i++)
        if (p.engine[i])
            (void)c->libs.dnn.cudnnBackendDestroyDescriptor(p.engine[i]);
    return n;
}

#else

int cuda_dnn_open(struct cuda *c, struct err *err)
{
    (void)err;
    snprintf(c->dnn_reason, sizeof(c->dnn_reason), "built without cuDNN");
    return 0;
}

void cuda_dnn_close(struct cuda *c) { (void)c; }

#endif
