/* tests/cuda/emulator/cudnn_parts.cpp - cuDNN's double: the operations by which
 * gpu/cuda/check_dnn.c looks whether the parts ops, cnn and adv work. Float32, dense, as small as
 * it wants them. */
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/cuda/emulator/dnn.h"
#include "tests/cuda/emulator/emulated.h"
#include "tests/cuda/emulator/machine.h"

using namespace emulated;

struct cudnnTensorStruct {
    int n;
    int dims[8];
};
struct cudnnFilterStruct {
    int k, c, h, w;
};
struct cudnnConvolutionStruct {
    int pad_h, pad_w, stride_h, stride_w;
};
struct cudnnDropoutStruct {
    float rate;
};
struct cudnnRNNStruct {
    int input, hidden;
};
struct cudnnRNNDataStruct {
    int steps, batch, size;
};

#define PAIR(Name, type)                                     \
    EMULATED_API cudnnStatus_t cudnnCreate##Name(type **ret) \
    {                                                        \
        *ret = new type();                                   \
        return CUDNN_STATUS_SUCCESS;                         \
    }                                                        \
    EMULATED_API cudnnStatus_t cudnnDestroy##Name(type *d)   \
    {                                                        \
        delete d;                                            \
        return CUDNN_STATUS_SUCCESS;                         \
    }
PAIR(TensorDescriptor, cudnnTensorStruct)
PAIR(FilterDescriptor, cudnnFilterStruct)
PAIR(ConvolutionDescriptor, cudnnConvolutionStruct)
PAIR(DropoutDescriptor, cudnnDropoutStruct)
PAIR(RNNDescriptor, cudnnRNNStruct)
PAIR(RNNDataDescriptor, cudnnRNNDataStruct)

static cudnnStatus_t only(bool ok)
{
    return ok ? CUDNN_STATUS_SUCCESS
              : dnn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "the double does not know this");
}

static void must_be_device(const void *p, size_t floats, const char *what)
{
    if (!on_device(p, floats * sizeof(float)))
        fail("cuDNN: %s leaves its piece of device memory", what);
}

EMULATED_API cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d,
                                                      cudnnTensorFormat_t format,
                                                      cudnnDataType_t type, int n, int c, int h,
                                                      int w)
{
    *d = {4, {n, c, h, w}};
    return only(format == CUDNN_TENSOR_NCHW && type == CUDNN_DATA_FLOAT);
}

EMULATED_API cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t d,
                                                      cudnnDataType_t type, int n, const int dims[],
                                                      const int strides[])
{
    int dense = 1;
    bool ok = type == CUDNN_DATA_FLOAT && n >= 3 && n <= 8;

    d->n = n;
    for (int i = n; ok && i-- > 0;) {
        d->dims[i] = dims[i];
        ok = strides[i] == dense;
        dense *= dims[i];
    }
    return only(ok);
}

EMULATED_API cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t h, cudnnSoftmaxAlgorithm_t,
                                               cudnnSoftmaxMode_t mode, const void *alpha,
                                               const cudnnTensorDescriptor_t xd, const void *x,
                                               const void *beta, const cudnnTensorDescriptor_t yd,
                                               void *y)
{
    guard g(the_machine().lock);
    int n = xd->dims[0], c = xd->dims[1], inner = xd->dims[2] * xd->dims[3];
    size_t count = (size_t)n * (size_t)c * (size_t)inner;

    if (mode != CUDNN_SOFTMAX_MODE_CHANNEL || *(const float *)alpha != 1.0f ||
        *(const float *)beta != 0.0f || memcmp(xd->dims, yd->dims, 4 * sizeof(int)) != 0)
        return only(false);
    must_be_device(x, count, "x");
    must_be_device(y, count, "y");
    return dnn_queued(enqueue(h->stream, "cuDNN", [=] {
        for (int i = 0; i < n * inner; i++) {
            const float *px = (const float *)x + i / inner * c * inner + i % inner;
            float *py = (float *)y + i / inner * c * inner + i % inner, high = -INFINITY, sum = 0;

            for (int j = 0; j < c; j++)
                high = fmaxf(high, px[j * inner]);
            for (int j = 0; j < c; j++)
                sum += py[j * inner] = expf(px[j * inner] - high);
            for (int j = 0; j < c; j++)
                py[j * inner] /= sum;
        }
    }));
}

