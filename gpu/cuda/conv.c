/* Convolution over time, kernel 3, padding 1, as one matrix product.
 *
 * x is time by channel. Between two rows of zeros, one window is [time + 2][in]; the inputs of
 * output t are its rows stride * t, stride * t + 1, stride * t + 2, which lie one after the other:
 * 3 in numbers, stride * in apart from those of output t + 1. Read so, a window's inputs are
 * [time / stride][3 in] with rows that overlap; cuBLASLt wants rows that do not, so they are copied
 * out, and the outputs of all windows are one product with the weights, repacked from [out][in][3]
 * to [out][3 in]. Bias and GELU are added by a kernel. */
#include "gpu/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/kernels.h"

#define PADDED_BYTES ((size_t)256 << 20) /* of padded and spread windows at once */

struct conv1d {
    enum precision precision;
    enum dtype type;
    int64_t out, in, stride;
    void *w;    /* [out][3][in] of the type */
    void *bias; /* [out] float32; NULL: none */
};

/* Convolutions are a hundredth of an encoder: with 8-bit weights they stay in 16 bits. */
static int put_weights(struct backend *be, struct conv1d *conv, const float *w, const float *bias,
                       struct err *err)
{
    size_t count = (size_t)(conv->out * conv->in) * 3;
    float *packed = malloc(count * sizeof(float));
    int rc;

    if (!packed)
        return err_set(err, ERR_NOMEM, "out of memory for weights");
    for (int64_t o = 0; o < conv->out; o++) {
        for (int64_t i = 0; i < conv->in; i++) {
            for (int64_t t = 0; t < 3; t++)
                packed[(o * 3 + t) * conv->in + i] = w[(o * conv->in + i) * 3 + t];
        }
    }
    rc = cuda_alloc(be, count * dtype_size(conv->type), &conv->w, err);
    if (rc == 0)
        rc = cuda_put(be, tensor_of(conv->type, conv->w, conv->out, 3 * conv->in), packed, err);
    free(packed);
    if (rc != 0 || !bias)
        return rc;
    rc = cuda_alloc(be, (size_t)conv->out * sizeof(float), &conv->bias, err);
    if (rc == 0)
        rc = cuda_put(be, tensor_of(DTYPE_F32, conv->bias, 1, conv->out), bias, err);
    return rc;
}

int cuda_conv1d_new(struct backend *be, enum precision precision, int64_t out, int64_t in,
                    int64_t stride, const float *w, const float *bias, struct conv1d **ret,
                    struct err *err)
{
    struct cuda *c = cuda_enter(be);
    struct conv1d *conv;
    int rc;

    if (out < 1 || in < 1 || stride < 1 || out > INT32_MAX || in > INT32_MAX / 3)
        return cuda_shape(err, "conv1d_new");
    if (precision <= PRECISION_AUTO || precision >= PRECISION_COUNT ||
        !(be->info.have & 1u << precision))
        return err_set(err, ERR_MODEL, "%s (%s) has no %s", be->info.name, be->info.features,
                       precision_name(precision));
    rc = cuda_not_recording(c, "conv1d_new", err);
    if (rc != 0)
        return rc;
    conv = calloc(1, sizeof(*conv));
    if (!conv)
        return err_set(err, ERR_NOMEM, "out of memory for weights");
    *conv = (struct conv1d){.precision = precision,
                            .type = precision_type(precision),
                            .out = out,
                            .in = in,
                            .stride = stride};
    rc = put_weights(be, conv, w, bias, err);
    if (rc != 0) {
        cuda_conv1d_free(be, conv);
        return rc;
    }
    *ret = conv;
    return 0;
}

void cuda_conv1d_free(struct backend *be, struct conv1d *conv)
{
    if (!conv)
        return;
    cuda_release(be, conv->w);
    cuda_release(be, conv->bias);
    free(conv);
}

static struct tensor some_rows(struct tensor t, int64_t from, int64_t rows)
{
    t.data = (char *)t.data + (size_t)(from * t.stride) * dtype_size(t.type);
    t.rows = rows;
    return t;
}

