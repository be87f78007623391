/* y = x W^T + b whose rows do not depend on each other: weights packed for kernels/rows.c. The
 * linear layers of a decoder step, convolutions of short windows and the LSTM are made of it. */
#include "gpu/host/host.h"

#include <omp.h>

/* The float16 that is exactly f; false when there is none. */
static bool f16_exactly(float f, uint16_t *ret)
{
    uint32_t bits, sign, size, shift;

    memcpy(&bits, &f, sizeof(bits));
    sign = bits >> 16 & 0x8000u;
    size = bits & 0x7fffffffu;
    if (size == 0) {
        *ret = (uint16_t)sign;
        return true;
    }
    if (size >= 0x47800000u || size < 0x33800000u) /* 65536, 2^-24 */
        return false;
    if (size >= 0x38800000u) { /* 2^-14: a normal one */
        *ret = (uint16_t)(sign | (size - 0x38000000u) >> 13);
        return (size & 0x1fffu) == 0;
    }
    shift = 126 - (size >> 23);
    size = (size & 0x7fffffu) | 0x800000u;
    *ret = (uint16_t)(sign | size >> shift);
    return (size & ((1u << shift) - 1)) == 0;
}

/* Outputs [first, first + count) of w, whose rows have `in` values. False: as DTYPE_F16 some of
 * them lose something. */
static bool pack_block(const struct host *h, struct row_weights *l, int64_t first, int64_t count,
                       const float *w, int64_t in)
{
    int64_t at = first * l->in;
    bool exact = true;

    if (l->kept == DTYPE_F16 && count == KERNEL_COLUMNS && in % 8 == 0)
        return h->kernels->pack_f16(w + first * in, (size_t)in, (uint16_t *)l->w + at);
    for (int64_t i = 0; i < in; i++) {
        for (int64_t c = 0; c < count; c++) {
            float value = w[(first + c) * in + i];
            int64_t place = at + i * KERNEL_COLUMNS + c;

            if (l->kept == DTYPE_F16)
                exact &= f16_exactly(value, &((uint16_t *)l->w)[place]);
            else if (l->kept == DTYPE_BF16)
                ((uint16_t *)l->w)[at + i / 2 * 64 + c * 2 + i % 2] = f32_to_bf16(value);
            else
                ((float *)l->w)[place] = value;
        }
    }
    return exact;
}

static bool pack_row_weights(const struct host *h, struct row_weights *l, const float *w,
                             int64_t in)
{
    int64_t blocks = host_blocks(l->out);
    bool exact = true;

    omp_set_num_threads(h->threads);
#pragma omp parallel for schedule(static) reduction(&& : exact)
    for (int64_t b = 0; b < blocks; b++) {
        int64_t first = b * KERNEL_COLUMNS, left = l->out - first;

        if (exact) /* of this thread's blocks; what is not kept need not be packed */
            exact = pack_block(h, l, first, left < KERNEL_COLUMNS ? left : KERNEL_COLUMNS, w, in);
    }
    return exact;
}

/* Packs the weights as type `kept`. *exact: nothing was lost by that; else there are no weights. */
static int keep_as(struct host *h, struct row_weights *l, enum dtype kept, const float *w,
                   int64_t in, bool *exact, struct err *err)
{
    size_t count = (size_t)(host_blocks(l->out) * KERNEL_COLUMNS * l->in);
    int rc;

    l->kept = kept;
    rc = host_alloc(&h->base, count * dtype_size(kept), &l->w, err);
    if (rc != 0)
        return rc;
    *exact = pack_row_weights(h, l, w, in);
    if (!*exact) {
        host_release(&h->base, l->w);
        l->w = NULL;
    }
    return 0;
}

int host_rows_new(struct backend *be, enum dtype type, bool narrow, int64_t out, int64_t in,
                  const float *w, const float *bias, struct row_weights *ret, struct err *err)
{
    struct host *h = host_of(be);
    struct row_weights l = {.type = type, .out = out, .in = type == DTYPE_BF16 ? in + in % 2 : in};
    bool exact = false;
    void *p = NULL;
    int rc = host_alloc(be, (size_t)(host_blocks(out) * KERNEL_COLUMNS) * sizeof(float), &p, err);

    if (rc != 0)
        return rc;
    l.bias = p;
    if (bias)
        memcpy(l.bias, bias, (size_t)out * sizeof(float));
    if (narrow && type == DTYPE_F32 && h->kernels->rows_f16)
        rc = keep_as(h, &l, DTYPE_F16, w, in, &exact, err);
    if (rc == 0 && !exact)
        rc = keep_as(h, &l, type, w, in, &exact, err);
    if (rc != 0) {
        host_release(be, l.bias);
        return rc;
    }
    *ret = l;
    return 0;
}

void host_rows_free(struct backend *be, struct row_weights *l)
{
    host_release(be, l->w);
    host_release(be, l->bias);
    *l = (struct row_weights){0};
}

int64_t host_rows_blocks(const struct row_weights *l) { return host_blocks(l->out); }

void host_rows_block(const struct host *h, const struct row_weights *l, int64_t block,
                     struct tensor x, enum epilogue epilogue, struct tensor y)
{
    int64_t first = block * KERNEL_COLUMNS, left = l->out - first;
    struct row_job job = {
        .x = x.data,
        .x_stride = (size_t)x.stride,
        .rows = (size_t)x.rows,
        .in = (size_t)l->in,
        .w = (const char *)l->w + (size_t)(first * l->in) * dtype_size(l->kept),
        .bias = l->bias + first,
        .epilogue = epilogue,
        .y = (char *)y.data + (size_t)first * dtype_size(y.type),
        .y_stride = (size_t)y.stride,
        .columns = (size_t)(left < KERNEL_COLUMNS ? left : KERNEL_COLUMNS),
        .y_bf16 = y.type == DTYPE_BF16,
    };

    if (l->type == DTYPE_BF16)
        h->kernels->rows_bf16(&job);
    else if (l->kept == DTYPE_F16)
        h->kernels->rows_f16(&job);
    else
        h->kernels->rows_f32(&job);
}
