/* gpu/host/vec.h - sixteen float32 or eight float64 at a time, in the compiler's own vectors.
 *
 * Included only by kernels/, which are compiled once per instruction set: the same text becomes
 * one AVX-512 instruction, two AVX2 ones or plain SSE2. */
#ifndef NIGHTSHIFT_GPU_HOST_VEC_H
#define NIGHTSHIFT_GPU_HOST_VEC_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "gpu/tensor.h"

#define INLINE static inline __attribute__((always_inline))
/* Code that a kernel runs after its inner loop. With sanitizers it is a function, whose many
 * inlined copies would take minutes to compile. */
#ifdef NIGHTSHIFT_INLINE_LESS
#define INLINE_AFTER static __attribute__((noinline))
#else
#define INLINE_AFTER INLINE
#endif

typedef float v16 __attribute__((vector_size(64)));
typedef int32_t i16 __attribute__((vector_size(64)));
typedef float v16_loose __attribute__((vector_size(64), aligned(4), may_alias));

/* One register of the processor: where loops must keep many sums in registers, the compiler has to
 * be told their true size (it breaks larger vectors up through memory). */
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif
#define PARTS (16 / LANES) /* registers of a v16 */
typedef float vreg __attribute__((vector_size(LANES * 4)));
typedef int32_t ireg __attribute__((vector_size(LANES * 4)));
typedef float vreg_loose __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int8_t bytes __attribute__((vector_size(LANES)));

INLINE vreg r_load(const float *p) { return *(const vreg_loose *)p; }
/* LANES integers of 8 bits, as float32. By hand, since GCC 12 converts such vectors one by one. */
INLINE vreg r_load_i8(const int8_t *p)
{
#if LANES == 16
    return (vreg)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
#elif LANES == 8
    return (vreg)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
#elif defined(__SSE2__)
    int32_t four;
    __m128i x;

    memcpy(&four, p, sizeof(four));
    x = _mm_cvtsi32_si128(four);
    x = _mm_unpacklo_epi8(x, x); /* each byte to the top of its 32 bits, and down with its sign */
    return (vreg)_mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(x, x), 24));
#else
    bytes b;

    memcpy(&b, p, sizeof(b));
    return __builtin_convertvector(b, vreg);
#endif
}
INLINE void r_store(float *p, vreg v) { *(vreg_loose *)p = v; }
/* Not zeros + x: that is an addition and a shuffle (minus zero would have to become zero), where
 * this is a load that broadcasts. */
INLINE vreg r_all(float x)
{
#if LANES == 16
    return (vreg){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif LANES == 8
    return (vreg){x, x, x, x, x, x, x, x};
#else
    return (vreg){x, x, x, x};
#endif
}
INLINE vreg r_pick(ireg mask, vreg a, vreg b)
{
    return (vreg)(((ireg)a & mask) | ((ireg)b & ~mask));
}
INLINE vreg r_max(vreg a, vreg b) { return r_pick(a > b, a, b); }
INLINE vreg r_abs(vreg a) { return (vreg)((ireg)a & ((ireg){0} + 0x7fffffff)); }

/* LANES numbers of bf16; stored as f32_to_bf16 does, but what is below 2^-126 may become zero. */
INLINE vreg r_load_bf16(const uint16_t *p)
{
#if LANES == 16
    return (vreg)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)),
                                   16);
#elif LANES == 8
    return (vreg)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16);
#else
    return (vreg){bf16_to_f32(p[0]), bf16_to_f32(p[1]), bf16_to_f32(p[2]), bf16_to_f32(p[3])};
#endif
}
INLINE void r_store_bf16(uint16_t *p, vreg v)
{
#if defined(__AVX512BF16__)
    _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh((__m512)v));
#elif LANES >= 8
    ireg bits = (ireg)v, rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    ireg r = (ireg)r_pick(v != v, (vreg)(bits >> 16 | 0x40), (vreg)rounded) & 0xffff;

#if LANES == 16
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16((__m512i)r));
#else
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi32(_mm256_castsi256_si128((__m256i)r),
                                                    _mm256_extracti128_si256((__m256i)r, 1)));
#endif
#else
    for (int i = 0; i < LANES; i++)
        p[i] = f32_to_bf16(v[i]);
#endif
}

INLINE vreg r_of(const void *x, const bool bf16, size_t at)
{
    return bf16 ? r_load_bf16((const uint16_t *)x + at) : r_load((const float *)x + at);
}

