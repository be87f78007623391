/* softmax(q k^T / 8) v for one head of 64, without a mask.
 *
 * Scores of a group of queries against all keys fit the second-level cache (12 x 1500 floats), so
 * the soft maximum is taken in two plain passes; the rescaling of flash attention would buy
 * nothing here. Weights are 2^(c s - c max) with c = log2(e) / 8. */
#include "gpu/host/kernels/isa.h"
#include "gpu/host/vec.h"

#define HEAD BACKEND_HEAD_SIZE
#define Q KERNEL_QUERIES
#define SCALE 0.18033688011112042f /* log2(e) / 8 */

/* scores[r][0 .. keys) become weights; keys past the end up to a whole block get 0. Returns the
 * reciprocal of their sum. pairs: where the weights go as bf16, or NULL to keep them here. */
INLINE float soften(float *scores, size_t keys, uint16_t *pairs)
{
    const i16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    size_t blocks = (keys + 15) / 16;
    i16 inside = lane < i_all((int32_t)(keys - (blocks - 1) * 16));
    float *last = scores + (blocks - 1) * 16;
    v16 high = v_all(-3e38f), sum = v_all(0.0f), p;

    v_store(last, v_pick(inside, v_load(last), v_all(-3e38f)));
    for (size_t b = 0; b < blocks; b++)
        high = v_max(high, v_load(scores + b * 16));
    high = v_all(v_highest(high) * SCALE);
    for (size_t b = 0; b < blocks; b++) {
        p = v_exp2(v_load(scores + b * 16) * v_all(SCALE) - high);
        if (b + 1 == blocks)
            p = v_pick(inside, p, v_all(0.0f));
        sum += p;
#if KERNEL_BF16
        if (pairs) {
            _mm256_storeu_si256((__m256i *)(pairs + b * 16),
                                (__m256i)_mm512_cvtneps_pbh((__m512)p));
            continue;
        }
#else
        (void)pairs;
#endif
        v_store(scores + b * 16, p);
    }
    return 1.0f / v_sum(sum);
}

/* Scores of `rows` queries against `blocks` (1 or 2) blocks of keys. */
INLINE void score_f32(const float *q, size_t stride, const int rows, const float *k,
                      const int blocks, float *scores, size_t width)
{
    v16 acc[Q][2];

#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = v_all(0.0f);
    for (int d = 0; d < HEAD; d++) {
        v16 k0 = v_load(k + d * 16), k1 = blocks > 1 ? v_load(k + HEAD * 16 + d * 16) : k0;

#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            v16 value = v_all(q[(size_t)r * stride + (size_t)d]);

            acc[r][0] += k0 * value;
            if (blocks > 1)
                acc[r][1] += k1 * value;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        v_store(scores + (size_t)r * width, acc[r][0]);
        if (blocks > 1)
            v_store(scores + (size_t)r * width + 16, acc[r][1]);
    }
}

/* out[r] = factor[r] * weights[r] v. */
INLINE void gather_f32(const float *weights, size_t width, const float *factor, const int rows,
                       const float *v, size_t keys, float *out, size_t stride)
{
    v16 acc[6][4];

#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = acc[r][2] = acc[r][3] = v_all(0.0f);
    for (size_t t = 0; t < keys; t++) {
        v16 v0 = v_load(v + t * HEAD), v1 = v_load(v + t * HEAD + 16);
        v16 v2 = v_load(v + t * HEAD + 32), v3 = v_load(v + t * HEAD + 48);

#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            v16 p = v_all(weights[(size_t)r * width + t]);

            acc[r][0] += v0 * p;
            acc[r][1] += v1 * p;
            acc[r][2] += v2 * p;
            acc[r][3] += v3 * p;
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        v16 f = v_all(factor[r]);

#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            v_store(out + (size_t)r * stride + c * 16, acc[r][c] * f);
    }
}

