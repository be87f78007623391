/* y = x W^T + b in every precision, and its epilogues.
 *
 * fp32, tf32, fp16, bf16: one product; bias and residual inside it (beta = 1, in place). Rows of W
 *       are padded to 8 in 16 bits, and computed where y's rows have room for them: with 51,866
 *       outputs an H100 took a kernel of sm_80 that accesses 2 numbers at a time.
 * int8: rows of x are quantised by a kernel, each with its own scale; the product is exact in
 *       int32; a kernel applies row scale, column scale, bias and epilogue. Padded to 16 rows and
 *       columns, as the kernels of 8-bit products want. In pieces, so that the int32 sums stay in
 *       bounds.
 * fp8:  rows of x and of W to e4m3, each with its own scale (a scale over the batch would make a
 *       window depend on its neighbours), which cuBLASLt applies on sm_90, the only one that is
 *       said to have fp8. Where it refuses, its plain float32 sums are scaled as int8's are.
 *       LINEAR_ROWS are bf16: see precision.h.
 *
 * Inputs that only products read may be DTYPE_E4M3, and so may GELU's results: then y itself holds
 * the sums for a moment, in bf16, and one kernel makes 8 bits of them in place.
 *
 * GELU is cuBLASLt's in 16 bits, the tanh approximation, and else a kernel of its own after the
 * product, exact. The approximation is at most 4.7e-4 off (at -2.7). Over inputs of any spread from
 * 0.3 to 4 around 0 the result's RMS error is 0.7 to 0.9 times that of the exact kernel, before
 * which the sum is rounded once more; in fp16 its mean is up to 0.4 roundings to one side
 * (tests/cuda/test_products.c). ReLU is cuBLASLt's, but in 8 bit, where our kernels come after the
 * product anyway, or its table of epilogues promises none. If cuBLASLt refuses an epilogue, which
 * its table does not show for every device, a kernel does it after the plain product.
 *
 * Deterministic: the number of rows must not show. Rows of a decoder step go in pieces of exactly
 * ROWS_FIXED, filled up with zeros, and wide ones in pieces of as many rows as the weights were
 * made for (one window), so that one kernel of one shape computes every row. Its price: a step of
 * few rows costs as much as one of 64, and wide products are smaller than they could be. */
#include "gpu/cuda/cuda.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/kernels.h"

#define ROWS_FIXED 64
#define PAD_8BIT 16
#define PAD_16BIT 8                     /* 16 bytes */
#define PIECE_BYTES ((int64_t)64 << 20) /* of quantised inputs and int32 sums */

struct linear {
    enum precision precision;
    enum linear_use use;
    int64_t rows; /* for which it was made */
    int64_t out, in;
    int64_t w_out, w_in; /* as W lies: padded with zeros, w_in for 8 bit alone */
    void *w;
    float *bias;          /* [w_out] float32; NULL: none */
    void *half_bias;      /* [w_out] of the 16-bit type, for 16-bit results */
    float *column_scales; /* 8 bit: [w_out] */
    bool by_sums;         /* fp8: cuBLASLt does not apply scales here */
};

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static bool needs_8bit(enum precision p) { return p == PRECISION_INT8 || p == PRECISION_FP8; }
static bool is_8bit(const struct linear *l) { return needs_8bit(l->precision); }

/* Rows of W are padded to a multiple of this, for whole accesses. float32 kernels take any
 * number. */
static int64_t rows_pad(enum precision p)
{
    return needs_8bit(p) ? PAD_8BIT : precision_type(p) == DTYPE_F32 ? 1 : PAD_16BIT;
}

/* --- weights ------------------------------------------------------------------------------- */

/* Rows of 8 bits that lie w_in apart. */
static struct tensor in_8bit(const struct linear *l, void *data, float *scales, int64_t rows)
{
    struct tensor t =
        tensor_of(l->precision == PRECISION_FP8 ? DTYPE_E4M3 : DTYPE_I8, data, rows, l->in);

    t.stride = l->w_in;
    t.scales = scales;
    return t;
}

bool cuda_is_e4m3(const struct tensor *t)
{
    return t->type == DTYPE_E4M3 && t->scales && (uintptr_t)t->data % PAD_8BIT == 0 &&
           t->cols % PAD_8BIT == 0 && t->stride % PAD_8BIT == 0;
}

