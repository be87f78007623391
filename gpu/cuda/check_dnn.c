/* gpu/cuda/check_dnn.c - one real operation of cuDNN's parts that the engine does not go through
 * itself: ops (a softmax), cnn with the precompiled engines (a convolution), adv (a step of an
 * LSTM). graph, heuristic and the engines are run by the attention of check_run.c.
 *
 * The functions are looked up here and nowhere else: nothing but this check calls them, so a cuDNN
 * that lacks one is a warning. Inputs are chosen so that the result is known in closed form. */
#include "gpu/cuda/check.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#if NIGHTSHIFT_CUDNN

#define DNN_FUNCTIONS(X)                 \
    X(cudnnGetErrorString)               \
    X(cudnnCreateTensorDescriptor)       \
    X(cudnnDestroyTensorDescriptor)      \
    X(cudnnSetTensor4dDescriptor)        \
    X(cudnnSetTensorNdDescriptor)        \
    X(cudnnSoftmaxForward)               \
    X(cudnnCreateFilterDescriptor)       \
    X(cudnnDestroyFilterDescriptor)      \
    X(cudnnSetFilter4dDescriptor)        \
    X(cudnnCreateConvolutionDescriptor)  \
    X(cudnnDestroyConvolutionDescriptor) \
    X(cudnnSetConvolution2dDescriptor)   \
    X(cudnnConvolutionForward)           \
    X(cudnnCreateDropoutDescriptor)      \
    X(cudnnDestroyDropoutDescriptor)     \
    X(cudnnSetDropoutDescriptor)         \
    X(cudnnCreateRNNDescriptor)          \
    X(cudnnDestroyRNNDescriptor)         \
    X(cudnnSetRNNDescriptor_v8)          \
    X(cudnnGetRNNWeightSpaceSize)        \
    X(cudnnGetRNNTempSpaceSizes)         \
    X(cudnnCreateRNNDataDescriptor)      \
    X(cudnnDestroyRNNDataDescriptor)     \
    X(cudnnSetRNNDataDescriptor)         \
    X(cudnnRNNForward)

#define MEMBER(name) __typeof__(name) *name;
struct dnn {
    struct cuda *device;
    cudnnHandle_t handle;
    const char *missing; /* the first function that is not there */
    char done[80];       /* what gave the right result */
    size_t well;         /* characters of it */
    DNN_FUNCTIONS(MEMBER)
};

static void dnn_load(struct dnn *d, void *library)
{
#define LOAD(name)                       \
    {                                    \
        void *p = dlsym(library, #name); \
        if (!p && !d->missing)           \
            d->missing = #name;          \
        memcpy(&d->name, &p, sizeof(p)); \
    }
    DNN_FUNCTIONS(LOAD)
}

/* cuDNN's status as an error of ours; 0 for success. */
static int failed(struct dnn *d, cudnnStatus_t status, struct err *err)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return 0;
    return err_set(err, ERR_DEVICE, "%s", d->cudnnGetErrorString(status));
}

/* Device memory with these values, or zeros. */
static int values_new(struct dnn *d, size_t n, const float *x, void **ret, struct err *err)
{
    struct backend *be = &d->device->base;
    int rc = be->ops->alloc(be, n * sizeof(float), ret, err);

    return rc != 0 || !x ? rc : be->ops->write(be, *ret, x, n * sizeof(float), err);
}

static double worst_of(const float *got, const float *want, size_t n)
{
    double worst = 0.0;

    for (size_t i = 0; i < n; i++) {
        double diff = fabs((double)got[i] - (double)want[i]);

        if (!(diff <= worst))
            worst = diff;
    }
    return worst;
}

/* ------------------------------------------------------------------------------- ops */

