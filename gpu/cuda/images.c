/* Convolution over images, channels last: in float32, TF32 and float16 by cuDNN (cudnn/convolve.c),
 * and what it has no kernel for, or of another type, or from float16 to float32, as matrix
 * products. In a rehearsal a layer's first call runs both ways, and the layer keeps to the faster
 * one: for few channels cuDNN's may be far off.
 *
 * Each output's inputs are copied into a row of kernel_h kernel_w in numbers, for some outputs of
 * all images at a time, and multiplied with the weights, repacked from [out][in][taps] to
 * [out][taps][in]. Zeros round rows up to 16 bytes, and results to eight channels: without that
 * alignment there are only slow kernels, or none. A kernel of 1 x 1 sees the image itself, and is a
 * product in every type.
 *
 * Deterministic: one shape for all, never cuDNN. Outputs of all images go in pieces of exactly
 * FIXED_ROWS, the last one filled up with zeros, out of one place into one place, so that a row
 * depends on itself alone.
 *
 * Depthwise ones are a kernel (kernels/images.cu): nothing to multiply as a matrix. */
#include "gpu/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/kernels.h"

#define UNFOLD_BYTES ((int64_t)64 << 20) /* of unfolded rows at once: they stay near the cache */
#define FIXED_ROWS 2048

/* By which a layer goes that may go by either. */
enum way {
    WAY_ANY, /* cuDNN's, until a rehearsal has found out */
    WAY_CUDNN,
    WAY_PRODUCT
};

struct conv2d {
    struct conv2d_spec spec;
    enum precision precision;
    enum dtype type;
    int64_t seen, wide; /* numbers that an output sees; rounded up */
    int64_t w_out;      /* out, rounded up; not of depthwise ones */
    void *w;            /* [w_out][wide] of the type; depthwise: [taps][in] float32 */
    void *bias;         /* [out] float32; NULL: none */
    void *dense;        /* [out][seen] for cuDNN: w where it lies so; NULL: never cuDNN */
    void *dense_bias;   /* [out] of the type, for cuDNN: bias where it is that */
    enum way way;
    bool untimed; /* cuDNN's engines */
};

/* One call's. */
struct images {
    struct conv2d *conv;
    uint32_t count;
    struct image_device g;
    struct tensor x, y;
    enum epilogue epilogue;
};

static bool spec_fits(const struct conv2d_spec *s)
{
    return s->in > 0 && s->out > 0 && s->out <= 1 << 20 && (!s->depthwise || s->in == s->out) &&
           s->kernel_h > 0 && s->kernel_h < 256 && s->kernel_w > 0 && s->kernel_w < 256 &&
           s->in <= INT32_MAX / (256 * 256) && s->stride_h > 0 && s->stride_h < 256 &&
           s->stride_w > 0 && s->stride_w < 256 && s->top < s->kernel_h &&
           s->bottom < s->kernel_h && s->left < s->kernel_w && s->right < s->kernel_w;
}

static int64_t taps_of(const struct conv2d_spec *s)
{
    return (int64_t)s->kernel_h * (int64_t)s->kernel_w;
}

/* --- weights ------------------------------------------------------------------------------- */

static int put_rows(struct backend *be, struct tensor t, const float *values, void **ret,
                    struct err *err)
{
    int rc = cuda_alloc(be, (size_t)(t.rows * t.cols) * dtype_size(t.type), ret, err);

    t.data = *ret;
    return rc == 0 ? cuda_put(be, t, values, err) : rc;
}

/* packed: [w_out][wide], closed up in place. */
static int put_dense(struct backend *be, struct conv2d *conv, float *packed, struct err *err)
{
    int64_t out = conv->spec.out, seen = conv->seen;

    conv->dense = conv->w;
    if (conv->wide == seen)
        return 0;
    conv->dense = NULL;
    for (int64_t o = 1; o < out; o++)
        memmove(packed + o * seen, packed + o * conv->wide, (size_t)seen * sizeof(*packed));
    return put_rows(be, tensor_of(conv->type, NULL, out, seen), packed, &conv->dense, err);
}

static int put_weights(struct backend *be, struct conv2d *conv, const float *w, const float *bias,
                       struct err *err)
{
    const struct conv2d_spec *s = &conv->spec;
    int64_t taps = taps_of(s), rows = s->depthwise ? taps : conv->w_out;
    int64_t cols = s->depthwise ? s->in : conv->wide, in = s->depthwise ? 1 : s->in;
    float *packed = calloc((size_t)(rows * cols), sizeof(*packed));
    int rc;