void KERNEL(attend_f32)(const float *q, size_t q_stride, size_t n, const float *k, const float *v,
                        size_t keys, float *out, size_t out_stride)
{
    float scores[Q * BACKEND_MAX_KEYS], factor[Q];
    size_t blocks = (keys + 15) / 16, width = blocks * 16, r = 0;

    for (size_t b = 0; b < blocks; b += 2) {
        const float *kb = k + b * 16 * HEAD;

        if (n == Q && b + 1 < blocks) {
            score_f32(q, q_stride, Q, kb, 2, scores + b * 16, width);
            continue;
        }
        for (r = 0; r < n; r++) {
            score_f32(q + r * q_stride, q_stride, 1, kb, 1, scores + r * width + b * 16, width);
            if (b + 1 < blocks)
                score_f32(q + r * q_stride, q_stride, 1, kb + 16 * HEAD, 1,
                          scores + r * width + b * 16 + 16, width);
        }
    }
    for (r = 0; r < n; r++)
        factor[r] = soften(scores + r * width, keys, NULL);
    for (r = 0; r + 6 <= n; r += 6)
        gather_f32(scores + r * width, width, factor + r, 6, v, keys, out + r * out_stride,
                   out_stride);
    for (; r < n; r++)
        gather_f32(scores + r * width, width, factor + r, 1, v, keys, out + r * out_stride,
                   out_stride);
}

/* Four chains over the head's dimensions, so that one query does not wait for its own sums. */
void KERNEL(query_f32)(const float *q, const float *k, const float *v, size_t keys, float *out)
{
    float scores[BACKEND_MAX_KEYS], factor;
    size_t blocks = (keys + 15) / 16;
    v16 acc[2][4];

    for (size_t b = 0; b < blocks; b++, k += 16 * HEAD) {
        v16 a0 = v_all(0.0f), a1 = a0, a2 = a0, a3 = a0;

#pragma GCC unroll 4
        for (int d = 0; d < HEAD; d += 4) {
            a0 += v_load(k + d * 16) * v_all(q[d]);
            a1 += v_load(k + d * 16 + 16) * v_all(q[d + 1]);
            a2 += v_load(k + d * 16 + 32) * v_all(q[d + 2]);
            a3 += v_load(k + d * 16 + 48) * v_all(q[d + 3]);
        }
        v_store(scores + b * 16, (a0 + a1) + (a2 + a3));
    }
    factor = soften(scores, keys, NULL);
    for (int c = 0; c < 4; c++)
        acc[0][c] = acc[1][c] = v_all(0.0f);
    for (size_t t = 0; t < keys; t++) {
        v16 p = v_all(scores[t]);

#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            acc[t & 1][c] += v_load(v + t * HEAD + c * 16) * p;
    }
    for (int c = 0; c < 4; c++)
        v_store(out + c * 16, (acc[0][c] + acc[1][c]) * v_all(factor));
}

#if KERNEL_BF16
INLINE __m512bh pair_all(const uint16_t *p)
{
    int32_t pair;

    memcpy(&pair, p, 4);
    return (__m512bh)_mm512_set1_epi32(pair);
}

INLINE __m512bh pairs_load(const uint16_t *p) { return (__m512bh)_mm512_loadu_si512(p); }

INLINE void store_bf16(uint16_t *p, __m512 v)
{
    _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(v));
}

INLINE void score_bf16(const uint16_t *q, size_t stride, const int rows, const uint16_t *k,
                       const int blocks, float *scores, size_t width)
{
    __m512 acc[Q][2];

#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    for (int d = 0; d < HEAD / 2; d++) {
        __m512bh k0 = pairs_load(k + d * 32);
        __m512bh k1 = blocks > 1 ? pairs_load(k + HEAD * 16 + d * 32) : k0;

#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            __m512bh value = pair_all(q + (size_t)r * stride + (size_t)d * 2);

            acc[r][0] = _mm512_dpbf16_ps(acc[r][0], k0, value);
            if (blocks > 1)
                acc[r][1] = _mm512_dpbf16_ps(acc[r][1], k1, value);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        _mm512_storeu_ps(scores + (size_t)r * width, acc[r][0]);
        if (blocks > 1)
            _mm512_storeu_ps(scores + (size_t)r * width + 16, acc[r][1]);
    }
}

