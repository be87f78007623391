/* tests/cuda/emulator/cudnn_convolution.cpp - convolution over two dimensions, forward, of float32
 * or float16 that lies channels last, as gpu/cuda/cudnn/convolve.c builds it: alone (into y, or
 * onto what is there), or with a bias and ReLU behind it, of the same type; sums are float32.
 *
 * What the real library has not been asked for is refused. Its proposals are like those for an
 * A100: kernels of the tensor cores first, which round as those do and want a copy of the images in
 * their workspace; then one that computes in 16 bits and one by Winograd's way, both roughly, so
 * that it shows where they are taken; one in float32 that wants more workspace than there is; and
 * one in float32 at last. Of float16 the one in 16 bits is one that sums in them. */
#include <algorithm>
#include <cmath>

#include "tests/cuda/emulator/dnn_graph.h"

using namespace emulated;

namespace
{
constexpr int64_t PIECE = 4096; /* outputs that are unfolded at once */

enum { NEVER, TENSOR_CORES, HALVES, WINOGRAD, GREEDY, PLAIN };

struct geometry {
    int64_t strides[2], before[2], after[2];
};

struct convolution {
    geometry g;
    tensor4 x, w, y;
    float alpha, beta;
};

struct pointwise {
    cudnnPointwiseMode_t mode;
    cudnnNanPropagation_t nan;
    tensor4 x, b, y; /* b: of ADD */
};

int64_t outputs(const convolution &c, int i)
{
    return (c.x.dims[2 + i] + c.g.before[i] + c.g.after[i] - c.w.dims[2 + i]) / c.g.strides[i] + 1;
}

bool channels_last(const tensor4 &t, cudaDataType_t type)
{
    const int64_t *d = t.dims, by[4] = {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};

    return t.type == type && std::all_of(d, d + 4, [](int64_t n) { return n > 0; }) &&
           std::equal(by, by + 4, t.strides) &&
           (t.alignment == (int64_t)number_size(type) || t.alignment == 4 || t.alignment == 8 ||
            t.alignment == 16);
}

cudnnStatus_t read_geometry(const descriptor &d, geometry *ret)
{
    cudnnConvolutionMode_t mode;
    cudnnDataType_t type;
    int64_t dimensions, dilations[2];

    if (!get(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type) ||
        !get(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode) ||
        !get(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dimensions) ||
        !get(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations) ||
        !get(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, ret->strides) ||
        !get(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, ret->before) ||
        !get(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, ret->after))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a convolution lacks an attribute");
    if (type != CUDNN_DATA_FLOAT || mode != CUDNN_CROSS_CORRELATION || dimensions != 2 ||
        dilations[0] != 1 || dilations[1] != 1)
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "a convolution of this kind");
    for (int i = 0; i < 2; i++)
        if (ret->strides[i] < 1 || ret->before[i] < 0 || ret->after[i] < 0)
            return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "strides and paddings");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t read_convolution(const descriptor &d, convolution *ret)
{
    const descriptor *g = refer(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);

    if (g == nullptr || read_geometry(*g, &ret->g) != CUDNN_STATUS_SUCCESS ||
        !read_tensor(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &ret->x) ||
        !read_tensor(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &ret->w) ||
        !read_tensor(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, &ret->y) ||
        !get(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &ret->alpha) ||
        !get(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &ret->beta))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a convolution lacks something finalized");
    if (ret->alpha != 1.0f || (ret->beta != 0.0f && ret->beta != 1.0f))
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "a convolution with such factors");
    if (ret->x.dims[1] != ret->w.dims[1] || ret->y.dims[1] != ret->w.dims[0] ||
        ret->y.dims[0] != ret->x.dims[0] || ret->y.dims[2] != outputs(*ret, 0) ||
        ret->y.dims[3] != outputs(*ret, 1))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "shapes do not fit together");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t read_mode(const descriptor &d, pointwise *ret)
{
    cudnnDataType_t type;

    ret->nan = CUDNN_NOT_PROPAGATE_NAN;
    get(d, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &ret->nan);
    if (!get(d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &ret->mode) ||
        !get(d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a pointwise operation lacks an attribute");
    if (type != CUDNN_DATA_FLOAT ||
        (ret->mode != CUDNN_POINTWISE_ADD && ret->mode != CUDNN_POINTWISE_RELU_FWD))
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "a pointwise operation of this kind");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t read_pointwise(const descriptor &d, pointwise *ret)
{
    const descriptor *mode =
        refer(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);

    if (mode == nullptr || read_mode(*mode, ret) != CUDNN_STATUS_SUCCESS ||
        !read_tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &ret->x) ||
        !read_tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &ret->y) ||
        read_tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, &ret->b) !=
            (ret->mode == CUDNN_POINTWISE_ADD))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a pointwise operation lacks a tensor");
    if (!std::equal(ret->x.dims, ret->x.dims + 4, ret->y.dims))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "shapes do not fit together");
    return CUDNN_STATUS_SUCCESS;
}

