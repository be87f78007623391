/* tests/cuda/emulator/cudnn_graph.cpp - a double of cuDNN's graphs that knows one operation: scaled
 * dot-product attention, forward, of 16-bit tensors, as gpu/cuda/sdpa.c builds it.
 *
 * Descriptors keep what was set, and are checked when they are finalized and never changed after.
 * Two engines are proposed, of which the first cannot be made into a plan; the workspace is filled
 * with NaN. Scores are float32, the weights are rounded to the tensors' type. */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "tests/cuda/emulator/dnn.h"
#include "tests/cuda/emulator/emulated.h"
#include "tests/cuda/emulator/machine.h"
#include "tests/cuda/emulator/numbers.h"

using namespace emulated;

namespace
{
struct tensor4 {
    cudaDataType_t type;
    int64_t uid, dims[4], strides[4], alignment;
    bool by_value;
};

struct attention {
    tensor4 q, k, v, o, scale;
};

struct attribute {
    cudnnBackendAttributeType_t type;
    int64_t count;
    std::vector<char> bytes;
};

constexpr int64_t WORKSPACE = 1 << 20;
thread_local char last_words[256];
} // namespace

struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool finalized;
    std::map<int, attribute> set;
    std::shared_ptr<attention> op; /* operation, graph, heuristic, engine, plan */
    int engine;                    /* -1: none */
};

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
    default:
        return 8; /* INT64, HANDLE, VOID_PTR, BACKEND_DESCRIPTOR, DOUBLE */
    }
}

/* The attribute when it was set with this type and count (-1: any); else NULL. */
const attribute *find(const descriptor &d, int name, cudnnBackendAttributeType_t type,
                      int64_t count)
{
    auto a = d.set.find(name);

    if (a == d.set.end() || a->second.type != type || (count >= 0 && a->second.count != count))
        return nullptr;
    return &a->second;
}

template <class T>
bool get(const descriptor &d, int name, cudnnBackendAttributeType_t type, int64_t count, T *ret)
{
    const attribute *a = find(d, name, type, count);

    if (a)
        memcpy(ret, a->bytes.data(), a->bytes.size());
    return a != nullptr;
}

/* A finalized descriptor of a type that another one refers to. */
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
    ret->by_value = false;
    get(*d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &ret->uid);
    get(*d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, ret->dims);
    get(*d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, ret->strides);
    get(*d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &ret->alignment);
    get(*d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &ret->by_value);
    return true;
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