EMULATED_API cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d,
                                                      cudnnDataType_t type,
                                                      cudnnTensorFormat_t format, int k, int c,
                                                      int h, int w)
{
    *d = {k, c, h, w};
    return only(format == CUDNN_TENSOR_NCHW && type == CUDNN_DATA_FLOAT);
}

EMULATED_API cudnnStatus_t cudnnSetConvolution2dDescriptor(
    cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int stride_h, int stride_w,
    int dilation_h, int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t type)
{
    *d = {pad_h, pad_w, stride_h, stride_w};
    return only(dilation_h == 1 && dilation_w == 1 && mode == CUDNN_CROSS_CORRELATION &&
                type == CUDNN_DATA_FLOAT);
}

static float convolve(const float *x, const int *xd, const float *w, const cudnnFilterStruct &f,
                      const cudnnConvolutionStruct &c, int n, int k, int oy, int ox)
{
    float sum = 0.0f;

    for (int i = 0; i < f.c * f.h * f.w; i++) {
        int ch = i / (f.h * f.w), r = i / f.w % f.h, s = i % f.w;
        int iy = oy * c.stride_h + r - c.pad_h, ix = ox * c.stride_w + s - c.pad_w;

        if (iy >= 0 && iy < xd[2] && ix >= 0 && ix < xd[3])
            sum += x[((n * xd[1] + ch) * xd[2] + iy) * xd[3] + ix] *
                   w[((k * f.c + ch) * f.h + r) * f.w + s];
    }
    return sum;
}

EMULATED_API cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t h, const void *alpha,
                                                   const cudnnTensorDescriptor_t xd, const void *x,
                                                   const cudnnFilterDescriptor_t wd, const void *w,
                                                   const cudnnConvolutionDescriptor_t cd,
                                                   cudnnConvolutionFwdAlgo_t algo, void *, size_t,
                                                   const void *beta,
                                                   const cudnnTensorDescriptor_t yd, void *y)
{
    guard g(the_machine().lock);
    cudnnTensorStruct xs = *xd, ys = *yd;
    cudnnConvolutionStruct cs = *cd;
    cudnnFilterStruct fs = *wd;

    if (algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM || *(const float *)alpha != 1.0f ||
        *(const float *)beta != 0.0f)
        return only(false);
    if (xs.dims[1] != fs.c || ys.dims[1] != fs.k || ys.dims[0] != xs.dims[0] ||
        ys.dims[2] != (xs.dims[2] + 2 * cs.pad_h - fs.h) / cs.stride_h + 1 ||
        ys.dims[3] != (xs.dims[3] + 2 * cs.pad_w - fs.w) / cs.stride_w + 1)
        return dnn_refuse(CUDNN_STATUS_BAD_PARAM, "shapes do not fit together");
    must_be_device(x, (size_t)(xs.dims[0] * xs.dims[1] * xs.dims[2] * xs.dims[3]), "x");
    must_be_device(w, (size_t)(fs.k * fs.c * fs.h * fs.w), "w");
    must_be_device(y, (size_t)(ys.dims[0] * ys.dims[1] * ys.dims[2] * ys.dims[3]), "y");
    return dnn_queued(enqueue(h->stream, "cuDNN", [=] {
        float *out = (float *)y;

        for (int n = 0; n < ys.dims[0]; n++)
            for (int k = 0; k < ys.dims[1]; k++)
                for (int i = 0; i < ys.dims[2] * ys.dims[3]; i++)
                    *out++ = convolve((const float *)x, xs.dims, (const float *)w, fs, cs, n, k,
                                      i / ys.dims[3], i % ys.dims[3]);
    }));
}

EMULATED_API cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t d, cudnnHandle_t,
                                                     float rate, void *, size_t, unsigned long long)
{
    d->rate = rate;
    return only(rate == 0.0f);
}

EMULATED_API cudnnStatus_t cudnnSetRNNDescriptor_v8(
    cudnnRNNDescriptor_t d, cudnnRNNAlgo_t, cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
    cudnnDirectionMode_t direction, cudnnRNNInputMode_t input_mode, cudnnDataType_t type,
    cudnnDataType_t math, cudnnMathType_t, int32_t input, int32_t hidden, int32_t projected,
    int32_t layers, cudnnDropoutDescriptor_t, uint32_t)
{
    *d = {input, hidden};
    return only(mode == CUDNN_LSTM && bias == CUDNN_RNN_DOUBLE_BIAS &&
                direction == CUDNN_UNIDIRECTIONAL && input_mode == CUDNN_LINEAR_INPUT &&
                type == CUDNN_DATA_FLOAT && math == CUDNN_DATA_FLOAT && projected == hidden &&
                layers == 1);
}