/* To the nearest integers, ties to even, stored as 8 bits, which have room for them. */
INLINE ireg r_store_i8(int8_t *to, vreg x)
{
#if LANES == 16
    __m512i r = _mm512_cvtps_epi32((__m512)x);

    _mm_storeu_si128((__m128i *)to, _mm512_cvtsepi32_epi8(r));
#elif LANES == 8
    __m256i r = _mm256_cvtps_epi32((__m256)x);
    __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));

    _mm_storel_epi64((__m128i *)to, _mm_packs_epi16(half, half));
#elif defined(__SSE2__)
    __m128i r = _mm_cvtps_epi32((__m128)x), half = _mm_packs_epi32(r, r);
    int32_t four = _mm_cvtsi128_si32(_mm_packs_epi16(half, half));

    memcpy(to, &four, sizeof(four));
#else
    ireg r = {0};

    for (int i = 0; i < LANES; i++) {
        r[i] = (int32_t)__builtin_lrintf(x[i]);
        to[i] = (int8_t)r[i];
    }
#endif
    return (ireg)r;
}

/* Half as many doubles. */
typedef double dreg __attribute__((vector_size(LANES * 4)));
typedef float half_loose __attribute__((vector_size(LANES * 2), aligned(4), may_alias));
INLINE dreg d_load(const float *p) { return __builtin_convertvector(*(const half_loose *)p, dreg); }

