#include "workers/speakers/cluster/rows_kernels.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

typedef float v16 __attribute__((vector_size(64)));
typedef int32_t i16 __attribute__((vector_size(64)));
typedef uint8_t b16 __attribute__((vector_size(16)));
typedef float v8 __attribute__((vector_size(32)));
typedef double d8 __attribute__((vector_size(64)));
typedef float v4 __attribute__((vector_size(16)));

/* Vectors stay in variables, one each: of arrays of them the compiler makes memory. */
#define LOAD(ret, from)                    \
    do {                                   \
        memcpy(&(ret), from, sizeof(ret)); \
    } while (0)

/* `bit` for the points whose bound is not above the limit. */
#define HITS(q, dot, bit)                                                      \
    ((norm - 2.0f * (dot) + (head[q]->tail - tail) * (head[q]->tail - tail) <= \
      limits[q] - head[q]->norm) &                                             \
     (bit))

INLINE void bounds_of_one(const struct panel *p, const struct head *const head[],
                          const float limits[], uint8_t hits[LANES])
{
    v16 a = {0}, b = {0}, c = {0}, d = {0}, at, norm, tail;
    b16 narrow;

    LOAD(norm, p->norm);
    LOAD(tail, p->tail);
    for (uint32_t k = 0; k < HEAD; k += 4) { /* four sums, for the time that one takes */
        LOAD(at, p->at[k]);
        a += head[0]->at[k] * at;
        LOAD(at, p->at[k + 1]);
        b += head[0]->at[k + 1] * at;
        LOAD(at, p->at[k + 2]);
        c += head[0]->at[k + 2] * at;
        LOAD(at, p->at[k + 3]);
        d += head[0]->at[k + 3] * at;
    }
    narrow = __builtin_convertvector(HITS(0, (a + b) + (c + d), 1), b16);
    memcpy(hits, &narrow, sizeof(narrow));
}

INLINE void bounds_of_six(const struct panel *p, const struct head *const head[],
                          const float limits[], uint8_t hits[LANES])
{
    v16 a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, at, norm, tail;
    b16 narrow;

    LOAD(norm, p->norm);
    LOAD(tail, p->tail);
    for (uint32_t k = 0; k < HEAD; k++) {
        LOAD(at, p->at[k]);
        a += head[0]->at[k] * at;
        b += head[1]->at[k] * at;
        c += head[2]->at[k] * at;
        d += head[3]->at[k] * at;
        e += head[4]->at[k] * at;
        f += head[5]->at[k] * at;
    }
    narrow = __builtin_convertvector(HITS(0, a, 1) | HITS(1, b, 2) | HITS(2, c, 4) | HITS(3, d, 8) |
                                         HITS(4, e, 16) | HITS(5, f, 32),
                                     b16);
    memcpy(hits, &narrow, sizeof(narrow));
}

/* The sum of a vector's lanes. */
#define SUM(ret, x)                                                      \
    do {                                                                 \
        v4 quarters[4], all;                                             \
                                                                         \
        memcpy(quarters, &(x), sizeof(quarters));                        \
        all = (quarters[0] + quarters[1]) + (quarters[2] + quarters[3]); \
        (ret) = (all[0] + all[1]) + (all[2] + all[3]);                   \
    } while (0)

INLINE float apart_of(const struct box *a, const struct box *b)
{
    v16 sum = {0}, low, high, gap, other;
    float ret;

    for (uint32_t k = 0; k < HEAD; k += LANES) {
        LOAD(low, a->low + k);
        LOAD(high, b->high + k);
        gap = low - high;
        LOAD(low, b->low + k);
        LOAD(high, a->high + k);
        other = low - high;
        gap = (v16)((i16)gap & (gap > 0.0f)); /* one of them is 0 */
        other = (v16)((i16)other & (other > 0.0f));
        sum += gap * gap + other * other;
    }
    SUM(ret, sum);
    return ret;
}

INLINE void dots_of(const float *x, const float *const y[DOTS], uint32_t stride, float ret[DOTS])
{
    v16 a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, at, with;

    for (uint32_t i = 0; i < stride; i += LANES) {
        LOAD(at, x + i);
        LOAD(with, y[0] + i);
        a += at * with;
        LOAD(with, y[1] + i);
        b += at * with;
        LOAD(with, y[2] + i);
        c += at * with;
        LOAD(with, y[3] + i);
        d += at * with;
        LOAD(with, y[4] + i);
        e += at * with;
        LOAD(with, y[5] + i);
        f += at * with;
    }
    SUM(ret[0], a);
    SUM(ret[1], b);
    SUM(ret[2], c);
    SUM(ret[3], d);
    SUM(ret[4], e);
    SUM(ret[5], f);
}

INLINE void along_of(const double *axes, const float *x, uint32_t stride, double ret[HEAD])
{
    for (uint32_t k = 0; k < HEAD; k += 2) {
        const double *axis = axes + (size_t)k * stride, *next = axis + stride;
        d8 a = {0}, b = {0}, at, with;
        double sum = 0.0, other = 0.0;
        v8 narrow;

        for (uint32_t i = 0; i < stride; i += 8) {
            LOAD(narrow, x + i);
            at = __builtin_convertvector(narrow, d8);
            LOAD(with, axis + i);
            a += at * with;
            LOAD(with, next + i);
            b += at * with;
        }
        for (uint32_t i = 0; i < 8; i++) {
            sum += a[i];
            other += b[i];
        }
        ret[k] = sum;
        ret[k + 1] = other;
    }
}

#define KERNELS(name, target)                                                                    \
    target static void bounds_##name(const struct panel *p, const struct head *const head[],     \
                                     const float limits[], uint32_t n, uint8_t hits[LANES])      \
    {                                                                                            \
        if (n == 1)                                                                              \
            bounds_of_one(p, head, limits, hits);                                                \
        else                                                                                     \
            bounds_of_six(p, head, limits, hits);                                                \
    }                                                                                            \
    target static float apart_##name(const struct box *a, const struct box *b)                   \
    {                                                                                            \
        return apart_of(a, b);                                                                   \
    }                                                                                            \
    target static void dots_##name(const float *x, const float *const y[DOTS], uint32_t stride,  \
                                   float ret[DOTS])                                              \
    {                                                                                            \
        dots_of(x, y, stride, ret);                                                              \
    }                                                                                            \
    target static void along_##name(const double *axes, const float *x, uint32_t stride,         \
                                    double ret[HEAD])                                            \
    {                                                                                            \
        along_of(axes, x, stride, ret);                                                          \
    }                                                                                            \
    static const struct rows_kernels kernels_##name = {bounds_##name, apart_##name, dots_##name, \
                                                       along_##name};

KERNELS(plain, )
#ifdef __x86_64__
KERNELS(avx2, __attribute__((target("avx2,fma"))))
KERNELS(avx512, __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma"))))
#endif

const struct rows_kernels *rows_kernels(void)
{
#ifdef __x86_64__
    const char *most = getenv("NIGHTSHIFT_CPU");
    bool plain = most != NULL && strcmp(most, "plain") == 0;
    bool avx2 = most != NULL && strcmp(most, "avx2") == 0;

    if (!plain && !avx2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
        return &kernels_avx512;
    if (!plain && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &kernels_avx2;
#endif
    return &kernels_plain;
}
