/* tests/cuda/emulator/cudnn_graph.cpp - a double of cuDNN's graphs: descriptors, proposals, plans
 * and packs. What a graph may be, and what it computes, is in cudnn_attention.cpp and
 * cudnn_convolution.cpp.
 *
 * Descriptors keep what was set, and are checked when they are finalized and never changed after.
 * Of the engines that are proposed the first cannot be made into a plan; the workspace is filled
 * with NaN. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/cuda/emulator/dnn_graph.h"
#include "tests/cuda/emulator/machine.h"

using namespace emulated;

namespace
{
thread_local char last_words[256];
} // namespace

namespace
{
size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    case CUDNN_TYPE_INT32:
    case CUDNN_TYPE_FLOAT:
        return 4;
    case CUDNN_TYPE_DATA_TYPE:
        return sizeof(cudnnDataType_t);
    case CUDNN_TYPE_HEUR_MODE:
        return sizeof(cudnnBackendHeurMode_t);
    case CUDNN_TYPE_CONVOLUTION_MODE:
        return sizeof(cudnnConvolutionMode_t);
    case CUDNN_TYPE_POINTWISE_MODE:
        return sizeof(cudnnPointwiseMode_t);
    case CUDNN_TYPE_NAN_PROPOGATION:
        return sizeof(cudnnNanPropagation_t);
    default:
        return 8; /* INT64, HANDLE, VOID_PTR, BACKEND_DESCRIPTOR, DOUBLE */
    }
}