/* Rows of W through the scratch memory into 8 bits, by the kernel that quantises activations. */
static int put_8bit(struct cuda *c, struct linear *l, const float *w, struct err *err)
{
    int64_t step = (int64_t)(CUDA_STAGE_BYTES / sizeof(float)) / l->in;
    void *p;
    int rc;

    step = step > 0 ? least(step, l->out) : 1;
    rc = cuda_scratch(c, (size_t)(step * l->in) * sizeof(float), &p, err);
    for (int64_t r = 0; r < l->out && rc == 0; r += step) {
        int64_t n = least(step, l->out - r);

        rc = cuda_upload(c, c->work, p, w + r * l->in, (size_t)(n * l->in) * sizeof(float), err);
        if (rc == 0)
            rc = cuda_status(err,
                             k_quantize_rows(c->work, tensor_of(DTYPE_F32, p, n, l->in),
                                             in_8bit(l, (char *)l->w + (size_t)(r * l->w_in),
                                                     l->column_scales + r, n)),
                             "quantising weights");
    }
    return rc;
}

static int put_weights(struct backend *be, struct linear *l, const float *w, struct err *err)
{
    enum dtype type = precision_type(l->precision);
    size_t bytes = (size_t)(l->w_out * l->w_in) * precision_weight_bytes(l->precision);
    void *p;
    int rc;

    rc = cuda_alloc(be, bytes, &l->w, err);
    if (rc != 0)
        return rc;
    if (!is_8bit(l))
        return cuda_put(be, tensor_of(type, l->w, l->out, l->in), w, err);
    rc = cuda_alloc(be, (size_t)l->w_out * sizeof(float), &p, err);
    if (rc != 0)
        return rc;
    l->column_scales = p;
    return put_8bit(cuda_of(be), l, w, err);
}

static int put_bias(struct backend *be, struct linear *l, const float *bias, struct err *err)
{
    enum dtype type = precision_type(l->precision);
    void *p;
    int rc;

    if (!bias)
        return 0;
    rc = cuda_alloc(be, (size_t)l->w_out * sizeof(float), &p, err);
    if (rc != 0)
        return rc;
    l->bias = p;
    rc = cuda_put(be, tensor_of(DTYPE_F32, p, 1, l->out), bias, err);
    if (rc != 0 || type == DTYPE_F32)
        return rc;
    rc = cuda_alloc(be, (size_t)l->w_out * dtype_size(type), &l->half_bias, err);
    if (rc != 0)
        return rc;
    return cuda_put(be, tensor_of(type, l->half_bias, 1, l->out), bias, err);
}

int cuda_linear_new(struct backend *be, enum precision precision, enum linear_use use, int64_t rows,
                    int64_t out, int64_t in, const float *w, const float *bias, struct linear **ret,
                    struct err *err)
{
    struct cuda *c = cuda_enter(be);
    struct linear *l;
    int rc;

    if (rows < 1 || out < 1 || in < 1 || out > INT32_MAX || in > INT32_MAX)
        return cuda_shape(err, "linear_new");
    if (precision <= PRECISION_AUTO || precision >= PRECISION_COUNT ||
        !(be->info.have & 1u << precision))
        return err_set(err, ERR_MODEL, "%s (%s) has no %s", be->info.name, be->info.features,
                       precision_name(precision));
    rc = cuda_not_recording(c, "linear_new", err);
    if (rc != 0)
        return rc;
    l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_NOMEM, "out of memory for weights");
    precision = use == LINEAR_ROWS ? precision_of_rows(precision) : precision;
    *l = (struct linear){.precision = precision,
                         .use = use,
                         .rows = rows,
                         .out = out,
                         .in = in,
                         .w_out = round_up(out, rows_pad(precision)),
                         .w_in = round_up(in, needs_8bit(precision) ? PAD_8BIT : 1)};
    rc = put_weights(be, l, w, err);
    if (rc == 0)
        rc = put_bias(be, l, bias, err);
    if (rc != 0) {
        cuda_linear_free(be, l);
        return rc;
    }
    *ret = l;
    return 0;
}

