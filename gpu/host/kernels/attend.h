/* gpu/host/kernels/attend.h - the two products of attention, for tiles that stay in registers. */
#ifndef NIGHTSHIFT_GPU_HOST_KERNELS_ATTEND_H
#define NIGHTSHIFT_GPU_HOST_KERNELS_ATTEND_H

#include "gpu/host/kernels.h"
#include "gpu/host/vec.h"

/* Sums that are kept in registers: 24 of AVX-512's 32, 12 of the others' 16. They do not change
 * which values a score or an output sums, or in which order. */
#if LANES == 16
#define SCORE_ROWS KERNEL_QUERIES
#define SCORE_BLOCKS 2
#define GATHER_ROWS 6
#define GATHER_PARTS 4
#elif LANES == 8
#define SCORE_ROWS 6
#define SCORE_BLOCKS 1
#define GATHER_ROWS 6
#define GATHER_PARTS 2
#else
#define SCORE_ROWS 3
#define SCORE_BLOCKS 1
#define GATHER_ROWS 3
#define GATHER_PARTS 4
#endif

/* No tile of any kind of keys is larger. */
#define TILE_ROWS KERNEL_QUERIES
#define TILE_PARTS 8

/* float32 or, `eight`, int8 whose scale is applied later. */
INLINE vreg kept_load(const void *p, size_t at, const bool eight)
{
    return eight ? r_load_i8((const int8_t *)p + at) : r_load((const float *)p + at);
}

/* Scores of `rows` queries of `head` values against `blocks` blocks of keys, [head][16] each. */
INLINE void score_tile(const float *q, size_t stride, const int head, const int rows, const void *k,
                       const bool eight, const int blocks, float *scores, size_t width)
{
    vreg acc[TILE_ROWS][TILE_PARTS], key[TILE_PARTS];
    const int parts = blocks * PARTS;

#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (int p = 0; p < parts; p++)
            acc[r][p] = r_all(0.0f);
    }
    for (int d = 0; d < head; d++) {
#pragma GCC unroll 8
        for (int p = 0; p < parts; p++)
            key[p] =
                kept_load(k, (size_t)(p / PARTS * head * 16 + d * 16 + p % PARTS * LANES), eight);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            vreg value = r_all(q[(size_t)r * stride + (size_t)d]);

#pragma GCC unroll 8
            for (int p = 0; p < parts; p++)
                acc[r][p] += key[p] * value;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (int p = 0; p < parts; p++)
            r_store(scores + (size_t)r * width + p * LANES, acc[r][p]);
    }
}

/* out[r] = factor[r] * weights[r] v, for `parts` registers of values whose rows are `wide` apart.
 * scales: of `eight` bits. */
INLINE void gather_tile(const float *weights, size_t width, const float *factor, const int rows,
                        const void *v, const bool eight, const float *scales, const int wide,
                        const int parts, size_t keys, float *out, size_t stride)
{
    vreg acc[TILE_ROWS][TILE_PARTS], value[TILE_PARTS];

#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (int p = 0; p < parts; p++)
            acc[r][p] = r_all(0.0f);
    }
    for (size_t t = 0; t < keys; t++) {
#pragma GCC unroll 8
        for (int p = 0; p < parts; p++)
            value[p] = kept_load(v, t * (size_t)wide + (size_t)(p * LANES), eight);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            vreg weight = r_all(weights[(size_t)r * width + t]);

#pragma GCC unroll 8
            for (int p = 0; p < parts; p++)
                acc[r][p] += value[p] * weight;
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (int p = 0; p < parts; p++)
            r_store(out + (size_t)r * stride + p * LANES,
                    acc[r][p] *
                        (eight ? r_load(scales + p * LANES) * r_all(factor[r]) : r_all(factor[r])));
    }
}

#endif
