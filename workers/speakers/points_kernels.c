#include "workers/speakers/points_kernels.h"

#include <string.h>

#include "base/cpu.h"

typedef float v4 __attribute__((vector_size(16)));
#if defined(__x86_64__)
typedef float v8 __attribute__((vector_size(32)));
typedef float v16 __attribute__((vector_size(64)));
#endif

#define INLINE static inline __attribute__((always_inline))

INLINE void find_hits(const float *norms, struct products *p, uint32_t n)
{
    memset(p->hits, 0, sizeof(p->hits));
    for (uint32_t q = 0; q < n; q++)
        for (uint32_t i = 0; i < LANES; i++)
            p->hits[i] |= (uint8_t)((norms[i] - 2.0f * p->dots[q][i] <= p->limits[q]) << q);
}

/* Vectors of the set's own width stay in variables, one each: of wider ones, and of arrays of them,
 * the compiler makes memory. `one` has four sums, for the time that one takes. */
#define AT(v, k) (*(const v *)(panel + (size_t)(k)*LANES + i))
#define PUT(q, sum) memcpy(p->dots[q] + i, &(sum), sizeof(sum))
#define KERNELS(name, v, target)                                                            \
    target static void one_##name(const float *panel, const float *norms, uint32_t stride,  \
                                  struct products *p)                                       \
    {                                                                                       \
        const float *x = p->query[0];                                                       \
                                                                                            \
        for (uint32_t i = 0; i < LANES; i += sizeof(v) / sizeof(float)) {                   \
            v a = {0}, b = {0}, c = {0}, d = {0};                                           \
                                                                                            \
            for (uint32_t k = 0; k < stride; k += 4) {                                      \
                a += x[k] * AT(v, k);                                                       \
                b += x[k + 1] * AT(v, k + 1);                                               \
                c += x[k + 2] * AT(v, k + 2);                                               \
                d += x[k + 3] * AT(v, k + 3);                                               \
            }                                                                               \
            a = (a + b) + (c + d);                                                          \
            PUT(0, a);                                                                      \
        }                                                                                   \
        find_hits(norms, p, 1);                                                             \
    }                                                                                       \
    target static void some_##name(const float *panel, const float *norms, uint32_t stride, \
                                   struct products *p)                                      \
    {                                                                                       \
        const float *const *x = p->query;                                                   \
                                                                                            \
        for (uint32_t i = 0; i < LANES; i += sizeof(v) / sizeof(float)) {                   \
            v a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0};                         \
                                                                                            \
            for (uint32_t k = 0; k < stride; k++) {                                         \
                v at = AT(v, k);                                                            \
                                                                                            \
                a += x[0][(size_t)k * LANES] * at;                                          \
                b += x[1][(size_t)k * LANES] * at;                                          \
                c += x[2][(size_t)k * LANES] * at;                                          \
                d += x[3][(size_t)k * LANES] * at;                                          \
                e += x[4][(size_t)k * LANES] * at;                                          \
                f += x[5][(size_t)k * LANES] * at;                                          \
            }                                                                               \
            PUT(0, a);                                                                      \
            PUT(1, b);                                                                      \
            PUT(2, c);                                                                      \
            PUT(3, d);                                                                      \
            PUT(4, e);                                                                      \
            PUT(5, f);                                                                      \
        }                                                                                   \
        find_hits(norms, p, QUERIES);                                                       \
    }                                                                                       \
    static const struct points_kernels kernels_##name = {one_##name, some_##name};

KERNELS(plain, v4, )
#if defined(__x86_64__)
KERNELS(avx2, v8, __attribute__((target("avx2,fma"))))
KERNELS(avx512, v16, __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma"))))
#endif

const struct points_kernels *points_kernels(void)
{
#if defined(__x86_64__)
    static const struct points_kernels *const sets[] = {&kernels_plain, &kernels_avx2,
                                                        &kernels_avx512, &kernels_avx512};

    return sets[cpu_isa()];
#else
    return &kernels_plain;
#endif
}
