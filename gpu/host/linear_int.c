/* y = x W^T + b in integers of 8 or 16 bits, wide products and those of few rows alike.
 *
 * Both are symmetric. In 8 bits a weight is its number times its output's scale and a value of x
 * its number times its row's, the largest magnitude being 127. In 16 bits there is a scale for
 * every 64 inputs of an output and of a row; 13 bits of a weight and 14 of a value with their signs
 * are what sums of 64 products in 32 bits leave room for, and err as little as float16. What is
 * added up is exact and is scaled afterwards, with bias and epilogue. Rows are rounded as they
 * come: a hundredth of the time of a wide product. */
#include "gpu/host/host.h"

#include <math.h>
#include <omp.h>

#define MOST_INPUTS 65536 /* 255 * 127 times that is below 2^31 */
/* Rows that are taken through all weights together: with 3,072 inputs of 8 bits a quarter of a
 * megabyte, which stays in a second-level cache while the weights pass by. */
#define GROUP 96
/* Below this nothing is seen of a row, and the inverse of its scale would not be a number. */
#define LEAST 1e-30f

/* The largest magnitude of w [n]; NaN: one is no number. */
static float find_largest(const float *w, int64_t n)
{
    float most = 0;

    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(w[i]))
            return NAN;
        most = fabsf(w[i]) > most ? fabsf(w[i]) : most;
    }
    return most;
}

/* Packs one output's weights; false: one is no number. */
static bool pack_output8(struct int_weights *l, int64_t o, const float *w, int64_t in)
{
    int64_t column = o % KERNEL_COLUMNS;
    uint8_t *to = (uint8_t *)l->w + (o - column) * l->in + column * 4;
    float most = find_largest(w, in);

    if (isnan(most))
        return false;
    l->scales[o] = most / 127.0f;
    for (int64_t i = 0; i < l->in; i++) {
        float value = i < in && most > LEAST ? w[i] * (127.0f / most) : 0.0f;

        to[i / 4 * 4 * KERNEL_COLUMNS + i % 4] = (uint8_t)(128 + lrintf(value));
    }
    return true;
}

static bool pack_output16(struct int_weights *l, int64_t o, const float *w, int64_t in)
{
    int64_t column = o % KERNEL_COLUMNS, first = o - column;
    int16_t *to = (int16_t *)l->w + first * l->in + column * 2;
    float *scales = l->scales + first * (l->in / KERNEL_SPAN) + column;

    for (int64_t from = 0; from < l->in; from += KERNEL_SPAN) {
        int64_t n = in - from < KERNEL_SPAN ? in - from : KERNEL_SPAN;
        float most = find_largest(w + from, n);

        if (isnan(most))
            return false;
        scales[from / KERNEL_SPAN * KERNEL_COLUMNS] = most / KERNEL_WEIGHT16;
        for (int64_t i = from; i < from + KERNEL_SPAN; i++) {
            float value = i < in && most > LEAST ? w[i] * (KERNEL_WEIGHT16 / most) : 0.0f;

            to[i / 2 * 2 * KERNEL_COLUMNS + i % 2] = (int16_t)lrintf(value);
        }
    }
    return true;
}

static bool pack_weights(const struct host *h, struct int_weights *l, const float *w, int64_t in)
{
    bool (*pack)(struct int_weights *, int64_t, const float *, int64_t) =
        l->bytes == 1 ? pack_output8 : pack_output16;
    bool numbers = true;

#pragma omp parallel for schedule(static) num_threads(h->threads) reduction(&& : numbers)
    for (int64_t o = 0; o < l->out; o++)
        numbers = pack(l, o, w + o * in, in) && numbers;
    return numbers;
}

/* Scales of an output. */
static int64_t count_scales(const struct int_weights *l)
{
    return l->bytes == 1 ? 1 : l->in / KERNEL_SPAN;
}

int host_int_weights_new(struct backend *be, uint32_t bytes, int64_t out, int64_t in,
                         const float *w, const float *bias, struct int_weights *ret,
                         struct err *err)
{
    int64_t step = bytes == 1 ? KERNEL_INPUTS : KERNEL_SPAN;
    struct int_weights l = {.bytes = bytes, .out = out, .in = (in + step - 1) / step * step};
    size_t columns = (size_t)host_blocks(out) * KERNEL_COLUMNS;
    size_t scales = columns * (size_t)count_scales(&l);
    void *p = NULL, *q = NULL;
    int rc;

