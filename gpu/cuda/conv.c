/* Convolution over time, kernel 3, padding 1, as one matrix product.
 *
 * x is time by channel: output t of a window sees three of its rows, from stride * t - 1 on, zeros
 * beyond its ends. They are copied out, 3 wide numbers for each output of all windows, and
 * multiplied with the weights, repacked from [out][in][3] to [out][3 wide]. `wide` is `in` rounded
 * up to 16 bytes (129 channels of float32 to 132): rows that are not aligned so have only slow
 * kernels. Bias and ReLU are the product's where all is float32, else a kernel's, as GELU always
 * is.
 *
 * Deterministic: one shape for all. Windows with many outputs go one by one; short ones, of which
 * there may be thousands, in pieces that have FIXED_ROWS outputs when they are full, the last one
 * filled up with zeros. */
#include "gpu/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/kernels.h"

#define SPREAD_BYTES ((size_t)256 << 20) /* of spread windows at once */
#define FIXED_ROWS 1024

struct conv1d {
    enum precision precision;
    enum dtype type;
    int64_t out, in, stride;
    int64_t wide; /* in, rounded up */
    void *w;      /* [out][3][wide] of the type */
    void *bias;   /* [out] float32; NULL: none */
};

/* Convolutions are a hundredth of an encoder: with 8-bit weights they stay in 16 bits. */
static int put_weights(struct backend *be, struct conv1d *conv, const float *w, const float *bias,
                       struct err *err)
{
    size_t count = (size_t)(conv->out * conv->wide) * 3;
    float *packed = calloc(count, sizeof(float));
    int rc;

    if (!packed)
        return err_set(err, ERR_NOMEM, "out of memory for weights");
    for (int64_t o = 0; o < conv->out; o++) {
        for (int64_t i = 0; i < conv->in; i++) {
            for (int64_t t = 0; t < 3; t++)
                packed[(o * 3 + t) * conv->wide + i] = w[(o * conv->in + i) * 3 + t];
        }
    }
    rc = cuda_alloc(be, count * dtype_size(conv->type), &conv->w, err);
    if (rc == 0)
        rc = cuda_put(be, tensor_of(conv->type, conv->w, conv->out, 3 * conv->wide), packed, err);
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
    int64_t pack;
    int rc;

    if (out < 1 || in < 1 || stride < 1 || out > INT32_MAX || in > INT32_MAX / 4)
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
    pack = (int64_t)(16 / dtype_size(conv->type));
    conv->wide = (in + pack - 1) / pack * pack;
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

/* y = x W^T, x: spread inputs. */
static struct product product_of(const struct conv1d *conv, struct tensor x, struct tensor y)
{
    return (struct product){
        .type = cuda_type(conv->type),
        .y_type = cuda_type(y.type),
        .tf32 = conv->precision == PRECISION_TF32,
        .rows = y.rows,
        .out = conv->out,
        .in = x.cols,
        .x_stride = x.stride,
        .w_stride = x.cols,
        .y_stride = y.stride,
        .batch = 1,
        .epilogue = EPILOGUE_NONE,
        .x = x.data,
        .w = conv->w,
        .y = y.data,
        .alpha = 1.0f,
    };
}

int cuda_convolve(struct cuda *c, struct product p, const void *bias, enum epilogue epilogue,
                  struct tensor y, struct err *err)
{
    bool fused = y.type == DTYPE_F32 && epilogue != EPILOGUE_GELU;
    enum epilogue rest = epilogue == EPILOGUE_ADD ? EPILOGUE_NONE : epilogue;
    int rc;

    if (fused) {
        p.bias = bias;
        p.epilogue = epilogue;
    } else if (epilogue == EPILOGUE_ADD) {
        p.epilogue = EPILOGUE_ADD;
    }
    rc = cuda_product(c, &p, "convolving", err);
    if (rc != 0 || fused || (rest == EPILOGUE_NONE && !bias))
        return rc;
    return cuda_status(err, k_epilogue(c->work, y, bias, rest, y), "adding the bias");
}

/* The product into scratch memory, whose shape and place are always the same, and from there to y,
 * which has the first y.rows of its rows. */
static int multiply_fixed(struct cuda *c, const struct conv1d *conv, struct tensor x,
                          struct tensor sum, enum epilogue epilogue, struct tensor y,
                          struct err *err)
{
    const struct product p = product_of(conv, x, sum);
    int rc = cuda_product(c, &p, "convolving", err);

    sum.rows = y.rows;
    return rc == 0 ? cuda_status(err, k_epilogue(c->work, sum, conv->bias, epilogue, y),
                                 "adding the bias")
                   : rc;
}

/* A piece of some windows. rows: of the product; y.rows, or more of a fixed one. */
static int run(struct cuda *c, const struct conv1d *conv, uint32_t windows, int64_t rows,
               struct tensor x, enum epilogue epilogue, struct tensor y, bool fixed,
               struct err *err)
{
    struct tensor spread = tensor_of(conv->type, NULL, rows, 3 * conv->wide);
    struct tensor sum = tensor_of(DTYPE_F32, NULL, fixed ? rows : 0, conv->out);
    size_t first = (size_t)(spread.rows * spread.cols) * dtype_size(conv->type);
    void *s;
    int rc;

    first = (first + 255) / 256 * 256;
    rc = cuda_scratch(c, first + (size_t)(sum.rows * sum.cols) * sizeof(float), &s, err);
    if (rc != 0)
        return rc;
    spread.data = s;
    sum.data = (char *)s + first;
    rc = cuda_status(err, k_spread_rows(c->work, spread, x, windows, conv->stride),
                     "spreading windows");
    if (rc != 0)
        return rc;
    return fixed ? multiply_fixed(c, conv, spread, sum, epilogue, y, err)
                 : cuda_convolve(c, product_of(conv, spread, y), conv->bias, epilogue, y, err);
}

int cuda_conv1d(struct backend *be, struct conv1d *conv, uint32_t windows, struct tensor x,
                enum epilogue epilogue, struct tensor y, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int64_t time, rows, step;
    bool fixed;
    int rc = 0;

    if (windows < 1 || x.rows < 1 || x.rows % windows != 0 || y.rows % windows != 0 ||
        x.cols != conv->in || y.cols != conv->out || x.stride != x.cols || y.stride != y.cols ||
        x.type != conv->type || y.type != conv->type)
        return cuda_shape(err, "conv1d");
    time = x.rows / windows;
    rows = y.rows / windows;
    if (rows != (time - 1) / conv->stride + 1)
        return cuda_shape(err, "conv1d");
    fixed = c->deterministic && rows <= FIXED_ROWS / 2;
    step = fixed ? FIXED_ROWS / rows
                 : (int64_t)(SPREAD_BYTES / dtype_size(conv->type)) / (3 * rows * conv->wide);
    if (step < 1 || (c->deterministic && !fixed))
        step = 1;
    for (int64_t w = 0; w < windows && rc == 0; w += step) {
        int64_t n = windows - w < step ? windows - w : step;

        rc =
            run(c, conv, (uint32_t)n, (fixed ? step : n) * rows, tensor_rows(x, w * time, n * time),
                epilogue, tensor_rows(y, w * rows, n * rows), fixed, err);
    }
    return rc;
}
