/* y = x W^T + b whose rows do not depend on each other: weights packed for kernels/rows.c. The
 * linear layers of a decoder step, convolutions of short windows and the LSTM are made of it. */
#include "gpu/host/host.h"

#include <omp.h>

static int64_t blocks_of(int64_t out) { return (out + KERNEL_COLUMNS - 1) / KERNEL_COLUMNS; }

static void pack(struct row_weights *l, const float *w, int64_t in)
{
    int64_t blocks = blocks_of(l->out);

#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < blocks; b++) {
        for (int64_t c = 0; c < KERNEL_COLUMNS && b * KERNEL_COLUMNS + c < l->out; c++) {
            const float *row = w + (b * KERNEL_COLUMNS + c) * in;

            for (int64_t i = 0; i < in; i++)
                if (l->type == DTYPE_BF16)
                    ((uint16_t *)l->w)[b * KERNEL_COLUMNS * l->in + i / 2 * 64 + c * 2 + i % 2] =
                        f32_to_bf16(row[i]);
                else
                    ((float *)l->w)[(b * l->in + i) * KERNEL_COLUMNS + c] = row[i];
        }
    }
}

int host_rows_new(struct backend *be, enum dtype type, int64_t out, int64_t in, const float *w,
                  const float *bias, struct row_weights *ret, struct err *err)
{
    struct row_weights l = {.type = type, .out = out, .in = type == DTYPE_BF16 ? in + in % 2 : in};
    int64_t blocks = blocks_of(out);
    void *p = NULL;
    int rc = host_alloc(be, (size_t)(blocks * KERNEL_COLUMNS) * sizeof(float), &p, err);

    if (rc != 0)
        return rc;
    l.bias = p;
    if (bias)
        memcpy(l.bias, bias, (size_t)out * sizeof(float));
    rc = host_alloc(be, (size_t)(blocks * KERNEL_COLUMNS * l.in) * dtype_size(type), &l.w, err);
    if (rc != 0) {
        host_release(be, l.bias);
        return rc;
    }
    omp_set_num_threads(host_of(be)->threads);
    pack(&l, w, in);
    *ret = l;
    return 0;
}

void host_rows_free(struct backend *be, struct row_weights *l)
{
    host_release(be, l->w);
    host_release(be, l->bias);
    *l = (struct row_weights){0};
}

int64_t host_rows_blocks(const struct row_weights *l) { return blocks_of(l->out); }

void host_rows_block(const struct host *h, const struct row_weights *l, int64_t block,
                     struct tensor x, enum epilogue epilogue, struct tensor y)
{
    int64_t first = block * KERNEL_COLUMNS, left = l->out - first;
    struct row_job job = {
        .x = x.data,
        .x_stride = (size_t)x.stride,
        .rows = (size_t)x.rows,
        .in = (size_t)l->in,
        .w = (const char *)l->w + (size_t)(first * l->in) * dtype_size(l->type),
        .bias = l->bias + first,
        .epilogue = epilogue,
        .y = (char *)y.data + (size_t)first * dtype_size(y.type),
        .y_stride = (size_t)y.stride,
        .columns = (size_t)(left < KERNEL_COLUMNS ? left : KERNEL_COLUMNS),
        .y_bf16 = y.type == DTYPE_BF16,
    };

    if (l->type == DTYPE_BF16)
        h->kernels->rows_bf16(&job);
    else
        h->kernels->rows_f32(&job);
}