    if (!packed)
        return err_set(err, ERR_NOMEM, "out of memory for weights");
    for (int64_t o = 0; o < s->out; o++) {
        for (int64_t i = 0; i < in; i++) {
            for (int64_t t = 0; t < taps; t++)
                packed[s->depthwise ? t * cols + o : o * cols + t * in + i] =
                    w[(o * in + i) * taps + t];
        }
    }
    rc = put_rows(be, tensor_of(conv->type, NULL, rows, cols), packed, &conv->w, err);
    if (rc == 0 && cuda_convolves(cuda_of(be), s, conv->precision))
        rc = put_dense(be, conv, packed, err);
    free(packed);
    if (rc == 0 && bias)
        rc = put_rows(be, tensor_of(DTYPE_F32, NULL, 1, s->out), bias, &conv->bias, err);
    conv->dense_bias = conv->bias;
    if (rc == 0 && bias && conv->dense && conv->type != DTYPE_F32)
        rc = put_rows(be, tensor_of(conv->type, NULL, 1, s->out), bias, &conv->dense_bias, err);
    return rc;
}

/* Reads the way that a measurement asks for. */
static void ask_way(struct conv2d *conv)
{
    const char *s = getenv("NIGHTSHIFT_CUDA_CONVOLVE");

    conv->untimed = s && strcmp(s, "first") == 0;
    if (conv->untimed || (s && strcmp(s, "cudnn") == 0))
        conv->way = WAY_CUDNN;
    else if (s && strcmp(s, "product") == 0)
        conv->way = WAY_PRODUCT;
}

int cuda_conv2d_new(struct backend *be, enum precision precision, const struct conv2d_spec *spec,
                    const float *w, const float *bias, struct conv2d **ret, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    struct conv2d *conv;
    int64_t pack;
    int rc;

    if (!spec_fits(spec))
        return cuda_shape(err, "conv2d_new");
    if (precision <= PRECISION_AUTO || precision >= PRECISION_COUNT ||
        !(be->info.have & 1u << precision))
        return err_set(err, ERR_MODEL, "%s (%s) has no %s", be->info.name, be->info.features,
                       precision_name(precision));
    rc = cuda_not_recording(c, "conv2d_new", err);
    if (rc != 0)
        return rc;
    conv = calloc(1, sizeof(*conv));
    if (!conv)
        return err_set(err, ERR_NOMEM, "out of memory for weights");
    *conv = (struct conv2d){.spec = *spec, .precision = precision};
    conv->type = spec->depthwise ? DTYPE_F32 : precision_type(precision);
    conv->seen = taps_of(spec) * spec->in;
    pack = (int64_t)(16 / dtype_size(conv->type));
    conv->wide = (conv->seen + pack - 1) / pack * pack;
    conv->w_out = (spec->out + 7) / 8 * 8;
    ask_way(conv);
    rc = put_weights(be, conv, w, bias, err);
    if (rc != 0) {
        cuda_conv2d_free(be, conv);
        return rc;
    }
    *ret = conv;
    return 0;
}

void cuda_conv2d_free(struct backend *be, struct conv2d *conv)
{
    if (!conv)
        return;
    if (conv->dense != conv->w)
        cuda_release(be, conv->dense);
    if (conv->dense_bias != conv->bias)
        cuda_release(be, conv->dense_bias);
    cuda_release(be, conv->w);
    cuda_release(be, conv->bias);
    free(conv);
}

/* --- products ------------------------------------------------------------------------------ */

/* y = x W^T, x: unfolded rows, y: all w_out columns. */
static struct product product_of(const struct conv2d *conv, struct tensor x, struct tensor y)
{
    return (struct product){
        .type = cuda_type(conv->type),
        .y_type = cuda_type(y.type),
        .tf32 = conv->precision == PRECISION_TF32,
        .rows = x.rows,
        .out = conv->w_out,
        .in = conv->wide,
        .x_stride = x.stride,
        .w_stride = conv->wide,
        .y_stride = y.stride,
        .batch = 1,
        .epilogue = EPILOGUE_NONE,
        .x = x.data,
        .w = conv->w,
        .y = y.data,
        .alpha = 1.0f,
    };
}

/* p is plain, y its result; bias: [y.cols] or NULL. The product applies bias and epilogue as far as
 * it can, a kernel the rest. If y is float32 the product does all but GELU and the ReLU of a sum,
 * unless cuBLASLt refuses it. */
