/* softmax(q k^T / 8) v for one head of 64, without a mask.
 *
 * Scores of a group of queries against all keys fit the second-level cache (12 x 1500 floats), so
 * the soft maximum is taken in two plain passes; the rescaling of flash attention would buy
 * nothing here. Weights are 2^(c s - c max) with c = log2(e) / 8. */
#include <math.h>

#include "gpu/host/kernels/attend.h"
#include "gpu/host/kernels/isa.h"
#include "gpu/host/vec.h"

#define HEAD BACKEND_HEAD_SIZE
#define Q KERNEL_QUERIES
#define SCALE 0.18033688011112042f /* log2(e) / 8 */

/* scores[r][0 .. keys) become weights; keys past the end up to a whole block get 0. Returns the
 * reciprocal of their sum. pairs: where the weights go as bf16, or NULL to keep them here. A key
 * that counts several times has a weight that is as many times as large. */
INLINE float soften(float *scores, struct key_tail tail, uint16_t *pairs)
{
    size_t keys = tail.keys, whole = (keys + 15) / 16 * 16;
    float more = tail.times > 1 ? log2f((float)tail.times) / SCALE : 0.0f;
    vreg sum[PARTS], top;
    v16 sums;

    for (size_t i = keys; i < whole; i++)
        scores[i] = -3e38f;
    for (size_t i = tail.dense; tail.times > 1 && i < keys; i++)
        scores[i] += more;
    for (int p = 0; p < PARTS; p++)
        sum[p] = r_all(0.0f);
    top = r_highest(scores, whole, -3e38f) * r_all(SCALE);
    for (size_t i = 0; i < whole; i += 16) {
        for (int p = 0; p < PARTS; p++) {
            vreg weight = r_exp2(r_load(scores + i + p * LANES) * r_all(SCALE) - top);

            sum[p] += weight;
            if (pairs)
                r_store_bf16(pairs + i + p * LANES, weight);
            else
                r_store(scores + i + p * LANES, weight);
        }
    }
    memcpy(&sums, sum, sizeof(sums));
    return 1.0f / v_sum(sums);
}

INLINE void gather_rows_f32(const float *weights, size_t width, const float *factor, const int rows,
                            const float *v, size_t keys, float *out, size_t stride)
{
    for (int c = 0; c < HEAD; c += GATHER_PARTS * LANES)
        gather_tile(weights, width, factor, rows, v + c, false, NULL, HEAD, GATHER_PARTS, keys,
                    out + c, stride);
}

void KERNEL(attend_f32)(const float *q, size_t q_stride, size_t n, const float *k, const float *v,
                        struct key_tail tail, float *out, size_t out_stride)
{
    float scores[Q * BACKEND_MAX_KEYS], factor[Q];
    size_t keys = tail.keys, blocks = (keys + 15) / 16, width = blocks * 16, b = 0, r;

    for (; n == Q && b + SCORE_BLOCKS <= blocks; b += SCORE_BLOCKS) {
        for (r = 0; r < Q; r += SCORE_ROWS)
            score_tile(q + r * q_stride, q_stride, HEAD, SCORE_ROWS, k + b * 16 * HEAD, false,
                       SCORE_BLOCKS, scores + r * width + b * 16, width);
    }
    for (; b < blocks; b++) {
        for (r = 0; r < n; r++)
            score_tile(q + r * q_stride, q_stride, HEAD, 1, k + b * 16 * HEAD, false, 1,
                       scores + r * width + b * 16, width);
    }
    for (r = 0; r < n; r++)
        factor[r] = soften(scores + r * width, tail, NULL);
    for (r = 0; r + GATHER_ROWS <= n; r += GATHER_ROWS)
        gather_rows_f32(scores + r * width, width, factor + r, GATHER_ROWS, v, keys,
                        out + r * out_stride, out_stride);
    for (; r < n; r++)
        gather_rows_f32(scores + r * width, width, factor + r, 1, v, keys, out + r * out_stride,
                        out_stride);
}