/* Rows of `spread`, [windows * rows][3 in], out of x: what each output sees. */
static int spread_out(struct cuda *c, const struct conv1d *conv, uint32_t windows, struct tensor x,
                      struct tensor padded, struct tensor spread, struct err *err)
{
    int64_t rows = spread.rows / windows, time = padded.rows / windows;
    int rc = cuda_status(err, k_pad_rows(c->work, padded, x, windows), "padding windows");

    for (uint32_t w = 0; w < windows && rc == 0; w++) {
        struct tensor seen = some_rows(padded, w * time, rows);

        seen.cols = 3 * conv->in;
        seen.stride = conv->stride * conv->in; /* less than cols: rows overlap */
        rc = cuda_status(err, k_copy(c->work, some_rows(spread, w * rows, rows), seen),
                         "spreading windows");
    }
    return rc;
}

/* y = x W^T of the spread inputs (or y += that), then bias and GELU. */
static int multiply(struct cuda *c, const struct conv1d *conv, struct tensor x,
                    enum epilogue epilogue, struct tensor y, struct err *err)
{
    const struct product p = {
        .type = cuda_type(conv->type),
        .y_type = cuda_type(conv->type),
        .tf32 = conv->precision == PRECISION_TF32,
        .rows = y.rows,
        .out = conv->out,
        .in = x.cols,
        .x_stride = x.stride,
        .w_stride = x.cols,
        .y_stride = y.stride,
        .batch = 1,
        .epilogue = epilogue == EPILOGUE_ADD ? EPILOGUE_ADD : EPILOGUE_NONE,
        .x = x.data,
        .w = conv->w,
        .y = y.data,
        .alpha = 1.0f,
    };
    enum epilogue rest = epilogue == EPILOGUE_GELU ? EPILOGUE_GELU : EPILOGUE_NONE;
    int rc = cuda_product(c, &p, "convolving", err);

    if (rc != 0 || (rest == EPILOGUE_NONE && !conv->bias))
        return rc;
    return cuda_status(err, k_epilogue(c->work, y, conv->bias, rest, y), "adding the bias");
}

/* Some windows, whose copies fit the scratch memory. */
static int run(struct cuda *c, const struct conv1d *conv, uint32_t windows, int64_t time,
               struct tensor x, enum epilogue epilogue, struct tensor y, struct err *err)
{
    struct tensor spread = tensor_of(conv->type, NULL, y.rows, 3 * conv->in);
    struct tensor padded = tensor_of(conv->type, NULL, (int64_t)windows * (time + 2), conv->in);
    size_t size = dtype_size(conv->type);
    size_t first = ((size_t)(spread.rows * spread.cols) * size + 255) / 256 * 256;
    void *s;
    int rc;

    rc = cuda_scratch(c, first + (size_t)(padded.rows * padded.cols) * size, &s, err);
    if (rc != 0)
        return rc;
    spread.data = s;
    padded.data = (char *)s + first;
    rc = spread_out(c, conv, windows, x, padded, spread, err);
    return rc == 0 ? multiply(c, conv, spread, epilogue, y, err) : rc;
}

int cuda_conv1d(struct backend *be, struct conv1d *conv, uint32_t windows, struct tensor x,
                enum epilogue epilogue, struct tensor y, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int64_t time, rows;
    size_t bytes;
    uint32_t step;
    int rc = 0;

    if (windows < 1 || x.rows < 1 || x.rows % windows != 0 || y.rows % windows != 0 ||
        x.cols != conv->in || y.cols != conv->out || x.stride != x.cols || y.stride != y.cols ||
        x.type != conv->type || y.type != conv->type)
        return cuda_shape(err, "conv1d");
    time = x.rows / windows;
    rows = y.rows / windows;
    if (rows != (time - 1) / conv->stride + 1)
        return cuda_shape(err, "conv1d");
    bytes = (size_t)((time + 2 + 3 * rows) * conv->in) * dtype_size(conv->type);
    step = bytes < PADDED_BYTES ? (uint32_t)(PADDED_BYTES / bytes) : 1;
    if (c->deterministic)
        step = 1;
    for (uint32_t w = 0; w < windows && rc == 0; w += step) {
        uint32_t n = windows - w < step ? windows - w : step;

        rc = run(c, conv, n, time, some_rows(x, w * time, n * time), epilogue,
                 some_rows(y, w * rows, n * rows), err);
    }
    return rc;
}