/* The whole graph: y = relu(x * w + bias), or parts of it. */
struct convolving : dnn_work {
    convolution c;
    bool biased = false, relu = false, keeps_nan = false, rounds_between = false;
    tensor4 bias, y; /* y: what the last operation writes */

    void ask() const override;
    cudnnStatus_t takes(const device &dev) const override;
    std::vector<dnn_engine> engines() const override;
    cudnnStatus_t run(cudnnHandle_t handle, const descriptor &pack, int engine,
                      std::function<void()> before) const override;
    cudnnStatus_t follow(const pointwise &p);
    void compute(const void *x, const void *w, const void *b, void *to, int engine) const;
    float finished(float sum, float bias_of_it) const;
};

/* "convolution f16|f32 IMAGES IN HEIGHT WIDTH OUT KERNEL_H KERNEL_W STRIDE_H STRIDE_W TOP LEFT
 * BOTTOM RIGHT OUT_HEIGHT OUT_WIDTH ADD BIAS RELU X_ALIGNMENT Y_ALIGNMENT" */
void convolving::ask() const
{
    std::string line = c.x.type == CUDA_R_16F ? "convolution f16" : "convolution f32";

    for (int64_t n :
         {c.x.dims[0],     c.x.dims[1],     c.x.dims[2],    c.x.dims[3],    c.w.dims[0],
          c.w.dims[2],     c.w.dims[3],     c.g.strides[0], c.g.strides[1], c.g.before[0],
          c.g.before[1],   c.g.after[0],    c.g.after[1],   y.dims[2],      y.dims[3],
          (int64_t)c.beta, (int64_t)biased, (int64_t)relu,  c.x.alignment,  y.alignment})
        line += " " + std::to_string(n);
    question(line);
}

cudnnStatus_t convolving::takes(const device &) const
{
    if (c.x.inner || c.w.inner || y.inner || c.x.by_value || c.w.by_value || y.by_value)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "images and weights are in memory");
    if (c.x.type != CUDA_R_32F && c.x.type != CUDA_R_16F)
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "images of this type");
    if (!channels_last(c.x, c.x.type) || !channels_last(c.w, c.x.type) ||
        !channels_last(y, c.x.type))
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "tensors that do not lie channels last");
    if (biased &&
        (bias.dims[0] != 1 || bias.dims[1] != y.dims[1] || bias.dims[2] != 1 || bias.dims[3] != 1 ||
         !channels_last(bias, c.x.type) || bias.inner || bias.by_value))
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "a bias that is not one for each channel");
    if (rounds_between)
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "what is handed on in 16 bits");
    if (c.beta != 0.0f && (biased || relu))
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "more behind a convolution that adds");
    return CUDNN_STATUS_SUCCESS;
}

std::vector<dnn_engine> convolving::engines() const
{
    int64_t copy = c.x.dims[0] * c.x.strides[0] * (int64_t)number_size(c.x.type);
    cudnnBackendNumericalNote_t halves = c.x.type == CUDA_R_16F
                                             ? CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION
                                             : CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;

    return {{{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 0},
            {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, copy},
            {{halves}, 0},
            {{CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4}, 0},
            {{}, (int64_t)1 << 40},
            {{}, 0}};
}

/* One more operation behind those before; it goes on from what they left. */
cudnnStatus_t convolving::follow(const pointwise &p)
{
    if (!y.inner || p.x.uid != y.uid)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "operations that do not hand over");
    if (relu || (p.mode == CUDNN_POINTWISE_ADD && biased))
        return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "more operations than that");
    rounds_between = rounds_between || y.type != CUDA_R_32F;
    if (p.mode == CUDNN_POINTWISE_ADD) {
        biased = true;
        bias = p.b;
    } else {
        relu = true;
        keeps_nan = p.nan == CUDNN_PROPAGATE_NAN;
    }
    y = p.y;
    return CUDNN_STATUS_SUCCESS;
}

float convolving::finished(float sum, float bias_of_it) const
{
    sum += bias_of_it;
    if (relu && (sum < 0.0f || (std::isnan(sum) && !keeps_nan)))
        sum = 0.0f;
    return sum;
}

float as_seen(float v, int engine)
{
    uint16_t rough;

    if (engine == TENSOR_CORES)
        return to_tf32(v);
    if (engine != HALVES && engine != WINOGRAD)
        return v;
    from_float(&rough, CUDA_R_16BF, 0, v);
    return one_to_float(&rough, CUDA_R_16BF, 0);
}