/* Four chains over the head's dimensions, so that one query does not wait for its own sums. */
INLINE void query_scores_f32(const float *q, const float *k, float *scores)
{
    vreg a[4][PARTS];

#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++)
        a[0][p] = a[1][p] = a[2][p] = a[3][p] = r_all(0.0f);
#pragma GCC unroll 2
    for (int d = 0; d < HEAD; d += 4) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
#pragma GCC unroll 4
            for (int p = 0; p < PARTS; p++)
                a[i][p] += r_load(k + (d + i) * 16 + p * LANES) * r_all(q[d + i]);
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++)
        r_store(scores + p * LANES, (a[0][p] + a[1][p]) + (a[2][p] + a[3][p]));
}

/* The first key after `at` that lies in another slot than `at` does, or `keys`. The keys between
 * are read as if they were one cache. */
INLINE size_t run_end(const struct head_cache *c, size_t at, size_t keys)
{
    if (!c->lies_in)
        return keys;
    for (size_t end = at + 1; end < keys; end++)
        if (c->lies_in[end] != c->lies_in[at])
            return end;
    return keys;
}

/* k or v, for keys that lie where key `at` does. */
INLINE const void *run_of(const struct head_cache *c, const void *base, size_t at)
{
    return c->lies_in ? (const char *)base + c->lies_in[at] * c->stride : base;
}

/* The next run overwrites scores that this run's last block writes beyond its end. */
INLINE void run_scores_f32(const float *q, const float *k, size_t at, size_t end, float *scores)
{
    float first[16];

    if (at % 16 != 0) {
        query_scores_f32(q, k + at / 16 * 16 * HEAD, first);
        memcpy(scores + at, first + at % 16, (16 - at % 16) * sizeof(*first));
    }
    for (size_t b = (at + 15) / 16; b * 16 < end; b++)
        query_scores_f32(q, k + b * 16 * HEAD, scores + b * 16);
}

INLINE void add_value(vreg acc[4], float weight, const float *v)
{
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++)
        acc[p] += r_load(v + p * LANES) * r_all(weight);
}

/* Two chains over the keys, even and odd ones. */
INLINE void query_gather_f32(const float *weights, float factor, const struct head_cache *c,
                             int column, size_t keys, float *out)
{
    vreg even[4], odd[4];

    for (int p = 0; p < 4; p++)
        even[p] = odd[p] = r_all(0.0f);
    for (size_t t = 0; t < keys;) {
        const float *v = (const float *)run_of(c, c->v, t) + column;
        size_t end = run_end(c, t, keys);

        if (t % 2 == 1) {
            add_value(odd, weights[t], v + t * HEAD);
            t++;
        }
        for (; t + 1 < end; t += 2) {
            add_value(even, weights[t], v + t * HEAD);
            add_value(odd, weights[t + 1], v + (t + 1) * HEAD);
        }
        if (t < end) {
            add_value(even, weights[t], v + t * HEAD);
            t++;
        }
    }
    for (int p = 0; p < 4; p++)
        r_store(out + p * LANES, (even[p] + odd[p]) * r_all(factor));
}

void KERNEL(query_f32)(const float *q, const struct head_cache *c, struct key_tail tail, float *out)
{
    float scores[BACKEND_MAX_KEYS], factor;
    size_t keys = tail.keys;

    for (size_t t = 0, end; t < keys; t = end) {
        end = run_end(c, t, keys);
        run_scores_f32(q, run_of(c, c->k, t), t, end, scores);
    }
    factor = soften(scores, tail, NULL);
    for (int column = 0; column < HEAD; column += 4 * LANES)
        query_gather_f32(scores, factor, c, column, keys, out + column);
}

/* One block of scores into out, which has room for n of them. */
INLINE void store_scores(float *out, size_t n, const float *scores)
{
    float t[16];

    v_store(t, v_load(scores) * v_all(0.125f));
    memcpy(out, t, (n < 16 ? n : 16) * sizeof(float));
}

void KERNEL(scores_f32)(const float *q, const float *k, size_t keys, float *out)
{
    float scores[16];

    for (size_t at = 0; at < keys; at += 16) {
        query_scores_f32(q, k + at * HEAD, scores);
        store_scores(out + at, keys - at, scores);
    }
}

/* --- 8 bits ------------------------------------------------------------------------------------
 *
 * A score and an output are each one chain, over the dimensions and over the keys, whatever else is
 * computed beside them: a query alone takes several blocks of keys at once, so as not to wait for
 * its own sums, and several queries share what was read and converted. */

#define I8_SUMS TILE_PARTS /* in registers: what two multiply-adds a cycle wait for */
#define I8_ROWS                                                                      \
    (LANES > 4 ? KERNEL_TOGETHER : 2) /* the plain set has sixteen registers of four \
                                       */