void cuda_linear_free(struct backend *be, struct linear *l)
{
    if (!l)
        return;
    cuda_release(be, l->w);
    cuda_release(be, l->bias);
    cuda_release(be, l->half_bias);
    cuda_release(be, l->column_scales);
    free(l);
}

/* --- products ------------------------------------------------------------------------------ */

/* The bias as the product into y wants it. */
static const void *bias_for(const struct linear *l, enum dtype y_type)
{
    return y_type != DTYPE_F32 || l->precision == PRECISION_FP8 ? l->half_bias : l->bias;
}

/* y = gelu(y + bias), or ReLU of it, in place. The bias comes here, in float32, so that y is
 * rounded to 16 bits once before, not twice. */
static int apply_bias_activation(struct cuda *c, const struct linear *l, enum epilogue epilogue,
                                 struct tensor y, struct err *err)
{
    return cuda_status(err, k_epilogue(c->work, y, l->bias, epilogue, y),
                       epilogue == EPILOGUE_RELU ? "ReLU" : "GELU");
}

/* y += bias. */
static int add_bias(struct cuda *c, const struct linear *l, struct tensor y, struct err *err)
{
    return cuda_status(err, k_epilogue(c->work, y, l->bias, EPILOGUE_NONE, y), "adding the bias");
}

/* The one place where GELU's exactness is decided: by what results are rounded to. */
static bool fused_gelu(const struct cuda *c, enum dtype y_type)
{
    return !c->exact_gelu && (y_type == DTYPE_BF16 || y_type == DTYPE_F16);
}

/* How many columns of y to compute: the padded ones too where y's rows end with room for just them,
 * which backend.h lets be overwritten. */
static int64_t columns_of(const struct linear *l, struct tensor y)
{
    return y.stride == l->w_out ? l->w_out : l->out;
}

/* With or without the epilogue: without, y is plain x W^T. */
static struct product product_of(const struct linear *l, const void *x, int64_t x_stride,
                                 cudaDataType_t type, struct tensor y)
{
    return (struct product){.type = type,
                            .y_type = cuda_type(y.type),
                            .tf32 = l->precision == PRECISION_TF32,
                            .rows = y.rows,
                            .out = columns_of(l, y),
                            .in = l->w_in,
                            .x_stride = x_stride,
                            .w_stride = l->w_in,
                            .y_stride = y.stride,
                            .batch = 1,
                            .x = x,
                            .w = l->w,
                            .y = y.data,
                            .alpha = 1.0f};
}

/* x: of the weights' type, already. If cuBLASLt has no epilogue or refuses it, a kernel follows a
 * plain product; cuda_product remembers the refusal. */
static int multiply_by_weights(struct cuda *c, const struct linear *l, struct tensor x,
                               enum epilogue epilogue, struct tensor y, struct err *err)
{
    bool fp8 = x.type == DTYPE_E4M3;
    struct product p = product_of(l, x.data, x.stride, fp8 ? CUDA_R_8F_E4M3 : cuda_type(x.type), y);
    bool activates = epilogue == EPILOGUE_GELU || epilogue == EPILOGUE_RELU;
    int rc;

    p.x_scales = x.scales;
    p.w_scales = fp8 ? l->column_scales : NULL;
    if (!(fp8 && epilogue == EPILOGUE_RELU) &&
        !(epilogue == EPILOGUE_GELU && !fused_gelu(c, y.type))) {
        p.bias = bias_for(l, y.type);
        p.epilogue = epilogue;
        rc = cuda_product(c, &p, "multiplying matrices", err);
        if (rc != ERR_MODEL || (!p.bias && !activates))
            return rc;
    }
    p.bias = NULL;
    p.epilogue = activates ? EPILOGUE_NONE : epilogue;
    rc = cuda_product(c, &p, "multiplying matrices", err);
    if (rc != 0)
        return rc;
    if (activates)
        return apply_bias_activation(c, l, epilogue, y, err);
    return l->bias ? add_bias(c, l, y, err) : 0;
}

/* x in 8 bits, itself or in the scratch memory, behind `before` bytes of it, whose place is *ret.
 */