cudnnStatus_t finalize_operation(descriptor &d)
{
    auto a = std::make_shared<attention>();

    if (!read_tensor(d, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, &a->q) ||
        !read_tensor(d, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, &a->k) ||
        !read_tensor(d, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, &a->v) ||
        !read_tensor(d, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, &a->o) ||
        !read_tensor(d, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, &a->scale))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "attention lacks a finalized tensor");
    if (d.set.size() != 5)
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "attention with more than that");
    if (!a->scale.by_value || a->scale.type != CUDA_R_32F)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "the scale is one float, by value");
    for (const tensor4 *t : {&a->k, &a->v})
        if (t->dims[0] != a->q.dims[0] || t->dims[1] != a->q.dims[1] || t->dims[3] != a->q.dims[3])
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "shapes do not fit together");
    if (a->k.dims[2] != a->v.dims[2] || memcmp(a->q.dims, a->o.dims, sizeof(a->q.dims)) != 0)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "shapes do not fit together");
    d.op = a;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_graph(descriptor &d)
{
    descriptor *op =
        refer(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);

    if (op == nullptr || !find(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a graph lacks its operation or its handle");
    d.op = op->op;
    return CUDNN_STATUS_SUCCESS;
}

/* "attention bf16 WINDOWS HEADS N SIZE", and the strides of q, k, v and of what comes out. */
void ask(const attention &a)
{
    std::string line = a.q.type == CUDA_R_16F ? "attention f16" : "attention bf16";

    for (int64_t dim : a.q.dims)
        line += " " + std::to_string(dim);
    for (const tensor4 *t : {&a.q, &a.k, &a.v, &a.o})
        for (int64_t stride : t->strides)
            line += " " + std::to_string(stride);
    question(line);
}

/* What the fused kernels take: 16 bit, head sizes of multiples of 8 up to 128, dense along them. */
cudnnStatus_t finalize_heuristic(descriptor &d)
{
    descriptor *graph =
        refer(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    const device &dev = the_machine().devices[(size_t)current_device()];

    if (graph == nullptr || !find(d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a heuristic lacks its graph or its mode");
    const attention &a = *graph->op;

    ask(a);
    const char *refusal =
        getenv("NIGHTSHIFT_EMULATED_CUDNN_REFUSES"); /* for tests: "memory", "all" */
    if (refusal && strcmp(refusal, "memory") == 0)
        return dnn_refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory for it");
    if (refusal && refusal[0])
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "told to refuse");
    if (dev.major < 8)
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "attention wants compute capability 8.0");
    for (const tensor4 *t : {&a.q, &a.k, &a.v, &a.o})
        if (t->type == CUDA_R_32F || t->type != a.q.type || t->strides[3] != 1 || t->dims[3] % 8 ||
            t->dims[3] > 128 || t->strides[0] % 8 || t->strides[1] % 8 || t->strides[2] % 8 ||
            t->alignment < 16)
            return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "attention on such tensors");
    d.op = graph->op;
    return CUDNN_STATUS_SUCCESS;
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

/* [n][64] of one batch and head as floats. */
std::vector<float> head_of(const tensor4 &t, const void *p, int64_t batch, int64_t head)
{
    std::vector<float> r((size_t)(t.dims[2] * t.dims[3]));
    size_t size = number_size(t.type);

    for (int64_t i = 0; i < t.dims[2]; i++) {
        int64_t at = batch * t.strides[0] + head * t.strides[1] + i * t.strides[2];

        to_float(&r[(size_t)(i * t.dims[3])], (const char *)p + (size_t)at * size, t.type,
                 (size_t)t.dims[3], 1);
    }
    return r;
}

/* Weights exp(s - max), rounded as the matrix unit takes them; their sum is not rounded. */
void weigh(float *s, int64_t keys, float scale, cudaDataType_t type, float *sum)
{
    uint16_t rounded;
    float high = -INFINITY;

    for (int64_t i = 0; i < keys; i++)
        high = std::max(high, s[i] * scale);
    *sum = 0.0f;
    for (int64_t i = 0; i < keys; i++) {
        float w = expf(s[i] * scale - high);

        *sum += w;
        from_float(&rounded, type, 0, w);
        s[i] = one_to_float(&rounded, type, 0);
    }
}

void attend(const attention &a, const void *q, const void *k, const void *v, void *o, float scale)
{
    int64_t n = a.q.dims[2], keys = a.k.dims[2], size = a.q.dims[3];
    std::vector<float> s((size_t)(n * keys)), vt((size_t)(keys * size)), sums((size_t)n);
    std::vector<float> out((size_t)(n * size));

    for (int64_t bh = 0; bh < a.q.dims[0] * a.q.dims[1]; bh++) {
        int64_t batch = bh / a.q.dims[1], head = bh % a.q.dims[1];
        std::vector<float> hq = head_of(a.q, q, batch, head), hk = head_of(a.k, k, batch, head);
        std::vector<float> hv = head_of(a.v, v, batch, head);

        product(hk.data(), hq.data(), s.data(), keys, n, size);
        for (int64_t i = 0; i < n; i++)
            weigh(&s[(size_t)(i * keys)], keys, scale, a.q.type, &sums[(size_t)i]);
        for (int64_t i = 0; i < keys; i++)
            for (int64_t c = 0; c < size; c++)
                vt[(size_t)(c * keys + i)] = hv[(size_t)(i * size + c)];
        product(vt.data(), s.data(), out.data(), size, n, keys);
        for (int64_t i = 0; i < n; i++)
            for (int64_t c = 0; c < size; c++)
                from_float(o, a.o.type,
                           (size_t)(batch * a.o.strides[0] + head * a.o.strides[1] +
                                    i * a.o.strides[2] + c),
                           out[(size_t)(i * size + c)] / sums[(size_t)i]);
    }
}

descriptor &of(cudnnBackendDescriptor_t d) { return *(descriptor *)d; }
} // namespace

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
    *ret = (cudnnBackendDescriptor_t) new descriptor{type, false, {}, nullptr, -1};
    return CUDNN_STATUS_SUCCESS;
}

EMULATED_API cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
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
        status = finalize_operation(d);
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
        *count = 1;
        memcpy(values, &WORKSPACE, sizeof(WORKSPACE));
        return CUDNN_STATUS_SUCCESS;
    }
    if (name != CUDNN_ATTR_ENGINEHEUR_RESULTS || type != CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "this attribute");
    *count = 2;
    for (int64_t i = 0; i < std::min<int64_t>(wanted, 2); i++) {
        descriptor &engine = of(((cudnnBackendDescriptor_t *)values)[i]);

        if (engine.type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "not an engine's descriptor");
        engine.op = d.op;
        engine.engine = (int)i;
        engine.finalized = true;
    }
    return CUDNN_STATUS_SUCCESS;
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
    auto a = p.op;
    void *q = data_of(v, a->q.uid), *k = data_of(v, a->k.uid), *vv = data_of(v, a->v.uid);
    void *o = data_of(v, a->o.uid), *scale = data_of(v, a->scale.uid), *workspace;
    float factor;

    get(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (!q || !k || !vv || !o || !scale)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a tensor without data");
    if (!reachable(a->q, q) || !reachable(a->k, k) || !reachable(a->v, vv) || !reachable(a->o, o))
        fail("cudnnBackendExecute: a tensor leaves its piece of device memory, or is not aligned");
    if (!on_device(workspace, (size_t)WORKSPACE))
        fail("cudnnBackendExecute: the workspace is too small");
    memcpy(&factor, scale, sizeof(factor)); /* host memory: by value */
    return dnn_queued(enqueue(handle->stream, "cudnnBackendExecute", [=] {
        touch_tensor(a->q, q, false);
        touch_tensor(a->k, k, false);
        touch_tensor(a->v, vv, false);
        touch_tensor(a->o, o, true);
        touch(workspace, (size_t)WORKSPACE, true);
        memset(workspace, 0xff, (size_t)WORKSPACE);
        attend(*a, q, k, vv, o, factor);
    }));
}