cudnnStatus_t finalize_tensor(const descriptor &d)
{
    if (!find(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1) ||
        !find(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4) ||
        !find(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4) ||
        !find(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1) ||
        !find(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a tensor lacks an attribute");
    return CUDNN_STATUS_SUCCESS;
}

/* What the graph may be is its first operation's to say. */
cudnnStatus_t finalize_graph(descriptor &d)
{
    const attribute *a = find(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, -1);
    std::vector<descriptor *> operations;

    if (a == nullptr || !find(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a graph lacks its operations or its handle");
    for (int64_t i = 0; i < a->count; i++) {
        operations.push_back(((descriptor *const *)a->bytes.data())[i]);
        if (operations.back() == nullptr || !operations.back()->finalized)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "an operation that is not finalized");
    }
    if (operations[0]->type == CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR)
        return attention_graph(operations, &d.op);
    if (operations[0]->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
        return convolution_graph(operations, &d.op);
    return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "a graph that begins with this");
}

cudnnStatus_t finalize_heuristic(descriptor &d)
{
    descriptor *graph =
        refer(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    const char *refusal =
        getenv("NIGHTSHIFT_EMULATED_CUDNN_REFUSES"); /* for tests: "memory", "all" */

    if (graph == nullptr || !find(d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a heuristic lacks its graph or its mode");
    graph->op->ask();
    the_machine().dnn_heuristics++;
    if (refusal && strcmp(refusal, "memory") == 0)
        return dnn_refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory for it");
    if (refusal && refusal[0])
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "told to refuse");
    d.op = graph->op;
    return d.op->takes(the_machine().devices[(size_t)current_device()]);
}

cudnnStatus_t finalize_plan(descriptor &d)
{
    descriptor *engine =
        refer(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);

    if (engine == nullptr || !find(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a plan lacks its engine or its handle");
    if (engine->engine == 0)
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "the first engine never does");
    d.op = engine->op;
    d.engine = engine->engine;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_pack(const descriptor &d)
{
    const attribute *ids = find(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, -1);
    const attribute *data = find(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, -1);

    if (!ids || !data || ids->count != data->count ||
        !find(d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a variant pack lacks something");
    return CUDNN_STATUS_SUCCESS;
}

descriptor &of(cudnnBackendDescriptor_t d) { return *(descriptor *)d; }
} // namespace

namespace emulated
{
descriptor *refer(const descriptor &d, int name, cudnnBackendDescriptorType_t type)
{
    descriptor *r = nullptr;

    if (!get(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &r) || r == nullptr || r->type != type ||
        !r->finalized)
        return nullptr;
    return r;
}

bool read_tensor(const descriptor &op, int name, tensor4 *ret)
{
    const descriptor *d = refer(op, name, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;

    if (d == nullptr)
        return false;
    get(*d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    ret->type = type == CUDNN_DATA_HALF       ? CUDA_R_16F
                : type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF
                                              : CUDA_R_32F;
    ret->by_value = ret->inner = false;
    get(*d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &ret->uid);
    get(*d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, ret->dims);
    get(*d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, ret->strides);
    get(*d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &ret->alignment);
    get(*d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &ret->by_value);
    get(*d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &ret->inner);
    return true;
}

void *data_of(const descriptor &pack, int64_t uid)
{
    const attribute &ids = pack.set.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const attribute &data = pack.set.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);

    for (int64_t i = 0; i < ids.count; i++)
        if (((const int64_t *)ids.bytes.data())[i] == uid)
            return ((void *const *)data.bytes.data())[i];
    return nullptr;
}

bool reachable(const tensor4 &t, const void *p)
{
    int64_t last = 1;

    for (int i = 0; i < 4; i++)
        last += (t.dims[i] - 1) * t.strides[i];
    return (uintptr_t)p % (size_t)t.alignment == 0 &&
           on_device(p, (size_t)last * number_size(t.type));
}

void touch_tensor(const tensor4 &t, const void *p, bool write)
{
    for (int64_t b = 0; b < t.dims[0]; b++)
        for (int64_t h = 0; h < t.dims[1]; h++)
            for (int64_t i = 0; i < t.dims[2]; i++)
                touch((const char *)p +
                          (size_t)(b * t.strides[0] + h * t.strides[1] + i * t.strides[2]) *
                              number_size(t.type),
                      (size_t)t.dims[3] * number_size(t.type), write);
}

} // namespace emulated

cudnnStatus_t dnn_refuse(cudnnStatus_t status, const char *why)
{
    snprintf(last_words, sizeof(last_words), "%s", why);
    fprintf(stderr, "emulated cuDNN: status %d: %s\n", (int)status, why);
    return status;
}

cudnnStatus_t dnn_queued(cudaError_t e)
{
    return e == cudaSuccess ? CUDNN_STATUS_SUCCESS
                            : dnn_refuse(CUDNN_STATUS_EXECUTION_FAILED, cudaGetErrorName(e));
}

EMULATED_API size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
EMULATED_API cudnnStatus_t cudnnGraphVersionCheck(void) { return CUDNN_STATUS_SUCCESS; }
EMULATED_API cudnnStatus_t cudnnOpsVersionCheck(void) { return CUDNN_STATUS_SUCCESS; }
EMULATED_API cudnnStatus_t cudnnCnnVersionCheck(void) { return CUDNN_STATUS_SUCCESS; }
EMULATED_API cudnnStatus_t cudnnAdvVersionCheck(void) { return CUDNN_STATUS_SUCCESS; }

EMULATED_API const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS"
                                          : "CUDNN_STATUS_ of another kind";
}

EMULATED_API void cudnnGetLastErrorString(char *message, size_t cap)
{
    snprintf(message, cap, "%s", last_words);
    last_words[0] = '\0';
}

EMULATED_API cudnnStatus_t cudnnCreate(cudnnHandle_t *ret)
{
    int n;

    if (cudaGetDeviceCount(&n) != cudaSuccess)
        return dnn_refuse(CUDNN_STATUS_NOT_INITIALIZED, "there is no device");
    *ret = new cudnnContext{current_device(), nullptr};
    return CUDNN_STATUS_SUCCESS;
}

EMULATED_API cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    delete h;
    return CUDNN_STATUS_SUCCESS;
}

EMULATED_API cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream)
{
    h->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

EMULATED_API cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                        cudnnBackendDescriptor_t *ret)
{
    guard g(the_machine().lock);

    the_machine().dnn_descriptors++;
    *ret = (cudnnBackendDescriptor_t) new descriptor{type, false, {}, nullptr, -1};
    return CUDNN_STATUS_SUCCESS;
}

EMULATED_API cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    guard g(the_machine().lock);

    the_machine().dnn_descriptors--;
    delete &of(d);
    return CUDNN_STATUS_SUCCESS;
}

EMULATED_API cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t desc,
                                                    cudnnBackendAttributeName_t name,
                                                    cudnnBackendAttributeType_t type, int64_t count,
                                                    const void *values)
{
    const char *p = (const char *)values;

    if (of(desc).finalized)
        return dnn_refuse(CUDNN_STATUS_NOT_INITIALIZED, "an attribute after finalization");
    if (count < 1 || values == nullptr)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "an attribute without values");
    of(desc).set[(int)name] = {type, count,
                               std::vector<char>(p, p + (size_t)count * size_of(type))};
    return CUDNN_STATUS_SUCCESS;
}

EMULATED_API cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t desc)
{
    guard g(the_machine().lock);
    descriptor &d = of(desc);
    cudnnStatus_t status;

    switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        status = finalize_tensor(d);
        break;
    case CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR:
        status = finalize_attention(d);
        break;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        status = finalize_geometry(d);
        break;
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        status = finalize_pointwise(d);
        break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        status = finalize_convolution(d);
        break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        status = finalize_pointwise_operation(d);
        break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        status = finalize_graph(d);
        break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        status = finalize_heuristic(d);
        break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        status = finalize_plan(d);
        break;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        status = finalize_pack(d);
        break;
    default:
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "this kind of descriptor");
    }
    d.finalized = status == CUDNN_STATUS_SUCCESS;
    return status;
}