static int convolve_by_product(struct cuda *c, struct product p, const void *bias,
                               enum epilogue epilogue, struct tensor y, struct err *err)
{
    bool fused = y.type == DTYPE_F32 && epilogue != EPILOGUE_GELU && epilogue != EPILOGUE_ADD_RELU;
    enum epilogue plain = epilogue_adds(epilogue) ? EPILOGUE_ADD : EPILOGUE_NONE;
    enum epilogue rest = epilogue == EPILOGUE_ADD        ? EPILOGUE_NONE
                         : epilogue == EPILOGUE_ADD_RELU ? EPILOGUE_RELU
                                                         : epilogue;
    int rc;

    p.bias = fused ? bias : NULL;
    p.epilogue = fused ? epilogue : plain;
    rc = cuda_product(c, &p, "convolving", err);
    if (rc == ERR_MODEL && fused && (bias || epilogue == EPILOGUE_RELU)) {
        fused = false;
        p.bias = NULL;
        p.epilogue = plain;
        rc = cuda_product(c, &p, "convolving", err);
    }
    if (rc != 0 || fused || (rest == EPILOGUE_NONE && !bias))
        return rc;
    return cuda_status(err, k_epilogue(c->work, y, bias, rest, y), "adding the bias");
}

/* Kernels know no ReLU of a sum: where one adds, ReLU goes once more over y. */
static int rectify_sum(struct cuda *c, enum epilogue epilogue, struct tensor y, struct err *err)
{
    if (epilogue != EPILOGUE_ADD_RELU)
        return 0;
    return cuda_status(err, k_epilogue(c->work, y, NULL, EPILOGUE_RELU, y), "ReLU");
}

static enum epilogue without_relu(enum epilogue epilogue)
{
    return epilogue == EPILOGUE_ADD_RELU ? EPILOGUE_ADD : epilogue;
}

/* Whether an output sees one pixel, as it lies. */
static bool sees_itself(const struct images *j)
{
    const struct conv2d *conv = j->conv;

    return taps_of(&conv->spec) == 1 && conv->spec.stride_h == 1 && conv->spec.stride_w == 1 &&
           conv->wide == conv->spec.in;
}

/* Outputs [first, first + n). rows: of the product; n, or more of a fixed one. */
static int convolve_rows(struct cuda *c, const struct images *j, int64_t first, int64_t n,
                         int64_t rows, struct err *err)
{
    const struct conv2d *conv = j->conv;
    bool fixed = c->deterministic, plain = !fixed && sees_itself(j);
    bool direct = !fixed && conv->w_out == conv->spec.out;
    struct tensor seen = tensor_of(conv->type, NULL, plain ? 0 : rows, conv->wide);
    struct tensor sum = tensor_of(DTYPE_F32, NULL, direct ? 0 : rows, conv->w_out);
    struct tensor y = tensor_rows(j->y, first, n);
    size_t bytes = (size_t)(seen.rows * seen.cols) * dtype_size(conv->type);
    struct product p;
    void *s;
    int rc;

    bytes = (bytes + 255) / 256 * 256;
    rc = cuda_scratch(c, bytes + (size_t)(sum.rows * sum.cols) * sizeof(float), &s, err);
    if (rc != 0)
        return rc;
    seen.data = s;
    sum.data = (char *)s + bytes;
    if (plain)
        seen = tensor_rows(j->x, first, n);
    else
        rc = cuda_status(err, k_unfold(c->work, seen, j->x, &j->g, first), "unfolding images");
    if (rc != 0)
        return rc;
    if (direct)
        return convolve_by_product(c, product_of(conv, seen, y), conv->bias, j->epilogue, y, err);
    p = product_of(conv, seen, sum);
    rc = cuda_product(c, &p, "convolving", err);
    if (rc != 0)
        return rc;
    sum.rows = n;
    sum.cols = conv->spec.out;
    rc = cuda_status(err, k_epilogue(c->work, sum, conv->bias, without_relu(j->epilogue), y),
                     "adding the bias");
    return rc == 0 ? rectify_sum(c, j->epilogue, y, err) : rc;
}

/* ERR_EMPTY: it does not. */
static int run_by_cudnn(struct cuda *c, const struct images *j, struct err *err)
{
    const struct conv2d *conv = j->conv;
    const struct convolution v = {.spec = &conv->spec,
                                  .precision = conv->precision,
                                  .images = j->count,
                                  .height = j->g.height,
                                  .width = j->g.width,
                                  .out_height = j->g.out_height,
                                  .out_width = j->g.out_width,
                                  .epilogue = j->epilogue,
                                  .x = j->x.data,
                                  .w = conv->dense,
                                  .bias = conv->bias,
                                  .dense_bias = conv->dense_bias,
                                  .y = j->y.data,
                                  .timed = c->rehearsing && !conv->untimed};

    return cuda_convolve(c, &v, err);
}