/* softmax(0, ln 2, ln 4, ln 8) = (1, 2, 4, 8) / 15 */
static int run_ops(struct dnn *d, double *worst, struct err *err)
{
    const float x[4] = {0.0f, logf(2.0f), logf(4.0f), logf(8.0f)}, one = 1.0f, zero = 0.0f;
    const float want[4] = {1.0f / 15.0f, 2.0f / 15.0f, 4.0f / 15.0f, 8.0f / 15.0f};
    struct backend *be = &d->device->base;
    cudnnTensorDescriptor_t t = NULL;
    float y[4];
    void *px = NULL, *py = NULL;
    int rc = values_new(d, 4, x, &px, err);

    if (rc == 0)
        rc = values_new(d, 4, NULL, &py, err);
    if (rc == 0)
        rc = failed(d, d->cudnnCreateTensorDescriptor(&t), err);
    if (rc == 0)
        rc = failed(
            d, d->cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 4, 1, 1),
            err);
    if (rc == 0)
        rc = failed(d,
                    d->cudnnSoftmaxForward(d->handle, CUDNN_SOFTMAX_ACCURATE,
                                           CUDNN_SOFTMAX_MODE_CHANNEL, &one, t, px, &zero, t, py),
                    err);
    if (rc == 0)
        rc = be->ops->read(be, y, py, sizeof(y), err);
    if (rc == 0)
        *worst = worst_of(y, want, 4);
    if (t)
        d->cudnnDestroyTensorDescriptor(t);
    be->ops->release(be, px);
    be->ops->release(be, py);
    return rc;
}

/* ------------------------------------------------------------------------------- cnn */

enum { SIDE = 6, INNER = SIDE - 2, CHANNELS = 4 };

struct conv {
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    void *px, *pw, *py;
};

