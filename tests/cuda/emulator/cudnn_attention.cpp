/* tests/cuda/emulator/cudnn_attention.cpp - scaled dot-product attention, forward, of 16-bit
 * tensors, as gpu/cuda/cudnn/sdpa.c builds it. Scores are float32, the weights are rounded to the
 * tensors' type. */
#include <algorithm>
#include <cmath>

#include "tests/cuda/emulator/dnn_graph.h"

using namespace emulated;

namespace
{
constexpr int64_t WORKSPACE = 1 << 20;

struct attention {
    tensor4 q, k, v, o, scale;
};

cudnnStatus_t read(const descriptor &d, attention *a)
{

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
    return CUDNN_STATUS_SUCCESS;
}

/* "attention bf16 WINDOWS HEADS N SIZE", and the strides of q, k, v and of what comes out. */
void write_down(const attention &a)
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
cudnnStatus_t taken(const attention &a, const device &dev)
{
    if (dev.major < 8)
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "attention wants compute capability 8.0");
    for (const tensor4 *t : {&a.q, &a.k, &a.v, &a.o})
        if (t->type == CUDA_R_32F || t->type != a.q.type || t->strides[3] != 1 || t->dims[3] % 8 ||
            t->dims[3] > 128 || t->strides[0] % 8 || t->strides[1] % 8 || t->strides[2] % 8 ||
            t->alignment < 16)
            return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "attention on such tensors");
    return CUDNN_STATUS_SUCCESS;
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

struct attending : dnn_work {
    attention a;

    void ask() const override { write_down(a); }
    cudnnStatus_t takes(const device &dev) const override { return taken(a, dev); }
    std::vector<dnn_engine> engines() const override { return {{{}, WORKSPACE}, {{}, WORKSPACE}}; }

    cudnnStatus_t run(cudnnHandle_t handle, const descriptor &pack, int,
                      std::function<void()> before) const override
    {
        void *q = data_of(pack, a.q.uid), *k = data_of(pack, a.k.uid), *v = data_of(pack, a.v.uid);
        void *o = data_of(pack, a.o.uid), *scale = data_of(pack, a.scale.uid);
        const attention all = a;
        float factor;

        if (!q || !k || !v || !o || !scale)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a tensor without data");
        if (!reachable(a.q, q) || !reachable(a.k, k) || !reachable(a.v, v) || !reachable(a.o, o))
            fail("cudnnBackendExecute: a tensor leaves its piece of device memory, or is not "
                 "aligned");
        memcpy(&factor, scale, sizeof(factor)); /* host memory: by value */
        return dnn_queued(enqueue(handle->stream, "cudnnBackendExecute", [=] {
            touch_tensor(all.q, q, false);
            touch_tensor(all.k, k, false);
            touch_tensor(all.v, v, false);
            touch_tensor(all.o, o, true);
            before();
            attend(all, q, k, v, o, factor);
        }));
    }
};
} // namespace

namespace emulated
{
cudnnStatus_t finalize_attention(const descriptor &d)
{
    attention a;

    return read(d, &a);
}

cudnnStatus_t attention_graph(const std::vector<descriptor *> &operations,
                              std::shared_ptr<const dnn_work> *ret)
{
    auto work = std::make_shared<attending>();
    cudnnStatus_t s = read(*operations[0], &work->a);

    if (s == CUDNN_STATUS_SUCCESS && operations.size() != 1)
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "attention with another operation");
    *ret = work;
    return s;
}
} // namespace emulated
