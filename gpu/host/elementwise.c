/* Copies between types, layer norm, sums and embeddings: bound by memory, one pass each. */
#include "gpu/host/host.h"

#include <omp.h>

/* Below this many values one thread is faster than waking the others. */
#define PARALLEL_FROM 32768

static float get_value(struct tensor t, int64_t row, int64_t col)
{
    size_t at = (size_t)(row * t.stride + col);

    if (t.type == DTYPE_F32)
        return ((const float *)t.data)[at];
    if (t.type == DTYPE_BF16)
        return bf16_to_f32(((const uint16_t *)t.data)[at]);
    return f16_to_f32(((const uint16_t *)t.data)[at]);
}

static void *row_of(struct tensor t, int64_t row)
{
    return (char *)t.data + (size_t)(row * t.stride) * dtype_size(t.type);
}

int host_copy(struct backend *be, struct tensor dst, struct tensor src, struct err *err)
{
    struct host *h = host_of(be);

    if (dst.rows != src.rows || dst.cols != src.cols || dst.type == DTYPE_F16 ||
        (src.rows > 1 && src.stride < 1))
        return host_shape(err, "copy");
#pragma omp parallel for schedule(static) \
    num_threads(h->threads) if (dst.rows > 1 && dst.rows * dst.cols > PARALLEL_FROM)
    for (int64_t r = 0; r < dst.rows; r++) {
        void *to = row_of(dst, r);
        const void *from = row_of(src, r);

        if (dst.type == src.type) {
            memcpy(to, from, (size_t)dst.cols * dtype_size(dst.type));
        } else if (dst.type == DTYPE_BF16 && src.type == DTYPE_F32) {
            h->kernels->to_bf16(to, from, (size_t)dst.cols);
        } else {
            for (int64_t c = 0; c < dst.cols; c++) {
                float value = get_value(src, r, c);

                if (dst.type == DTYPE_F32)
                    ((float *)to)[c] = value;
                else
                    ((uint16_t *)to)[c] = f32_to_bf16(value);
            }
        }
    }
    return 0;
}

int host_put(struct backend *be, struct tensor dst, const float *src, struct err *err)
{
    /* The view is only read. */
    return host_copy(be, dst, tensor_of(DTYPE_F32, (void *)(uintptr_t)src, dst.rows, dst.cols),
                     err);
}

int host_get(struct backend *be, float *dst, struct tensor src, struct err *err)
{
    return host_copy(be, tensor_of(DTYPE_F32, dst, src.rows, src.cols), src, err);
}

int host_layer_norm(struct backend *be, struct tensor x, struct tensor gamma, struct tensor beta,
                    float epsilon, struct tensor y, struct err *err)
{
    struct host *h = host_of(be);

    if (x.type != DTYPE_F32 || y.rows != x.rows || y.cols != x.cols || y.type == DTYPE_F16 ||
        gamma.type != DTYPE_F32 || beta.type != DTYPE_F32 || gamma.cols != x.cols ||
        beta.cols != x.cols || !(epsilon > 0.0f))
        return host_shape(err, "layer_norm");
#pragma omp parallel for schedule(static) \
    num_threads(h->threads) if (x.rows * x.cols > PARALLEL_FROM)
    for (int64_t r = 0; r < x.rows; r++)
        h->kernels->norm(row_of(x, r), gamma.data, beta.data, (size_t)x.cols, epsilon, row_of(y, r),
                         y.type == DTYPE_BF16);
    return 0;
}

int host_add(struct backend *be, struct tensor y, struct tensor x, struct err *err)
{
    struct host *h = host_of(be);

    if (x.type != DTYPE_F32 || y.type != DTYPE_F32 || x.rows < 1 || x.cols != y.cols)
        return host_shape(err, "add");
#pragma omp parallel for schedule(static) \
    num_threads(h->threads) if (y.rows * y.cols > PARALLEL_FROM)
    for (int64_t r = 0; r < y.rows; r++) {
        float *a = row_of(y, r);
        const float *b = row_of(x, r % x.rows);

        for (int64_t c = 0; c < x.cols; c++)
            a[c] += b[c];
    }
    return 0;
}

int host_magnitude(struct backend *be, struct tensor x, struct tensor y, struct err *err)
{
    struct host *h = host_of(be);

    if (x.type != DTYPE_F32 || y.type != DTYPE_F32 || y.cols < 1 || x.cols != 2 * y.cols ||
        x.rows != y.rows)
        return host_shape(err, "magnitude");
#pragma omp parallel for schedule(static) \
    num_threads(h->threads) if (x.rows * x.cols > PARALLEL_FROM)
    for (int64_t r = 0; r < x.rows; r++) {
        const float *re = row_of(x, r), *im = re + y.cols;
        float *out = row_of(y, r);

        for (int64_t i = 0; i < y.cols; i++)
            out[i] = __builtin_sqrtf(re[i] * re[i] + im[i] * im[i]);
    }
    return 0;
}

int host_embed(struct backend *be, struct tensor table, struct tensor positions,
               const struct token_row *rows, struct tensor y, struct err *err)
{
    (void)be;
    if (table.cols != y.cols || positions.cols != y.cols || y.type != DTYPE_F32)
        return host_shape(err, "embed");
    for (int64_t r = 0; r < y.rows; r++)
        if (rows[r].token < 0 || rows[r].token >= table.rows || rows[r].pos < 0 ||
            rows[r].pos >= positions.rows)
            return host_shape(err, "embed");
    for (int64_t r = 0; r < y.rows; r++) {
        float *out = row_of(y, r);

        for (int64_t c = 0; c < y.cols; c++)
            out[c] = get_value(table, rows[r].token, c) + get_value(positions, rows[r].pos, c);
    }
    return 0;
}