static int conv_describe(struct dnn *d, struct conv *c, struct err *err)
{
    int rc = failed(d, d->cudnnCreateTensorDescriptor(&c->x), err);

    if (rc == 0)
        rc = failed(d, d->cudnnCreateTensorDescriptor(&c->y), err);
    if (rc == 0)
        rc = failed(d, d->cudnnCreateFilterDescriptor(&c->w), err);
    if (rc == 0)
        rc = failed(d, d->cudnnCreateConvolutionDescriptor(&c->conv), err);
    if (rc == 0)
        rc = failed(d,
                    d->cudnnSetTensor4dDescriptor(c->x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1,
                                                  CHANNELS, SIDE, SIDE),
                    err);
    if (rc == 0)
        rc = failed(d,
                    d->cudnnSetTensor4dDescriptor(c->y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1,
                                                  INNER, INNER),
                    err);
    if (rc == 0)
        rc = failed(d,
                    d->cudnnSetFilter4dDescriptor(c->w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1,
                                                  CHANNELS, 3, 3),
                    err);
    if (rc == 0)
        rc = failed(d,
                    d->cudnnSetConvolution2dDescriptor(c->conv, 0, 0, 1, 1, 1, 1,
                                                       CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                    err);
    return rc;
}

static void conv_free(struct dnn *d, struct conv *c)
{
    struct backend *be = &d->device->base;

    if (c->x)
        d->cudnnDestroyTensorDescriptor(c->x);
    if (c->y)
        d->cudnnDestroyTensorDescriptor(c->y);
    if (c->w)
        d->cudnnDestroyFilterDescriptor(c->w);
    if (c->conv)
        d->cudnnDestroyConvolutionDescriptor(c->conv);
    be->ops->release(be, c->px);
    be->ops->release(be, c->pw);
    be->ops->release(be, c->py);
}

/* Filters of ones over small whole numbers: sums of 36 of them, exact in every type. */
static int run_cnn(struct dnn *d, double *worst, struct err *err)
{
    float x[CHANNELS * SIDE * SIDE], w[CHANNELS * 9], y[INNER * INNER], want[INNER * INNER] = {0};
    const float one = 1.0f, zero = 0.0f;
    struct backend *be = &d->device->base;
    struct conv c = {0};
    int rc;

    for (int i = 0; i < CHANNELS * SIDE * SIDE; i++)
        x[i] = (float)(i * 7 % 11 - 5);
    for (int i = 0; i < CHANNELS * 9; i++)
        w[i] = 1.0f;
    for (int i = 0; i < INNER * INNER * CHANNELS * 9; i++) { /* output, channel, row, column */
        int out = i / (CHANNELS * 9), ch = i / 9 % CHANNELS, r = i / 3 % 3, s = i % 3;

        want[out] += x[(ch * SIDE + out / INNER + r) * SIDE + out % INNER + s];
    }
    rc = values_new(d, sizeof(x) / sizeof(x[0]), x, &c.px, err);
    if (rc == 0)
        rc = values_new(d, sizeof(w) / sizeof(w[0]), w, &c.pw, err);
    if (rc == 0)
        rc = values_new(d, sizeof(y) / sizeof(y[0]), NULL, &c.py, err);
    if (rc == 0)
        rc = conv_describe(d, &c, err);
    if (rc == 0) /* the one algorithm that needs no workspace */
        rc = failed(d,
                    d->cudnnConvolutionForward(d->handle, &one, c.x, c.px, c.w, c.pw, c.conv,
                                               CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0,
                                               &zero, c.y, c.py),
                    err);
    if (rc == 0)
        rc = be->ops->read(be, y, c.py, sizeof(y), err);
    if (rc == 0)
        *worst = worst_of(y, want, INNER * INNER);
    conv_free(d, &c);
    return rc;
}

/* ------------------------------------------------------------------------------- adv */

enum { HIDDEN = 32 };

struct rnn {
    cudnnDropoutDescriptor_t dropout;
    cudnnRNNDescriptor_t rnn;
    cudnnRNNDataDescriptor_t data;
    cudnnTensorDescriptor_t state;
    void *zeros, *c0, *y, *weights, *work, *lengths;
    size_t weight_bytes, work_bytes;
};

/* One layer, one direction, one sequence of one step. */
static int rnn_describe(struct dnn *d, struct rnn *r, struct err *err)
{
    const int length = 1, dims[3] = {1, 1, HIDDEN}, strides[3] = {HIDDEN, HIDDEN, 1};
    float padding = 0.0f;
    size_t reserve = 0;
    int rc = failed(d, d->cudnnCreateDropoutDescriptor(&r->dropout), err);

    if (rc == 0)
        rc = failed(d, d->cudnnSetDropoutDescriptor(r->dropout, d->handle, 0.0f, NULL, 0, 0), err);
    if (rc == 0)
        rc = failed(d, d->cudnnCreateRNNDescriptor(&r->rnn), err);
    if (rc == 0)
        rc = failed(d,
                    d->cudnnSetRNNDescriptor_v8(
                        r->rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS,
                        CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT,
                        CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, HIDDEN, HIDDEN, HIDDEN, 1, r->dropout,
                        CUDNN_RNN_PADDED_IO_DISABLED),
                    err);
    if (rc == 0)
        rc = failed(d, d->cudnnCreateRNNDataDescriptor(&r->data), err);
    if (rc == 0)
        rc = failed(d,
                    d->cudnnSetRNNDataDescriptor(r->data, CUDNN_DATA_FLOAT,
                                                 CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, 1, 1,
                                                 HIDDEN, &length, &padding),
                    err);
    if (rc == 0)
        rc = failed(d, d->cudnnCreateTensorDescriptor(&r->state), err);
    if (rc == 0)
        rc = failed(d, d->cudnnSetTensorNdDescriptor(r->state, CUDNN_DATA_FLOAT, 3, dims, strides),
                    err);
    if (rc == 0)
        rc = failed(d, d->cudnnGetRNNWeightSpaceSize(d->handle, r->rnn, &r->weight_bytes), err);
    if (rc == 0)
        rc = failed(d,
                    d->cudnnGetRNNTempSpaceSizes(d->handle, r->rnn, CUDNN_FWD_MODE_INFERENCE,
                                                 r->data, &r->work_bytes, &reserve),
                    err);
    return rc;
}

static int rnn_memory(struct dnn *d, struct rnn *r, const float *c0, struct err *err)
{
    const int32_t length = 1;
    struct backend *be = &d->device->base;
    int rc = values_new(d, HIDDEN, NULL, &r->zeros, err);

    if (rc == 0)
        rc = values_new(d, HIDDEN, c0, &r->c0, err);
    if (rc == 0)
        rc = values_new(d, HIDDEN, NULL, &r->y, err);
    if (rc == 0)
        rc = be->ops->alloc(be, r->weight_bytes + 1, &r->weights, err);
    if (rc == 0)
        rc = be->ops->alloc(be, r->work_bytes + 1, &r->work, err);
    if (rc == 0)
        rc = be->ops->alloc(be, sizeof(length), &r->lengths, err);
    if (rc == 0)
        rc = be->ops->write(be, r->lengths, &length, sizeof(length), err);
    return rc;
}

static void rnn_free(struct dnn *d, struct rnn *r)
{
    struct backend *be = &d->device->base;
    void *memory[] = {r->zeros, r->c0, r->y, r->weights, r->work, r->lengths};

    if (r->dropout)
        d->cudnnDestroyDropoutDescriptor(r->dropout);
    if (r->rnn)
        d->cudnnDestroyRNNDescriptor(r->rnn);
    if (r->data)
        d->cudnnDestroyRNNDataDescriptor(r->data);
    if (r->state)
        d->cudnnDestroyTensorDescriptor(r->state);
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        be->ops->release(be, memory[i]);
}

/* With weights and biases of zero every gate is one half and nothing new comes in:
 * c = c0 / 2, h = tanh(c) / 2. */
static int run_adv(struct dnn *d, double *worst, struct err *err)
{
    float c0[HIDDEN], want[HIDDEN], y[HIDDEN];
    struct backend *be = &d->device->base;
    struct rnn r = {0};
    int rc = rnn_describe(d, &r, err);

    for (int i = 0; i < HIDDEN; i++) {
        c0[i] = (float)(i - HIDDEN / 2) / 8.0f;
        want[i] = 0.5f * tanhf(0.5f * c0[i]);
    }
    if (rc == 0)
        rc = rnn_memory(d, &r, c0, err);
    if (rc == 0)
        rc = failed(d,
                    d->cudnnRNNForward(d->handle, r.rnn, CUDNN_FWD_MODE_INFERENCE, r.lengths,
                                       r.data, r.zeros, r.data, r.y, r.state, r.zeros, NULL,
                                       r.state, r.c0, NULL, r.weight_bytes, r.weights, r.work_bytes,
                                       r.work, 0, NULL),
                    err);
    if (rc == 0)
        rc = be->ops->read(be, y, r.y, sizeof(y), err);
    if (rc == 0)
        *worst = worst_of(y, want, HIDDEN);
    rnn_free(d, &r);
    return rc;
}

/* ------------------------------------------------------------------------------- all */

static int run_part(struct check *c, struct dnn *d, const char *label, const char *part,
                    const char *name, const char *what,
                    int (*run)(struct dnn *, double *, struct err *))
{
    static const char todo[] = "reinstall cuDNN, all of it from one package (sudo apt install "
                               "--reinstall libcudnn9-cuda-13, or pip install --force-reinstall "
                               "nvidia-cudnn-cu13)";
    double worst = 0.0;
    struct err err = {0}, after = {0};
    int rc;

    if (!check_part_fits(c, part)) /* said already; and its functions must not be called */
        return 0;
    rc = run(d, &worst, &err);
    if (rc == ERR_VRAM)
        check_say(c, CHECK_WARNING, name, "memory for a small operation",
                  "end the programs that use the card's memory (nvidia-smi lists them)", "%s: %s",
                  label, err.msg);
    else if (rc != 0)
        check_say(c, CHECK_WARNING, name, "an operation that runs", todo, "%s: %s: %s", label, what,
                  err.msg);
    else if (!(worst <= 1e-3)) /* TF32 may be taken for float32: 2^-11 of values below one */
        check_say(c, CHECK_WARNING, name, "the right result", todo, "%s: %s is wrong by %.1e",
                  label, what, worst);
    else
        d->well += (size_t)snprintf(d->done + d->well, sizeof(d->done) - d->well, "%s%s",
                                    d->well ? ", " : "", what);
    return d->device->base.ops->sync(&d->device->base, &after);
}

int check_dnn(struct check *c, struct cuda *device, const char *label)
{
    struct dnn d = {.device = device, .handle = device->dnn};
    int rc;

    if (!device->dnn || !c->libs.cudnn.handle)
        return 0;
    dnn_load(&d, c->libs.cudnn.handle);
    if (d.missing) {
        check_say(c, CHECK_WARNING, "cuDNN parts", "the functions of cuDNN 9",
                  "nothing, if all else is well: only this check would have called them",
                  "%s: %s has no %s: ops, cnn and adv were not run", label, c->libs.cudnn.file,
                  d.missing);
        return 0;
    }
    rc = run_part(c, &d, label, "ops", "run ops", "a softmax", run_ops);
    if (rc == 0)
        rc = run_part(c, &d, label, "cnn", "run cnn", "a convolution", run_cnn);
    if (rc == 0)
        rc = run_part(c, &d, label, "adv", "run adv", "a step of an LSTM", run_adv);
    if (d.well > 0)
        check_say(c, CHECK_WELL, "cuDNN runs", "", "", "%s: %s", label, d.done);
    return rc;
}
#else
int check_dnn(struct check *c, struct cuda *device, const char *label)
{
    (void)c;
    (void)device;
    (void)label;
    return 0;
}
#endif