static int to_8bit(struct cuda *c, const struct linear *l, size_t before, struct tensor *x,
                   void **ret, struct err *err)
{
    size_t rows = (size_t)round_up(x->rows, PAD_8BIT), scales = rows * sizeof(float);
    bool is = x->type == DTYPE_E4M3;
    struct tensor q;
    char *s;
    int rc;

    if (is && before == 0)
        return 0;
    before = (before + 255) / 256 * 256;
    rc = cuda_scratch(c, before + (is ? 0 : scales + rows * (size_t)l->w_in), ret, err);
    if (rc != 0 || is)
        return rc;
    s = (char *)*ret + before;
    q = in_8bit(l, s + scales, (float *)(void *)s, x->rows);
    rc = cuda_status(err, k_quantize_rows(c->work, *x, q), "quantising inputs");
    *x = q;
    return rc;
}

/* By way of sums in the scratch memory, which a kernel scales. */
static int run_sums(struct cuda *c, const struct linear *l, struct tensor x, enum epilogue epilogue,
                    struct tensor y, struct err *err)
{
    bool whole = l->precision == PRECISION_INT8;
    /* int8 computes rows that nobody reads: its kernels want whole sixteens. */
    int64_t rows = whole ? round_up(x.rows, PAD_8BIT) : x.rows;
    struct product p;
    void *sums;
    int rc = to_8bit(c, l, (size_t)(rows * l->w_out) * sizeof(float), &x, &sums, err);

    if (rc != 0)
        return rc;
    p = product_of(l, x.data, x.stride, whole ? CUDA_R_8I : CUDA_R_8F_E4M3, y);
    p.y_type = whole ? CUDA_R_32I : CUDA_R_32F;
    p.rows = rows;
    p.out = l->w_out;
    p.y = sums;
    p.y_stride = l->w_out;
    rc = cuda_product(c, &p, "multiplying matrices of 8 bits", err);
    if (rc != 0)
        return rc;
    return cuda_status(err,
                       k_dequantize(c->work, sums, whole, l->w_out, x.scales, l->column_scales,
                                    l->bias, epilogue, y),
                       "scaling a product of 8 bits");
}

/* Whether cuBLASLt may write y itself. */
static bool can_write_directly(const struct linear *l, struct tensor y)
{
    return l->precision == PRECISION_FP8 && !l->by_sums && l->w_out == l->out &&
           y.stride % 8 == 0 && (uintptr_t)y.data % 16 == 0;
}

/* y: where its 8 bits will be, there are its sums. */
static struct tensor sums_in(struct tensor y)
{
    struct tensor sums = tensor_of(DTYPE_BF16, y.data, y.rows, y.cols);

    sums.stride = y.stride / 2;
    return sums;
}

static int run_fp8(struct cuda *c, const struct linear *l, struct tensor x, enum epilogue epilogue,
                   struct tensor y, struct err *err)
{
    void *unused;
    int rc = to_8bit(c, l, 0, &x, &unused, err);

    return rc != 0 ? rc : multiply_by_weights(c, l, x, epilogue, y, err);
}

/* gelu(r) in 8 bits, r being x W^T + b. */
static int run_to_8bit(struct cuda *c, const struct linear *l, struct tensor x, struct tensor y,
                       struct err *err)
{
    struct tensor sums = sums_in(y);
    int rc = can_write_directly(l, sums) ? run_fp8(c, l, x, EPILOGUE_NONE, sums, err)
                                         : run_sums(c, l, x, EPILOGUE_NONE, sums, err);

    return rc != 0 ? rc : cuda_status(err, k_gelu_rows(c->work, sums, y), "GELU into 8 bits");
}

static int run_linear_layer(struct cuda *c, const struct linear *l, struct tensor x,
                            enum epilogue epilogue, struct tensor y, struct err *err)
{
    if (y.type == DTYPE_E4M3)
        return run_to_8bit(c, l, x, y, err);
    if (can_write_directly(l, y))
        return run_fp8(c, l, x, epilogue, y, err);
    return is_8bit(l) ? run_sums(c, l, x, epilogue, y, err)
                      : multiply_by_weights(c, l, x, epilogue, y, err);
}