#define I8_BLOCKS (I8_SUMS / PARTS)   /* of a query alone */
#define I8_SHARED (LANES > 8 ? 2 : 1) /* blocks of several queries */

INLINE void scores_of_rows_i8(const float *q, size_t stride, const int rows, const int8_t *k,
                              const int at_once, size_t blocks, float *scores, size_t width)
{
    size_t b = 0;

    for (; b + (size_t)at_once <= blocks; b += (size_t)at_once)
        score_tile(q, stride, HEAD, rows, k + b * 16 * HEAD, true, at_once, scores + b * 16, width);
    for (; at_once > 1 && b < blocks; b++)
        score_tile(q, stride, HEAD, rows, k + b * 16 * HEAD, true, 1, scores + b * 16, width);
}

#define I8_ALONE (HEAD / LANES < I8_SUMS ? HEAD / LANES : I8_SUMS) /* registers of values */
#define I8_WITH (I8_SUMS / KERNEL_TOGETHER)                        /* of several queries */

void KERNEL(queries_i8)(const float *q, size_t q_stride, size_t n, const int8_t *k, const int8_t *v,
                        struct key_tail tail, const float *v_scales, float *out, size_t out_stride)
{
    float scores[KERNEL_TOGETHER * BACKEND_MAX_KEYS], factor[KERNEL_TOGETHER];
    size_t keys = tail.keys, blocks = (keys + 15) / 16, width = blocks * 16, r = 0;

    for (; r + I8_ROWS <= n; r += I8_ROWS)
        scores_of_rows_i8(q + r * q_stride, q_stride, I8_ROWS, k, I8_SHARED, blocks,
                          scores + r * width, width);
    for (; r < n; r++)
        scores_of_rows_i8(q + r * q_stride, q_stride, 1, k, I8_BLOCKS, blocks, scores + r * width,
                          width);
    for (r = 0; r < n; r++)
        factor[r] = soften(scores + r * width, tail, NULL);
    for (r = 0; r + KERNEL_TOGETHER <= n; r += KERNEL_TOGETHER)
        for (int c = 0; c < HEAD; c += I8_WITH * LANES)
            gather_tile(scores + r * width, width, factor + r, KERNEL_TOGETHER, v + c, true,
                        v_scales + c, HEAD, I8_WITH, keys, out + r * out_stride + c, out_stride);
    for (; r < n; r++)
        for (int c = 0; c < HEAD; c += I8_ALONE * LANES)
            gather_tile(scores + r * width, width, factor + r, 1, v + c, true, v_scales + c, HEAD,
                        I8_ALONE, keys, out + r * out_stride + c, out_stride);
}

void KERNEL(scores_i8)(const float *q, const int8_t *k, size_t keys, float *out)
{
    float scores[16];

    for (size_t at = 0; at < keys; at += 16) {
        score_tile(q, HEAD, HEAD, 1, k + at * HEAD, true, 1, scores, 16);
        store_scores(out + at, keys - at, scores);
    }
}

/* The largest magnitudes of each dimension. They are ordered as their bits, infinities and what is
 * no number above all. */
INLINE void highest_i8(const void *x, const bool bf16, size_t stride, size_t n, float *ret)
{
    const ireg magnitude = (ireg){0} + 0x7fffffff;
    ireg high[HEAD / LANES];

#pragma GCC unroll 16
    for (int p = 0; p < HEAD / LANES; p++)
        high[p] = (ireg){0};
    for (size_t r = 0; r < n; r++) {
#pragma GCC unroll 16
        for (int p = 0; p < HEAD / LANES; p++) {
            ireg m = (ireg)r_of(x, bf16, r * stride + (size_t)(p * LANES)) & magnitude;

            high[p] = (ireg)r_pick(m > high[p], (vreg)m, (vreg)high[p]);
        }
    }
    memcpy(ret, high, sizeof(high));
}

/* What is not finite, times 0, is NaN and becomes 0. */
INLINE void row_to_i8(const void *x, const bool bf16, size_t at, const float *factor, int8_t *to)
{
#pragma GCC unroll 16
    for (int p = 0; p < HEAD / LANES; p++) {
        vreg y = r_of(x, bf16, at + (size_t)(p * LANES)) * r_load(factor + p * LANES);

        r_store_i8(to + p * LANES, r_pick(y == y, y, r_all(0.0f)));
    }
}