/* W of the four gates, R of the four gates, then both biases of each. */
static size_t weights_of(const cudnnRNNStruct &d)
{
    return (size_t)(4 * d.hidden) * (size_t)(d.input + d.hidden + 2);
}

EMULATED_API cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t d,
                                                      size_t *ret)
{
    *ret = weights_of(*d) * sizeof(float);
    return CUDNN_STATUS_SUCCESS;
}

EMULATED_API cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t, cudnnRNNDescriptor_t d,
                                                     cudnnForwardMode_t mode,
                                                     cudnnRNNDataDescriptor_t, size_t *work,
                                                     size_t *reserve)
{
    *work = (size_t)(4 * d->hidden) * sizeof(float);
    *reserve = 0;
    return only(mode == CUDNN_FWD_MODE_INFERENCE);
}

EMULATED_API cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t d,
                                                     cudnnDataType_t type, cudnnRNNDataLayout_t,
                                                     int steps, int batch, int size,
                                                     const int lengths[], void *)
{
    *d = {steps, batch, size};
    return only(type == CUDNN_DATA_FLOAT && batch == 1 && lengths[0] == steps);
}

static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/* One step; gates in cuDNN's order: input, forget, new, output. */
static void lstm_step(const cudnnRNNStruct &d, const float *w, const float *x,
                      std::vector<float> &h, std::vector<float> &c)
{
    const float *r = w + 4 * d.hidden * d.input, *bias = r + 4 * d.hidden * d.hidden;
    std::vector<float> gate((size_t)(4 * d.hidden)), old = h;

    for (int i = 0; i < 4 * d.hidden; i++) {
        float sum = bias[i] + bias[4 * d.hidden + i];

        for (int j = 0; j < d.input; j++)
            sum += w[i * d.input + j] * x[j];
        for (int j = 0; j < d.hidden; j++)
            sum += r[i * d.hidden + j] * old[(size_t)j];
        gate[(size_t)i] = sum;
    }
    for (int i = 0; i < d.hidden; i++) {
        const float *at = &gate[(size_t)i];
        float &state = c[(size_t)i];

        state = sigmoid(at[d.hidden]) * state + sigmoid(at[0]) * tanhf(at[2 * d.hidden]);
        h[(size_t)i] = sigmoid(at[3 * d.hidden]) * tanhf(state);
    }
}

EMULATED_API cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                           cudnnForwardMode_t, const int32_t lengths[],
                                           cudnnRNNDataDescriptor_t xd, const void *x,
                                           cudnnRNNDataDescriptor_t yd, void *y,
                                           cudnnTensorDescriptor_t, const void *hx, void *hy,
                                           cudnnTensorDescriptor_t, const void *cx, void *cy,
                                           size_t weight_bytes, const void *weights,
                                           size_t work_bytes, void *work, size_t, void *)
{
    guard g(the_machine().lock);
    cudnnRNNStruct d = *rnn;
    int steps = xd->steps;

    if (xd->size != d.input || yd->size != d.hidden || yd->steps != steps ||
        weight_bytes != weights_of(d) * sizeof(float) ||
        work_bytes < (size_t)(4 * d.hidden) * sizeof(float) || hy || cy || !hx || !cx)
        return only(false);
    must_be_device(lengths, 1, "lengths");
    must_be_device(x, (size_t)(steps * d.input), "x");
    must_be_device(y, (size_t)(steps * d.hidden), "y");
    must_be_device(hx, (size_t)d.hidden, "hx");
    must_be_device(cx, (size_t)d.hidden, "cx");
    must_be_device(weights, weights_of(d), "weights");
    return dnn_queued(enqueue(handle->stream, "cuDNN", [=] {
        std::vector<float> h((const float *)hx, (const float *)hx + d.hidden);
        std::vector<float> c((const float *)cx, (const float *)cx + d.hidden);

        memset(work, 0xff, work_bytes);
        for (int t = 0; t < steps; t++) {
            lstm_step(d, (const float *)weights, (const float *)x + t * d.input, h, c);
            memcpy((float *)y + t * d.hidden, h.data(), h.size() * sizeof(float));
        }
    }));
}
