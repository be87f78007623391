/* gpu/cuda/kernels/logits.h - a row of logits, divided among the warps of one block.
 *
 * A warp owns a contiguous part of the ids and goes through it 32 at a time, so that what it finds
 * is in the order of the ids; warps are merged in their order. */
#ifndef NIGHTSHIFT_GPU_CUDA_KERNELS_LOGITS_H
#define NIGHTSHIFT_GPU_CUDA_KERNELS_LOGITS_H

#include "gpu/cuda/kernels/values.h"

#define LOGITS_WARPS 32 /* of the block: as many as a warp has lanes */
#define LOGITS_THREADS (32 * LOGITS_WARPS)
#define LOGITS_DEEP 4 /* reads of a lane that are under way together */

__device__ inline int32_t lane_id(void) { return (int32_t)threadIdx.x % 32; }

/* NaN counts as minus infinity. */
__device__ inline float logit(const float *row, int32_t id)
{
    const float v = row[id];

    return v == v ? v : -INFINITY;
}

/* Logits first, first + 32 ...: minus infinity from `to` on. */
__device__ inline void load_logits(const float *row, int32_t first, int32_t to, float *v)
{
#pragma unroll
    for (int i = 0; i < LOGITS_DEEP; i++)
        v[i] = first + i * 32 < to ? logit(row, first + i * 32) : -INFINITY;
}

__device__ inline double warp_sum64(double v)
{
    for (int lanes = 16; lanes > 0; lanes /= 2)
        v += __shfl_xor_sync(ALL_LANES, v, lanes);
    return v;
}

/* The warp's part of the ids, of a block of so many threads. */
struct span {
    int32_t from, to;
};

__device__ inline span warp_span(int32_t vocab, int32_t threads)
{
    const int32_t each = (vocab + threads - 1) / threads * 32;
    const int32_t from = min((int32_t)(threadIdx.x / 32) * each, vocab);

    return {from, min(from + each, vocab)};
}

#endif
