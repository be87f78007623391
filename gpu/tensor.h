/* gpu/tensor.h - number types, and the one shape that the operations know: a matrix.
 *
 * A tensor is a view: it owns nothing, and its memory is the device's (host code must not touch it
 * unless the device is the host). Higher ranks are written as matrices of their rows, which is all
 * that the models need, and keeps every operation's checks to two numbers. */
#ifndef NIGHTSHIFT_GPU_TENSOR_H
#define NIGHTSHIFT_GPU_TENSOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype {
    DTYPE_F32,
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_I8,   /* of a cache of keys and values alone (struct kv), which has their scales */
    DTYPE_E4M3, /* rows that products of fp8 take as they are, each with its scale; see backend.h */
};

struct tensor {
    enum dtype type;
    int64_t rows, cols;
    int64_t stride; /* elements from one row to the next; >= cols, but for `copy` */
    void *data;     /* borrowed, device memory */
    float *scales;  /* [rows], the same, of DTYPE_E4M3 alone: a value is its number times that */
};

static inline size_t dtype_size(enum dtype type)
{
    return type == DTYPE_F32 ? 4 : type == DTYPE_I8 || type == DTYPE_E4M3 ? 1 : 2;
}

static inline struct tensor tensor_of(enum dtype type, void *data, int64_t rows, int64_t cols)
{
    return (struct tensor){type, rows, cols, cols, data, NULL};
}

/* Columns [from, from + cols) of t. */
static inline struct tensor tensor_columns(struct tensor t, int64_t from, int64_t cols)
{
    t.data = (char *)t.data + (size_t)from * dtype_size(t.type);
    t.cols = cols;
    return t;
}

/* Rows [from, from + rows) of t. */
static inline struct tensor tensor_rows(struct tensor t, int64_t from, int64_t rows)
{
    t.data = (char *)t.data + (size_t)(from * t.stride) * dtype_size(t.type);
    t.scales = t.scales ? t.scales + from : NULL;
    t.rows = rows;
    return t;
}

static inline float bf16_to_f32(uint16_t v)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* These without branches, so that loops over them become a few instructions for many. To the
 * nearest, ties to even; a NaN stays one. */
static inline uint16_t f32_to_bf16(float f)
{
    uint32_t bits, rounded;

    memcpy(&bits, &f, sizeof(bits));
    rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}

static inline float f16_to_f32(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000u) << 16, size = v & 0x7fffu, bits;
    uint32_t more =
        size >= 0x7c00u ? 0x70000000u : 0x38000000u; /* infinities and NaNs; the others */
    float f = (float)(int32_t)size * 0x1p-24f;       /* zero or subnormal: exact in float32 */

    memcpy(&bits, &f, sizeof(bits));
    bits = sign | (size < 0x400u ? bits : (size << 13) + more);
    memcpy(&f, &bits, sizeof(f));
    return f;
}

#endif