INLINE v16 v_load(const float *p) { return *(const v16_loose *)p; }
INLINE void v_store(float *p, v16 v) { *(v16_loose *)p = v; }
INLINE v16 v_all(float x) { return (v16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
INLINE i16 i_all(int32_t x) { return (i16){0} + x; }

/* All ones where a > b. By registers: GCC 12 compares wider vectors one number at a time. */
INLINE i16 v_more(v16 a, v16 b)
{
    vreg x[PARTS], y[PARTS];
    ireg more[PARTS];
    i16 ret;

    memcpy(x, &a, sizeof(a));
    memcpy(y, &b, sizeof(b));
    for (int i = 0; i < PARTS; i++)
        more[i] = x[i] > y[i];
    memcpy(&ret, more, sizeof(ret));
    return ret;
}
/* a where mask (all ones), else b. */
INLINE v16 v_pick(i16 mask, v16 a, v16 b) { return (v16)(((i16)a & mask) | ((i16)b & ~mask)); }
INLINE v16 v_max(v16 a, v16 b) { return v_pick(v_more(a, b), a, b); }
INLINE v16 v_min(v16 a, v16 b) { return v_pick(v_more(b, a), a, b); }
INLINE v16 v_abs(v16 a) { return (v16)((i16)a & i_all(0x7fffffff)); }

/* In a fixed order, so that it does not depend on the compiler's mood. */
INLINE float v_sum(v16 a)
{
    float t[16];

    v_store(t, a);
    for (int w = 8; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            t[i] += t[i + w];
    return t[0];
}

INLINE float v_highest(v16 a)
{
    float t[16];

    v_store(t, a);
    for (int w = 8; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            t[i] = t[i] > t[i + w] ? t[i] : t[i + w];
    return t[0];
}

/* In each lane the highest of n values, a multiple of 16, and `least`. */
INLINE vreg r_highest(const float *x, size_t n, float least)
{
    vreg high[PARTS];
    v16 all;

    for (int p = 0; p < PARTS; p++)
        high[p] = r_all(least);
    for (size_t i = 0; i < n; i += 16)
        for (int p = 0; p < PARTS; p++)
            high[p] = r_max(high[p], r_load(x + i + p * LANES));
    memcpy(&all, high, sizeof(all));
    return r_all(v_highest(all));
}

/* 2^x: x = n + f with f in [-1/2, 1/2], a polynomial for 2^f (relative error 2e-7), n into the
 * exponent. Below -126 it is 0 (softmax's far tail); above 127 it is not used. */
INLINE vreg r_exp2(vreg x)
{
    const vreg magic = r_all(0x1.8p23f); /* adding it rounds to an integer */
    vreg n, f, p;
    ireg small = x < r_all(-126.0f);

    x = r_max(x, r_all(-126.0f));
    n = x + magic;
    f = x - (n - magic);
    p = r_all(1.535336188319500e-4f);
    p = p * f + r_all(1.339887440266574e-3f);
    p = p * f + r_all(9.618437357674640e-3f);
    p = p * f + r_all(5.550332471162809e-2f);
    p = p * f + r_all(2.402264791363012e-1f);
    p = p * f + r_all(6.931472028550421e-1f);
    p = p * f + r_all(1.0f);
    p = (vreg)((ireg)p + (((ireg)n) << 23));
    return (vreg)((ireg)p & ~small);
}

/* e^x, relative error 2e-7: x = n ln 2 + f, f's series to its seventh power, 2^n by the exponent.
 * Below -87 and above 88 as there; a NaN stays one. */
INLINE vreg r_exp(vreg x)
{
    const vreg magic = r_all(0x1.8p23f); /* adding it rounds to an integer */
    vreg rounded, n, f, p;

    x = r_pick(x < r_all(-87.0f), r_all(-87.0f), x);
    x = r_pick(x > r_all(88.0f), r_all(88.0f), x);
    rounded = x * r_all(1.44269504f) + magic;
    n = rounded - magic;
    f = (x - n * r_all(0x1.62ep-1f)) - n * r_all(0x1.0bfbe8p-15f); /* ln 2, the first part exact */
    p = r_all(1.0f / 5040.0f);
    p = p * f + r_all(1.0f / 720.0f);
    p = p * f + r_all(1.0f / 120.0f);
    p = p * f + r_all(1.0f / 24.0f);
    p = p * f + r_all(1.0f / 6.0f);
    p = p * f + r_all(0.5f);
    p = p * f + r_all(1.0f);
    p = p * f + r_all(1.0f);
    return p * (vreg)((((ireg)rounded) << 23) + ((ireg){0} + (127 << 23)));
}

INLINE vreg r_sigmoid(vreg x) { return r_all(1.0f) / (r_all(1.0f) + r_exp(-x)); }

/* tanh(x), relative error 3e-7: its continued fraction for |x| < 1, where 1 - e^-2|x| would lose
 * digits. */
INLINE vreg r_tanh(vreg x)
{
    const ireg sign = (ireg){0} + (int32_t)0x80000000u;
    vreg a = (vreg)((ireg)x & ~sign), e = r_exp(a * r_all(-2.0f)), z = x * x, near, far;

    near = x * ((z + r_all(105.0f)) * z + r_all(945.0f)) /
           ((z * r_all(15.0f) + r_all(420.0f)) * z + r_all(945.0f));
    far = (r_all(1.0f) - e) / (r_all(1.0f) + e);
    return r_pick(a < r_all(1.0f), near, (vreg)((ireg)far | ((ireg)x & sign)));
}

INLINE v16 v_exp2(v16 x)
{
    vreg part[PARTS];

    memcpy(part, &x, sizeof(x));
    for (int i = 0; i < PARTS; i++)
        part[i] = r_exp2(part[i]);
    memcpy(&x, part, sizeof(x));
    return x;
}

/* erf(x), absolute error 1.5e-7 (Abramowitz and Stegun 7.1.26). */
INLINE vreg r_erf(vreg x)
{
    const ireg sign = (ireg){0} + (int32_t)0x80000000u;
    vreg a = (vreg)((ireg)x & ~sign), t = r_all(1.0f) / (a * r_all(0.3275911f) + r_all(1.0f)), p;

    p = r_all(1.061405429f);
    p = p * t + r_all(-1.453152027f);
    p = p * t + r_all(1.421413741f);
    p = p * t + r_all(-0.284496736f);
    p = p * t + r_all(0.254829592f);
    p = r_all(1.0f) - p * t * r_exp2(a * a * r_all(-1.4426950408889634f));
    return (vreg)((ireg)p | ((ireg)x & sign));
}

INLINE vreg r_gelu(vreg x)
{
    return x * r_all(0.5f) * (r_all(1.0f) + r_erf(x * r_all(0.70710678118654752f)));
}

INLINE v16 v_gelu(v16 x)
{
    vreg part[PARTS];

    memcpy(part, &x, sizeof(x));
    for (int i = 0; i < PARTS; i++)
        part[i] = r_gelu(part[i]);
    memcpy(&x, part, sizeof(x));
    return x;
}

/* log10(x) for normal positive x: exponent and a series in s = (m-1)/(m+1), m in [0.7, 1.42). */
INLINE v16 v_log10(v16 x)
{
    i16 bits = (i16)x - i_all(0x3f333333); /* 0.7 */
    i16 e = bits >> 23;
    v16 m = (v16)((i16)x - (e << 23)), s, z, p;

    s = (m - v_all(1.0f)) / (m + v_all(1.0f));
    z = s * s;
    p = v_all(2.0f / 11.0f);
    p = p * z + v_all(2.0f / 9.0f);
    p = p * z + v_all(2.0f / 7.0f);
    p = p * z + v_all(2.0f / 5.0f);
    p = p * z + v_all(2.0f / 3.0f);
    p = p * z + v_all(2.0f);
    return __builtin_convertvector(e, v16) * v_all(0.30102999566398120f) +
           p * s * v_all(0.43429448190325183f);
}

#endif
