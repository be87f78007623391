/* tests/cuda/emulator/dnn_graph.h - what the files of the double of cuDNN's graphs share. */
#ifndef NIGHTSHIFT_TESTS_CUDA_DNN_GRAPH_H
#define NIGHTSHIFT_TESTS_CUDA_DNN_GRAPH_H

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/cuda/emulator/dnn.h"
#include "tests/cuda/emulator/emulated.h"
#include "tests/cuda/emulator/machine.h"
#include "tests/cuda/emulator/numbers.h"

struct descriptor;

namespace emulated
{
struct tensor4 {
    cudaDataType_t type;
    int64_t uid, dims[4], strides[4], alignment;
    bool by_value, inner; /* one number of the host's; between two operations only */
};

/* Of a graph. The first that is proposed is never made into a plan. */
struct dnn_engine {
    std::vector<cudnnBackendNumericalNote_t> notes;
    int64_t workspace;
};

/* What a graph does. */
struct dnn_work {
    virtual ~dnn_work() = default;
    /* Writes the question down, for the real library. */
    virtual void ask() const = 0;
    /* Whether the heuristic has anything for it on this device. */
    virtual cudnnStatus_t takes(const device &dev) const = 0;
    virtual std::vector<dnn_engine> engines() const = 0;
    /* Looks at the pack's tensors, then puts the work on the handle's stream; `before` is done
     * there first. */
    virtual cudnnStatus_t run(cudnnHandle_t handle, const descriptor &pack, int engine,
                              std::function<void()> before) const = 0;
};

struct attribute {
    cudnnBackendAttributeType_t type;
    int64_t count;
    std::vector<char> bytes;
};
} // namespace emulated

struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool finalized;
    std::map<int, emulated::attribute> set;
    std::shared_ptr<const emulated::dnn_work> op; /* graph, heuristic, engine, plan */
    int engine;                                   /* -1: none */
};

namespace emulated
{
/* The attribute when it was set with this type and count (-1: any); else NULL. */
inline const attribute *find(const descriptor &d, int name, cudnnBackendAttributeType_t type,
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
descriptor *refer(const descriptor &d, int name, cudnnBackendDescriptorType_t type);
bool read_tensor(const descriptor &op, int name, tensor4 *ret);
/* The pack's pointer for a tensor; NULL: it has none. */
void *data_of(const descriptor &pack, int64_t uid);
bool reachable(const tensor4 &t, const void *p);
void touch_tensor(const tensor4 &t, const void *p, bool write);

/* cudnn_attention.cpp */
cudnnStatus_t finalize_attention(const descriptor &d);
cudnnStatus_t attention_graph(const std::vector<descriptor *> &operations,
                              std::shared_ptr<const dnn_work> *ret);

/* cudnn_convolution.cpp */
cudnnStatus_t finalize_geometry(const descriptor &d);
cudnnStatus_t finalize_pointwise(const descriptor &d);
cudnnStatus_t finalize_convolution(const descriptor &d);
cudnnStatus_t finalize_pointwise_operation(const descriptor &d);
cudnnStatus_t convolution_graph(const std::vector<descriptor *> &operations,
                                std::shared_ptr<const dnn_work> *ret);
} // namespace emulated

#endif
