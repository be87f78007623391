#include "workers/models/files/weight.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/tensor.h"

void weight_set_contiguous(struct weight *w)
{
    uint64_t step = 1;

    for (uint32_t i = w->rank; i-- > 0;) {
        w->stride[i] = step;
        step *= w->dim[i] ? w->dim[i] : 1; /* an empty one has no elements to reach */
    }
}

/* A dimension of one is at its only place whatever its stride says. */
static bool is_contiguous(const struct weight *w)
{
    uint64_t step = 1;

    for (uint32_t i = w->rank; i-- > 0;) {
        if (w->dim[i] != 1 && w->stride[i] != step)
            return false;
        step *= w->dim[i];
    }
    return true;
}

static size_t size_of(enum weight_type type)
{
    return type == WEIGHT_F64 ? 8 : type == WEIGHT_F32 ? 4 : type == WEIGHT_I8 ? 1 : 2;
}

void weight_rows(const struct weight *w, uint64_t first, uint64_t n, struct weight *ret)
{
    *ret = *w;
    ret->dim[0] = n;
    ret->count = w->dim[0] ? w->count / w->dim[0] * n : 0;
    if (w->count)
        ret->data = (const uint8_t *)w->data + (size_t)(first * w->stride[0]) * size_of(w->type);
    if (w->scale_rows)
        ret->scale = (const uint8_t *)w->scale + (size_t)first * size_of(w->scale_type);
}

/* n elements, `stride` apart. */
static void read_run(enum weight_type type, const uint8_t *p, uint64_t stride, uint64_t n,
                     float *out)
{
    size_t step = (size_t)stride * size_of(type);
    uint16_t half;
    double wide;

    if (type == WEIGHT_F32 && stride == 1) {
        memcpy(out, p, (size_t)n * 4);
        return;
    }
    if (type == WEIGHT_F16 && stride == 1) { /* most of what is read: many at a time */
        for (uint64_t i = 0; i < n; i++) {
            memcpy(&half, p + 2 * i, 2);
            out[i] = f16_to_f32(half);
        }
        return;
    }
    for (uint64_t i = 0; i < n; i++, p += step) {
        switch (type) {
        case WEIGHT_F32:
            memcpy(&out[i], p, 4);
            break;
        case WEIGHT_F64:
            memcpy(&wide, p, 8);
            out[i] = (float)wide;
            break;
        default:
            memcpy(&half, p, 2);
            out[i] = type == WEIGHT_F16 ? f16_to_f32(half) : bf16_to_f32(half);
        }
    }
}

/* Row after row of the last dimension; `at` counts through the others. */
static void gather_weight_values(const struct weight *w, float *out)
{
    uint64_t at[WEIGHT_MAX_RANK] = {0}, run = w->dim[w->rank - 1];

    for (uint64_t done = 0; done < w->count; done += run) {
        uint64_t offset = 0;

        for (uint32_t i = 0; i + 1 < w->rank; i++)
            offset += at[i] * w->stride[i];
        read_run(w->type, (const uint8_t *)w->data + offset * size_of(w->type),
                 w->stride[w->rank - 1], run, out + done);
        for (uint32_t i = w->rank - 1; i-- > 0;) {
            if (++at[i] < w->dim[i])
                break;
            at[i] = 0;
        }
    }
}

static void read_blocks(const struct weight *w, float *out)
{
    const uint8_t *p = w->data;

    for (uint64_t i = 0; i < w->count; i += w->blocks->values, p += w->blocks->bytes)
        w->blocks->unpack(p, out + i);
}

/* Rows of integers, each divided by its scale. */
static int read_scaled(const struct weight *w, float *out, struct err *err)
{
    uint64_t rows = w->scale_rows ? w->dim[0] : 1, run = w->count / rows;
    const uint8_t *p = w->data, *scales = w->scale;
    int16_t wide;
    float scale;

    for (uint64_t r = 0; r < rows; r++) {
        read_run(w->scale_type, scales + r * size_of(w->scale_type), 1, 1, &scale);
        if (!isfinite(scale) || scale == 0.0f)
            return err_set(err, ERR_MODEL, "tensor '%.200s' has a scale that is no scale", w->name);
        for (uint64_t i = 0; i < run; i++, p += size_of(w->type)) {
            wide = (int8_t)*p;
            if (w->type == WEIGHT_I16)
                memcpy(&wide, p, 2);
            *out++ = (float)wide / scale;
        }
    }
    return 0;
}

static int read_plain(const struct weight *w, float *out, struct err *err)
{
    if (w->type == WEIGHT_OTHER)
        return err_set(err, ERR_MODEL, "tensor '%.200s' is of type %s, not F32, F16, BF16 or F64",
                       w->name, w->type_name);
    if (w->count == 0)
        return 0;
    if (w->blocks) {
        read_blocks(w, out);
        return 0;
    }
    if (w->scale)
        return read_scaled(w, out, err);
    if (is_contiguous(w))
        read_run(w->type, w->data, 1, w->count, out);
    else
        gather_weight_values(w, out);
    return 0;
}

/* out: [rows][cols]; row: [cols] for one row of the product. */
static void add_product(const struct weight_delta *d, const float *a, const float *b, float *row,
                        uint64_t cols, float *out)
{
    uint64_t rows = d->b.dim[0], rank = d->a.dim[0];

    for (uint64_t i = 0; i < rows; i++, out += cols, b += rank) {
        memset(row, 0, (size_t)cols * sizeof(*row));
        for (uint64_t k = 0; k < rank; k++)
            for (uint64_t j = 0; j < cols; j++)
                row[j] += b[k] * a[k * cols + j];
        for (uint64_t j = 0; j < cols; j++)
            out[j] += d->factor * row[j];
    }
}

static int add_delta(const struct weight *w, float *out, struct err *err)
{
    const struct weight_delta *d = w->delta;
    uint64_t cols = w->count / w->dim[0];
    float *a = malloc((size_t)d->a.count * sizeof(*a));
    float *b = malloc((size_t)d->b.count * sizeof(*b));
    float *row = malloc((size_t)cols * sizeof(*row));
    int rc = a && b && row ? 0 : err_set(err, ERR_NOMEM, "out of memory for an adapter");

    if (rc == 0)
        rc = read_plain(&d->a, a, err);
    if (rc == 0)
        rc = read_plain(&d->b, b, err);
    if (rc == 0)
        add_product(d, a, b, row, cols, out);
    free(a);
    free(b);
    free(row);
    return rc;
}

int weight_read(const struct weight *w, float *out, struct err *err)
{
    int rc = read_plain(w, out, err);

    return rc == 0 && w->delta && w->count ? add_delta(w, out, err) : rc;
}