typedef int8_t byte16 __attribute__((vector_size(16)));

/* to[d][key] = rows[key][d] of 16 keys. Four times a perfect shuffle of the rows, half against
 * half, turns a square of sixteen. */
INLINE void turn_block(const int8_t *rows, int8_t *to)
{
    for (int d = 0; d < HEAD; d += 16) {
        byte16 a[16], b[16];

        for (int i = 0; i < 16; i++)
            memcpy(&a[i], rows + i * HEAD + d, sizeof(a[i]));
        for (int round = 0; round < 4; round++) {
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) {
                b[2 * i] = __builtin_shufflevector(a[i], a[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4,
                                                   20, 5, 21, 6, 22, 7, 23);
                b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 8], 8, 24, 9, 25, 10, 26, 11, 27,
                                                       12, 28, 13, 29, 14, 30, 15, 31);
            }
            memcpy(a, b, sizeof(a));
        }
        memcpy(to + d * 16, a, sizeof(a));
    }
}

INLINE void fill_i8(const void *x, const bool bf16, size_t stride, size_t n, bool values,
                    int8_t *to, float *scales)
{
    int8_t block[KERNEL_KEYS * HEAD] = {0};
    float factor[HEAD];

    highest_i8(x, bf16, stride, n, scales);
    for (int d = 0; d < HEAD; d++) {
        bool finite = scales[d] <= 0x1.fffffep127f;

        factor[d] = finite && scales[d] >= 1e-36f ? 127.0f / scales[d] : 0.0f;
        scales[d] = finite ? scales[d] / 127.0f : __builtin_nanf("");
    }
    for (size_t r = 0; r < n; r++) {
        row_to_i8(x, bf16, r * stride, factor,
                  values ? to + r * HEAD : block + r % KERNEL_KEYS * HEAD);
        if (values || (r % KERNEL_KEYS != KERNEL_KEYS - 1 && r + 1 < n))
            continue;
        memset(block + (r % KERNEL_KEYS + 1) * HEAD, 0, (KERNEL_KEYS - 1 - r % KERNEL_KEYS) * HEAD);
        turn_block(block, to + r / KERNEL_KEYS * KERNEL_KEYS * HEAD);
    }
}

void KERNEL(fill_i8)(const void *x, bool bf16, size_t stride, size_t n, bool values, int8_t *to,
                     float *scales)
{
    if (bf16)
        fill_i8(x, true, stride, n, values, to, scales);
    else
        fill_i8(x, false, stride, n, values, to, scales);
}

#if KERNEL_BF16
INLINE __m512bh pair_all(const uint16_t *p)
{
    int32_t pair;

    memcpy(&pair, p, 4);
    return (__m512bh)_mm512_set1_epi32(pair);
}

INLINE __m512bh pairs_load(const uint16_t *p) { return (__m512bh)_mm512_loadu_si512(p); }

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
            r_store_bf16(out + (size_t)r * stride + c * 16, (vreg)_mm512_mul_ps(acc[r][c], f));
    }
}

void KERNEL(attend_bf16)(const uint16_t *q, size_t q_stride, size_t n, const uint16_t *k,
                         const uint16_t *v, struct key_tail tail, uint16_t *out, size_t out_stride)
{
    float scores[Q * BACKEND_MAX_KEYS], factor[Q];
    uint16_t weights[Q * BACKEND_MAX_KEYS];
    size_t keys = tail.keys, blocks = (keys + 15) / 16, width = blocks * 16, r = 0;

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
        factor[r] = soften(scores + r * width, tail, weights + r * width);
    for (r = 0; r + 6 <= n; r += 6)
        gather_bf16(weights + r * width, width, factor + r, 6, v, keys, out + r * out_stride,
                    out_stride);
    for (; r < n; r++)
        gather_bf16(weights + r * width, width, factor + r, 1, v, keys, out + r * out_stride,
                    out_stride);
}