/* Row of [kernel_h][kernel_w][in] that output `at` of all images sees. */
void unfold(const convolution &c, const void *x, int64_t at, float *row)
{
    const int64_t in = c.x.dims[1], height = c.x.dims[2], width = c.x.dims[3];
    const int64_t each = outputs(c, 0) * outputs(c, 1), within = at % each;
    const int64_t top = within / outputs(c, 1) * c.g.strides[0] - c.g.before[0];
    const int64_t left = within % outputs(c, 1) * c.g.strides[1] - c.g.before[1];

    for (int64_t i = top; i < top + c.w.dims[2]; i++)
        for (int64_t j = left; j < left + c.w.dims[3]; j++, row += in) {
            bool there = i >= 0 && i < height && j >= 0 && j < width;

            if (there)
                to_float(row,
                         (const char *)x + (size_t)((at / each * height + i) * width + j) *
                                               (size_t)in * number_size(c.x.type),
                         c.x.type, (size_t)in, 1);
            else
                std::fill(row, row + in, 0.0f);
        }
}

void convolving::compute(const void *x, const void *w, const void *b, void *to, int engine) const
{
    const int64_t out = c.w.dims[0], seen = c.w.strides[0];
    const int64_t all = y.dims[0] * y.dims[2] * y.dims[3];
    std::vector<float> weights((size_t)(out * seen)), rows((size_t)(PIECE * seen));
    std::vector<float> sums((size_t)(PIECE * out)), biases((size_t)out);

    to_float(weights.data(), w, c.w.type, weights.size(), 1);
    if (b)
        to_float(biases.data(), b, bias.type, biases.size(), 1);
    for (float &v : weights)
        v = as_seen(v, engine);
    for (int64_t first = 0; first < all; first += PIECE) {
        const int64_t n = std::min(PIECE, all - first);

        for (int64_t i = 0; i < n; i++)
            unfold(c, x, first + i, &rows[(size_t)(i * seen)]);
        for (float &v : rows)
            v = as_seen(v, engine);
        product(weights.data(), rows.data(), sums.data(), out, n, seen);
        for (int64_t i = 0; i < n * out; i++) {
            const size_t at = (size_t)(first * out + i);
            float sum = sums[(size_t)i];

            if (c.beta != 0.0f)
                sum += one_to_float(to, y.type, at);
            from_float(to, y.type, at, finished(sum, biases[(size_t)(i % out)]));
        }
    }
}

bool apart(const tensor4 &a, const void *pa, const tensor4 &b, const void *pb)
{
    const char *ca = (const char *)pa, *cb = (const char *)pb;

    return ca + (size_t)(a.dims[0] * a.strides[0]) * number_size(a.type) <= cb ||
           cb + (size_t)(b.dims[0] * b.strides[0]) * number_size(b.type) <= ca;
}

cudnnStatus_t convolving::run(cudnnHandle_t handle, const descriptor &pack, int engine,
                              std::function<void()> before) const
{
    const void *x = data_of(pack, c.x.uid), *w = data_of(pack, c.w.uid);
    const void *b = biased ? data_of(pack, bias.uid) : nullptr;
    void *to = data_of(pack, y.uid);
    const convolving all = *this;

    if (!x || !w || !to || (biased && !b))
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "a tensor without data");
    if (!reachable(c.x, x) || !reachable(c.w, w) || !reachable(y, to) ||
        (biased && !reachable(bias, b)))
        fail("cudnnBackendExecute: a tensor leaves its piece of device memory, or is not aligned");
    if (!apart(c.x, x, y, to) || !apart(c.w, w, y, to))
        fail("cudnnBackendExecute: what is written is what is read");
    return dnn_queued(enqueue(handle->stream, "cudnnBackendExecute", [=] {
        touch_tensor(all.c.x, x, false);
        touch_tensor(all.c.w, w, false);
        if (b)
            touch(b, (size_t)all.bias.dims[1] * number_size(all.bias.type), false);
        touch_tensor(all.y, to, true);
        before();
        all.compute(x, w, b, to, engine);
    }));
}
} // namespace

namespace emulated
{
cudnnStatus_t finalize_geometry(const descriptor &d)
{
    geometry g;

    return read_geometry(d, &g);
}

cudnnStatus_t finalize_pointwise(const descriptor &d)
{
    pointwise p;

    return read_mode(d, &p);
}

cudnnStatus_t finalize_convolution(const descriptor &d)
{
    convolution c;

    return read_convolution(d, &c);
}

cudnnStatus_t finalize_pointwise_operation(const descriptor &d)
{
    pointwise p;

    return read_pointwise(d, &p);
}

cudnnStatus_t convolution_graph(const std::vector<descriptor *> &operations,
                                std::shared_ptr<const dnn_work> *ret)
{
    auto work = std::make_shared<convolving>();
    cudnnStatus_t s = read_convolution(*operations[0], &work->c);
    pointwise p;

    work->y = work->c.y;
    for (size_t i = 1; i < operations.size() && s == CUDNN_STATUS_SUCCESS; i++) {
        if (operations[i]->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
            return dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "this operation behind a convolution");
        s = read_pointwise(*operations[i], &p);
        if (s == CUDNN_STATUS_SUCCESS)
            s = work->follow(p);
    }
    *ret = work;
    return s;
}
} // namespace emulated