static int run_all(struct cuda *c, const struct images *j, struct err *err)
{
    int64_t row = j->conv->wide * (int64_t)dtype_size(j->conv->type);
    int64_t step = c->deterministic ? FIXED_ROWS : UNFOLD_BYTES / row;
    int rc = 0;

    step = step < 1 ? 1 : step;
    for (int64_t first = 0; first < j->y.rows && rc == 0; first += step) {
        int64_t n = j->y.rows - first < step ? j->y.rows - first : step;

        rc = convolve_rows(c, j, first, n, c->deterministic ? step : n, err);
    }
    return rc;
}

/* --- which way ----------------------------------------------------------------------------- */

struct attempt {
    struct cuda *c;
    const struct images *j;
};

static int by_cudnn(void *arg, struct err *err)
{
    const struct attempt *a = arg;

    return run_by_cudnn(a->c, a->j, err);
}

static int by_product(void *arg, struct err *err)
{
    const struct attempt *a = arg;

    return run_all(a->c, a->j, err);
}

/* Times both ways and keeps the faster one. If one lacks memory or a kernel, the other is kept. */
static int choose_way(struct cuda *c, const struct images *j, struct err *err)
{
    struct attempt a = {c, j};
    float cudnn = 0.0f, product = 0.0f;
    int rc = cuda_time(c, by_cudnn, &a, &cudnn, err);

    if (rc == ERR_EMPTY || rc == ERR_VRAM) {
        j->conv->way = WAY_PRODUCT;
        return 0;
    }
    if (rc != 0)
        return rc;
    rc = cuda_time(c, by_product, &a, &product, err);
    if (rc != 0 && rc != ERR_VRAM && rc != ERR_MODEL) /* cuBLASLt refuses a shape by the latter */
        return rc;
    j->conv->way = rc == 0 && product < cudnn * CUDA_CLEARLY ? WAY_PRODUCT : WAY_CUDNN;
    return 0;
}

static int run_either(struct cuda *c, const struct images *j, struct err *err)
{
    struct conv2d *conv = j->conv;
    bool either = conv->dense && !sees_itself(j) && j->y.type == conv->type;
    int rc = either && conv->way == WAY_ANY && c->rehearsing ? choose_way(c, j, err) : 0;

    if (rc != 0)
        return rc;
    rc = either && conv->way != WAY_PRODUCT ? run_by_cudnn(c, j, err) : ERR_EMPTY;
    return rc == ERR_EMPTY ? run_all(c, j, err) : rc;
}

static struct image_device compute_image_geometry(const struct conv2d_spec *s, int64_t height,
                                                  int64_t width)
{
    int64_t tall = (int64_t)s->top + height + s->bottom - s->kernel_h;
    int64_t wide = (int64_t)s->left + width + s->right - s->kernel_w;

    return (struct image_device){
        .height = height,
        .width = width,
        .out_height = tall < 0 ? 0 : tall / s->stride_h + 1,
        .out_width = wide < 0 ? 0 : wide / s->stride_w + 1,
        .in = s->in,
        .kernel_h = s->kernel_h,
        .kernel_w = s->kernel_w,
        .stride_h = s->stride_h,
        .stride_w = s->stride_w,
        .top = s->top,
        .left = s->left,
    };
}

static bool has_image_shape(struct tensor t, uint32_t images, int64_t height, int64_t width,
                            int64_t cols)
{
    return t.data && t.cols == cols && t.stride == cols && t.rows > 0 && t.rows % images == 0 &&
           t.rows <= INT32_MAX && t.rows / images == height * width;
}

int cuda_conv2d(struct backend *be, struct conv2d *conv, uint32_t images, uint32_t height,
                uint32_t width, struct tensor x, enum epilogue epilogue, struct tensor y,
                struct err *err)
{
    struct cuda *c = cuda_enter(be);
    struct images j = {conv, images, compute_image_geometry(&conv->spec, height, width),
                       x,    y,      epilogue};
    int rc = cuda_not_recording(c, "conv2d", err);

    if (rc != 0)
        return rc;
    if (images < 1 || height < 1 || width < 1 || x.type != conv->type ||
        (y.type != DTYPE_F32 && y.type != conv->type) ||
        !has_image_shape(x, images, height, width, conv->spec.in) ||
        !has_image_shape(y, images, j.g.out_height, j.g.out_width, conv->spec.out))
        return cuda_shape(err, "conv2d");
    if (!conv->spec.depthwise)
        return run_either(c, &j, err);
    rc = cuda_status(err,
                     k_depthwise(c->work, x, conv->w, conv->bias, &j.g, without_relu(epilogue), y),
                     "convolving channels");
    return rc == 0 ? rectify_sum(c, epilogue, y, err) : rc;
}