INLINE void query_scores_bf16(const uint16_t *q, const uint16_t *k, float *scores)
{
    __m512 a0 = _mm512_setzero_ps(), a1 = a0, a2 = a0, a3 = a0;

#pragma GCC unroll 8
    for (int d = 0; d < HEAD / 2; d += 4) {
        a0 = _mm512_dpbf16_ps(a0, pairs_load(k + d * 32), pair_all(q + d * 2));
        a1 = _mm512_dpbf16_ps(a1, pairs_load(k + d * 32 + 32), pair_all(q + d * 2 + 2));
        a2 = _mm512_dpbf16_ps(a2, pairs_load(k + d * 32 + 64), pair_all(q + d * 2 + 4));
        a3 = _mm512_dpbf16_ps(a3, pairs_load(k + d * 32 + 96), pair_all(q + d * 2 + 6));
    }
    _mm512_storeu_ps(scores, _mm512_add_ps(_mm512_add_ps(a0, a1), _mm512_add_ps(a2, a3)));
}

void KERNEL(scores_bf16)(const uint16_t *q, const uint16_t *k, size_t keys, float *out)
{
    float scores[16];

    for (size_t at = 0; at < keys; at += 16) {
        query_scores_bf16(q, k + at * HEAD, scores);
        store_scores(out + at, keys - at, scores);
    }
}

INLINE void run_scores_bf16(const uint16_t *q, const uint16_t *k, size_t at, size_t end,
                            float *scores)
{
    float first[16];

    if (at % 16 != 0) {
        query_scores_bf16(q, k + at / 16 * 16 * HEAD, first);
        memcpy(scores + at, first + at % 16, (16 - at % 16) * sizeof(*first));
    }
    for (size_t b = (at + 15) / 16; b * 16 < end; b++)
        query_scores_bf16(q, k + b * 16 * HEAD, scores + b * 16);
}

/* Adds the values of two adjacent keys; the second one's are in `odd`. */
INLINE void add_pair(__m512 acc[4], const uint16_t *weights, const uint16_t *even,
                     const uint16_t *odd)
{
    __m512bh p = pair_all(weights);

#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        __m512i v = _mm512_loadu_si512(even + c * 32);

        if (odd != even)
            v = _mm512_mask_blend_epi16(0xaaaaaaaa, v, _mm512_loadu_si512(odd + c * 32));
        acc[c] = _mm512_dpbf16_ps(acc[c], (__m512bh)v, p);
    }
}

/* Two chains over pairs of keys, even and odd ones; a pair may lie in two slots. */
INLINE void query_gather_bf16(const uint16_t *weights, float factor, const struct head_cache *c,
                              size_t keys, uint16_t *out)
{
    __m512 even[4], odd[4], f = _mm512_set1_ps(factor);

    for (int i = 0; i < 4; i++)
        even[i] = odd[i] = _mm512_setzero_ps();
    for (size_t t = 0; t < keys;) {
        const uint16_t *v = run_of(c, c->v, t);
        size_t end = run_end(c, t, keys);

        if (end < keys && end % 2 == 1)
            end--;
        if (end == t) { /* a run of one key, its pair in another */
            const uint16_t *other = run_of(c, c->v, t + 1);

            add_pair(t % 4 == 0 ? even : odd, weights + t, v + t * HEAD, other + t * HEAD);
            t += 2;
            continue;
        }
        if (t % 4 == 2) {
            add_pair(odd, weights + t, v + t * HEAD, v + t * HEAD);
            t += 2;
        }
        for (; t + 2 < end; t += 4) {
            add_pair(even, weights + t, v + t * HEAD, v + t * HEAD);
            add_pair(odd, weights + t + 2, v + (t + 2) * HEAD, v + (t + 2) * HEAD);
        }
        if (t < end) {
            add_pair(even, weights + t, v + t * HEAD, v + t * HEAD);
            t += 2;
        }
    }
    for (int i = 0; i < 4; i++)
        r_store_bf16(out + i * 16, (vreg)_mm512_mul_ps(_mm512_add_ps(even[i], odd[i]), f));
}

void KERNEL(query_bf16)(const uint16_t *q, const struct head_cache *c, struct key_tail tail,
                        uint16_t *out)
{
    size_t keys = tail.keys;
    float scores[BACKEND_MAX_KEYS];
    uint16_t weights[BACKEND_MAX_KEYS];

    for (size_t t = 0, end; t < keys; t = end) {
        end = run_end(c, t, keys);
        run_scores_bf16(q, run_of(c, c->k, t), t, end, scores);
    }
    query_gather_bf16(weights, soften(scores, tail, weights), c, keys, out);
}
#endif