/* Exactly ROWS_FIXED rows, of which the first x.rows are x's: into scratch memory, then to y. */
static int run_fixed(struct cuda *c, const struct linear *l, struct tensor x,
                     enum epilogue epilogue, struct tensor y, struct err *err)
{
    size_t inputs = (size_t)round_up(ROWS_FIXED * l->in * (int64_t)dtype_size(x.type), 256);
    struct tensor in, sum;
    struct product p;
    void *s;
    int rc;

    rc = cuda_scratch(c, inputs + (size_t)(ROWS_FIXED * l->w_out) * sizeof(float), &s, err);
    if (rc != 0)
        return rc;
    in = tensor_of(x.type, s, ROWS_FIXED, l->in);
    sum = tensor_of(DTYPE_F32, (char *)s + inputs, ROWS_FIXED, l->w_out);
    rc = cuda_status(err, k_zero(c->work, in), "clearing rows");
    if (rc == 0)
        rc = cuda_status(err, k_copy(c->work, tensor_rows(in, 0, x.rows), x), "copying rows");
    if (rc != 0)
        return rc;
    p = product_of(l, s, l->in, cuda_type(x.type), sum);
    rc = cuda_product(c, &p, "multiplying matrices", err);
    if (rc != 0)
        return rc;
    sum = tensor_rows(sum, 0, x.rows);
    sum.cols = l->out;
    return cuda_status(err, k_epilogue(c->work, sum, l->bias, epilogue, y), "adding the bias");
}

/* Rows of one piece: as many as the scratch memory may have. */
static int64_t piece_rows(const struct cuda *c, const struct linear *l, struct tensor x,
                          struct tensor y)
{
    bool sums = is_8bit(l) && !can_write_directly(l, y.type == DTYPE_E4M3 ? sums_in(y) : y);
    int64_t piece;

    /* Sums of int8 are exact: nothing shows in them. */
    if (c->deterministic && l->precision != PRECISION_INT8)
        return l->use == LINEAR_ROWS ? ROWS_FIXED : x.rows % l->rows == 0 ? l->rows : x.rows;
    if (!is_8bit(l) || (x.type == DTYPE_E4M3 && !sums))
        return x.rows;
    piece = PIECE_BYTES / (sums ? l->w_out * (int64_t)sizeof(float) : l->w_in);
    /* Whole windows, where the weights were made for them. */
    if (piece > l->rows)
        piece -= piece % l->rows;
    return piece < PAD_8BIT ? PAD_8BIT : piece;
}

static bool has_linear_shapes(const struct linear *l, struct tensor x, enum epilogue epilogue,
                              struct tensor y)
{
    enum dtype type = precision_type(l->precision);
    bool fp8 = l->precision == PRECISION_FP8;

    if (x.cols != l->in || y.cols != l->out || x.rows != y.rows || x.rows < 1 ||
        x.stride < x.cols || y.stride < y.cols)
        return false;
    if (x.type != type && !(fp8 && cuda_is_e4m3(&x)))
        return false;
    return y.type == DTYPE_F32 || y.type == type ||
           (fp8 && cuda_is_e4m3(&y) && epilogue == EPILOGUE_GELU && y.stride >= 2 * y.cols &&
            y.cols <= BACKEND_MAX_E4M3);
}

int cuda_linear(struct backend *be, struct linear *l, struct tensor x, enum epilogue epilogue,
                struct tensor y, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int rc = 0;

    if (!has_linear_shapes(l, x, epilogue, y) || epilogue == EPILOGUE_ADD_RELU)
        return cuda_shape(err, "linear");
    for (int64_t r = 0; r < x.rows && rc == 0;) {
        int64_t n = least(piece_rows(c, l, x, y), x.rows - r);
        struct tensor some_x = tensor_rows(x, r, n), some_y = tensor_rows(y, r, n);

        if (c->deterministic && l->use == LINEAR_ROWS && l->precision != PRECISION_INT8)
            rc = run_fixed(c, l, some_x, epilogue, some_y, err);
        else
            rc = run_linear_layer(c, l, some_x, epilogue, some_y, err);
        if (rc == ERR_MODEL && l->precision == PRECISION_FP8 && !l->by_sums) {
            l->by_sums = true; /* nothing was touched: once more, the other way */
            rc = 0;
        } else {
            r += n;
        }
    }
    return rc;
}