EMULATED_API cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t desc,
                                                    cudnnBackendAttributeName_t name,
                                                    cudnnBackendAttributeType_t type,
                                                    int64_t wanted, int64_t *count, void *values)
{
    descriptor &d = of(desc);

    if (!d.finalized)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "asked before finalization");
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64) {
        const int64_t bytes = d.op->engines()[(size_t)d.engine].workspace;

        *count = 1;
        memcpy(values, &bytes, sizeof(bytes));
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE && type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        descriptor &engine = of(*(cudnnBackendDescriptor_t *)values);

        if (engine.type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "not an engine's descriptor");
        *count = 1;
        engine.op = d.op;
        engine.engine = d.engine;
        engine.finalized = true;
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE) {
        const std::vector<cudnnBackendNumericalNote_t> notes =
            d.op->engines()[(size_t)d.engine].notes;

        *count = (int64_t)notes.size();
        for (size_t i = 0; i < notes.size() && (int64_t)i < wanted; i++)
            ((cudnnBackendNumericalNote_t *)values)[i] = notes[i];
        return CUDNN_STATUS_SUCCESS;
    }
    if (name != CUDNN_ATTR_ENGINEHEUR_RESULTS || type != CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "this attribute");
    *count = (int64_t)d.op->engines().size();
    for (int64_t i = 0; i < std::min<int64_t>(wanted, *count); i++) {
        descriptor &engine = of(((cudnnBackendDescriptor_t *)values)[i]);

        if (engine.type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "not a configuration's descriptor");
        engine.op = d.op;
        engine.engine = (int)i;
        engine.finalized = true;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* Of NIGHTSHIFT_EMULATED_CUDNN_MS. */
static double ms_of(int engine)
{
    const char *at = getenv("NIGHTSHIFT_EMULATED_CUDNN_MS");

    for (; at && engine > 0; engine--) {
        at = strchr(at, ',');
        at = at ? at + 1 : nullptr;
    }
    return at ? strtod(at, nullptr) : 0.0;
}

EMULATED_API cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                               cudnnBackendDescriptor_t pack)
{
    guard g(the_machine().lock);
    descriptor &p = of(plan), &v = of(pack);

    if (!p.finalized || p.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !v.finalized ||
        v.type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "not a plan and a pack");
    if (handle->device != current_device())
        fail("cudnnBackendExecute: the handle is of another device than the thread's");
    void *workspace = nullptr;

    the_machine().dnn_runs++;
    const int64_t bytes = p.op->engines()[(size_t)p.engine].workspace;

    get(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (!on_device(workspace, (size_t)bytes))
        fail("cudnnBackendExecute: the workspace is too small");
    const double ms = ms_of(p.engine);

    return p.op->run(handle, v, p.engine, [=] {
        the_machine().clock_ms += ms;
        touch(workspace, (size_t)bytes, true);
        memset(workspace, 0xff, (size_t)bytes);
    });
}