    if (in > MOST_INPUTS)
        return err_set(err, ERR_MODEL, "a product of %u bits has at most %d inputs, not %lld",
                       8 * bytes, MOST_INPUTS, (long long)in);
    rc = host_alloc(be, columns * (size_t)l.in * bytes, &p, err);
    if (rc == 0)
        rc = host_alloc(be, (scales + columns) * sizeof(float), &q, err);
    l.w = p;
    l.scales = q;
    if (rc == 0) {
        l.bias = l.scales + scales;
        if (bias)
            memcpy(l.bias, bias, (size_t)out * sizeof(float));
        if (!pack_weights(host_of(be), &l, w, in))
            rc = err_set(err, ERR_MODEL, "a weight is no number");
    }
    if (rc != 0) {
        host_int_weights_free(be, &l);
        return rc;
    }
    *ret = l;
    return 0;
}

void host_int_weights_free(struct backend *be, struct int_weights *l)
{
    host_release(be, l->w);
    host_release(be, l->scales);
    *l = (struct int_weights){0};
}

/* The rows of x as integers, and what scales them: struct row8 of each, or count_scales() floats.
 */
struct int_rows {
    void *x;
    void *scales;
    size_t scale_bytes; /* of a row */
};

/* Multiplies rows [from, from + rows) by one block of outputs. */
static void multiply_output_block(const struct host *h, const struct int_weights *l, int64_t b,
                                  const struct int_rows *x, int64_t from, int64_t rows,
                                  enum epilogue epilogue, struct tensor y)
{
    int64_t first = b * KERNEL_COLUMNS, left = l->out - first;
    struct tensor to = tensor_rows(tensor_columns(y, first, y.cols - first), from, rows);
    struct row_job job = {
        .x = (const char *)x->x + from * l->in * l->bytes,
        .x_scales = (const char *)x->scales + (size_t)from * x->scale_bytes,
        .scales = l->scales + first * count_scales(l),
        .x_stride = (size_t)l->in,
        .rows = (size_t)rows,
        .in = (size_t)l->in,
        .w = (const char *)l->w + first * l->in * l->bytes,
        .bias = l->bias + first,
        .epilogue = epilogue,
        .y = to.data,
        .y_stride = (size_t)y.stride,
        .columns = (size_t)(left < KERNEL_COLUMNS ? left : KERNEL_COLUMNS),
        .y_bf16 = y.type == DTYPE_BF16,
    };

    if (l->bytes == 1)
        h->kernels->rows_i8(&job);
    else
        h->rows_i16(&job);
}

static void round_row(const struct host *h, const struct int_weights *l, struct tensor x, int64_t r,
                      const struct int_rows *to)
{
    const void *from = tensor_rows(x, r, 1).data;
    void *scales = (char *)to->scales + (size_t)r * to->scale_bytes;
    void *out = (char *)to->x + r * l->in * l->bytes;

    if (l->bytes == 1)
        h->kernels->to_i8(from, x.type == DTYPE_BF16, (size_t)x.cols, out, scales);
    else
        h->kernels->to_i16(from, (size_t)x.cols, out, scales);
}

int host_linear_int(struct host *h, const struct int_weights *l, struct tensor x,
                    enum epilogue epilogue, struct tensor y, struct err *err)
{
    int64_t group = GROUP / l->bytes;
    int64_t blocks = host_blocks(l->out), groups = (x.rows + group - 1) / group;
    struct int_rows rows = {.scale_bytes = l->bytes == 1 ? sizeof(struct row8)
                                                         : (size_t)count_scales(l) * sizeof(float)};
    size_t scales = (size_t)x.rows * rows.scale_bytes;
    size_t touched = (size_t)((l->out + x.rows) * l->in * l->bytes + x.rows * l->out);
    int rc = host_grow(h, &h->scratch, &h->scratch_bytes,
                       scales + (size_t)(x.rows * l->in * l->bytes), err);

    if (rc != 0 || h->base.rehearsing)
        return rc;
    rows.scales = h->scratch;
    rows.x = (char *)h->scratch + scales;
#pragma omp parallel num_threads(host_threads(h, touched))
    {
#pragma omp for schedule(static)
        for (int64_t r = 0; r < x.rows; r++)
            round_row(h, l, x, r, &rows);
#pragma omp for schedule(dynamic, 4)
        for (int64_t i = 0; i < groups * blocks; i++) {
            int64_t from = i / blocks * group, left = x.rows - from;

            multiply_output_block(h, l, i % blocks, &rows, from, left < group ? left : group,
                                  epilogue, y);
        }
    }
    return 0;
}