INLINE void gather_bf16(const uint16_t *weights, size_t width, const float *factor, const int rows,
                        const uint16_t *v, size_t keys, uint16_t *out, size_t stride)
{
    __m512 acc[6][4];

#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = acc[r][2] = acc[r][3] = _mm512_setzero_ps();
    for (size_t t = 0; t < keys; t += 2) {
        const uint16_t *row = v + t * HEAD;
        __m512bh v0 = pairs_load(row), v1 = pairs_load(row + 32);
        __m512bh v2 = pairs_load(row + 64), v3 = pairs_load(row + 96);

#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m512bh p = pair_all(weights + (size_t)r * width + t);

            acc[r][0] = _mm512_dpbf16_ps(acc[r][0], v0, p);
            acc[r][1] = _mm512_dpbf16_ps(acc[r][1], v1, p);
            acc[r][2] = _mm512_dpbf16_ps(acc[r][2], v2, p);
            acc[r][3] = _mm512_dpbf16_ps(acc[r][3], v3, p);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        __m512 f = _mm512_set1_ps(factor[r]);

#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            store_bf16(out + (size_t)r * stride + c * 16, _mm512_mul_ps(acc[r][c], f));
    }
}

void KERNEL(attend_bf16)(const uint16_t *q, size_t q_stride, size_t n, const uint16_t *k,
                         const uint16_t *v, size_t keys, uint16_t *out, size_t out_stride)
{
    float scores[Q * BACKEND_MAX_KEYS], factor[Q];
    uint16_t weights[Q * BACKEND_MAX_KEYS];
    size_t blocks = (keys + 15) / 16, width = blocks * 16, r = 0;

    for (size_t b = 0; b < blocks; b += 2) {
        const uint16_t *kb = k + b * 16 * HEAD;

        if (n == Q && b + 1 < blocks) {
            score_bf16(q, q_stride, Q, kb, 2, scores + b * 16, width);
            continue;
        }
        for (r = 0; r < n; r++) {
            score_bf16(q + r * q_stride, q_stride, 1, kb, 1, scores + r * width + b * 16, width);
            if (b + 1 < blocks)
                score_bf16(q + r * q_stride, q_stride, 1, kb + 16 * HEAD, 1,
                           scores + r * width + b * 16 + 16, width);
        }
    }
    for (r = 0; r < n; r++)
        factor[r] = soften(scores + r * width, keys, weights + r * width);
    for (r = 0; r + 6 <= n; r += 6)
        gather_bf16(weights + r * width, width, factor + r, 6, v, keys, out + r * out_stride,
                    out_stride);
    for (; r < n; r++)
        gather_bf16(weights + r * width, width, factor + r, 1, v, keys, out + r * out_stride,
                    out_stride);
}

void KERNEL(query_bf16)(const uint16_t *q, const uint16_t *k, const uint16_t *v, size_t keys,
                        uint16_t *out)
{
    float scores[BACKEND_MAX_KEYS];
    uint16_t weights[BACKEND_MAX_KEYS];
    size_t blocks = (keys + 15) / 16;
    __m512 acc[2][4], f;

    for (size_t b = 0; b < blocks; b++, k += 16 * HEAD) {
        __m512 a0 = _mm512_setzero_ps(), a1 = a0, a2 = a0, a3 = a0;

#pragma GCC unroll 8
        for (int d = 0; d < HEAD / 2; d += 4) {
            a0 = _mm512_dpbf16_ps(a0, pairs_load(k + d * 32), pair_all(q + d * 2));
            a1 = _mm512_dpbf16_ps(a1, pairs_load(k + d * 32 + 32), pair_all(q + d * 2 + 2));
            a2 = _mm512_dpbf16_ps(a2, pairs_load(k + d * 32 + 64), pair_all(q + d * 2 + 4));
            a3 = _mm512_dpbf16_ps(a3, pairs_load(k + d * 32 + 96), pair_all(q + d * 2 + 6));
        }
        _mm512_storeu_ps(scores + b * 16,
                         _mm512_add_ps(_mm512_add_ps(a0, a1), _mm512_add_ps(a2, a3)));
    }
    f = _mm512_set1_ps(soften(scores, keys, weights));
    for (int c = 0; c < 4; c++)
        acc[0][c] = acc[1][c] = _mm512_setzero_ps();
    for (size_t t = 0; t < keys; t += 2) {
        __m512bh p = pair_all(weights + t);

#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            acc[(t >> 1) & 1][c] =
                _mm512_dpbf16_ps(acc[(t >> 1) & 1][c], pairs_load(v + t * HEAD + c * 32), p);
    }
    for (int c = 0; c < 4; c++)
        store_bf16(out + c * 16, _mm512_mul_ps(_mm512_add_ps(acc[0][c], acc[1][c]), f));
}
#endif
