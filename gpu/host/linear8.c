/* y = x W^T + b in integers of 8 bits (VNNI), wide ones and those of few rows alike.
 *
 * Symmetric: a weight is its number times its output's scale, a value of x its number times its
 * row's, the largest magnitude being 127; what is added up is exact and is scaled once, with bias
 * and epilogue. Rows are rounded as they come: a hundredth of the time of a wide product. */
#include "gpu/host/host.h"

#include <math.h>
#include <omp.h>

#define MOST_INPUTS 65536 /* 255 * 127 times that is below 2^31 */
/* Rows that are taken through all weights together: with 3,072 inputs a quarter of a megabyte,
 * which stays in a second-level cache while the weights pass by. */
#define GROUP 96

/* One output's weights; false: one is no number. */
static bool pack_output(struct weights8 *l, int64_t o, const float *w, int64_t in)
{
    int64_t column = o % KERNEL_COLUMNS;
    uint8_t *to = l->w + (o - column) * l->in + column * 4;
    float most = 0;

    for (int64_t i = 0; i < in; i++) {
        if (!isfinite(w[i]))
            return false;
        most = fabsf(w[i]) > most ? fabsf(w[i]) : most;
    }
    l->scales[o] = most / 127.0f;
    for (int64_t i = 0; i < l->in; i++) {
        float value = i < in && most > 1e-30f ? w[i] * (127.0f / most) : 0.0f;

        to[i / 4 * 4 * KERNEL_COLUMNS + i % 4] = (uint8_t)(128 + lrintf(value));
    }
    return true;
}

static bool pack_int8_weights(const struct host *h, struct weights8 *l, const float *w, int64_t in)
{
    bool numbers = true;

#pragma omp parallel for schedule(static) num_threads(h->threads) reduction(&& : numbers)
    for (int64_t o = 0; o < l->out; o++)
        numbers = pack_output(l, o, w + o * in, in) && numbers;
    return numbers;
}

int host_weights8_new(struct backend *be, int64_t out, int64_t in, const float *w,
                      const float *bias, struct weights8 *ret, struct err *err)
{
    struct weights8 l = {.out = out,
                         .in = (in + KERNEL_INPUTS - 1) / KERNEL_INPUTS * KERNEL_INPUTS};
    size_t columns = (size_t)host_blocks(out) * KERNEL_COLUMNS;
    void *p = NULL, *q = NULL;
    int rc;

    if (in > MOST_INPUTS)
        return err_set(err, ERR_MODEL, "a product of 8 bits has at most %d inputs, not %lld",
                       MOST_INPUTS, (long long)in);
    rc = host_alloc(be, columns * (size_t)l.in, &p, err);
    if (rc == 0)
        rc = host_alloc(be, 2 * columns * sizeof(float), &q, err);
    l.w = p;
    l.scales = q;
    if (rc == 0) {
        l.bias = l.scales + columns;
        if (bias)
            memcpy(l.bias, bias, (size_t)out * sizeof(float));
        if (!pack_int8_weights(host_of(be), &l, w, in))
            rc = err_set(err, ERR_MODEL, "a weight is no number");
    }
    if (rc != 0) {
        host_weights8_free(be, &l);
        return rc;
    }
    *ret = l;
    return 0;
}

void host_weights8_free(struct backend *be, struct weights8 *l)
{
    host_release(be, l->w);
    host_release(be, l->scales);
    *l = (struct weights8){0};
}

/* Rows [from, from + rows) through one block of outputs. */
static void multiply_output_block(const struct host *h, const struct weights8 *l, int64_t b,
                                  const int8_t *x, const struct row8 *x8, int64_t from,
                                  int64_t rows, enum epilogue epilogue, struct tensor y)
{
    int64_t first = b * KERNEL_COLUMNS, left = l->out - first;
    struct tensor to = tensor_rows(tensor_columns(y, first, y.cols - first), from, rows);
    struct row_job job = {
        .x = x + from * l->in,
        .x8 = x8 + from,
        .scales = l->scales + first,
        .x_stride = (size_t)l->in,
        .rows = (size_t)rows,
        .in = (size_t)l->in,
        .w = l->w + first * l->in,
        .bias = l->bias + first,
        .epilogue = epilogue,
        .y = to.data,
        .y_stride = (size_t)y.stride,
        .columns = (size_t)(left < KERNEL_COLUMNS ? left : KERNEL_COLUMNS),
        .y_bf16 = y.type == DTYPE_BF16,
    };

    h->kernels->rows_i8(&job);
}

int host_linear8(struct host *h, const struct weights8 *l, struct tensor x, enum epilogue epilogue,
                 struct tensor y, struct err *err)
{
    int64_t blocks = host_blocks(l->out), groups = (x.rows + GROUP - 1) / GROUP;
    size_t of_rows = (size_t)x.rows * sizeof(struct row8);
    size_t touched = (size_t)((l->out + x.rows) * l->in + x.rows * l->out);
    struct row8 *x8;
    int8_t *x_i8;
    int rc = host_grow(h, &h->scratch, &h->scratch_bytes, of_rows + (size_t)(x.rows * l->in), err);

    if (rc != 0 || h->base.rehearsing)
        return rc;
    x8 = h->scratch;
    x_i8 = (int8_t *)h->scratch + of_rows;
#pragma omp parallel num_threads(host_threads(h, touched))
    {
#pragma omp for schedule(static)
        for (int64_t r = 0; r < x.rows; r++)
            h->kernels->to_i8(tensor_rows(x, r, 1).data, x.type == DTYPE_BF16, (size_t)x.cols,
                              x_i8 + r * l->in, &x8[r]);
#pragma omp for schedule(dynamic, 4)
        for (int64_t i = 0; i < groups * blocks; i++) {
            int64_t from = i / blocks * GROUP, left = x.rows - from;

            multiply_output_block(h, l, i % blocks, x_i8, x8, from, left < GROUP ? left : GROUP,
                                  epilogue, y);
        }
    }
    return 0;
}
