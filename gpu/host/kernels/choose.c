/* The choice of a token needs these of a row's logits: the largest one, and sums of exponentials.
 *
 * A sum is that of number_exp (base/number.h), in the order of the ids, to the same bits: the same
 * additions and multiplications, of several at once, none of them fused with another (this file
 * alone is compiled without that). */
#include "gpu/host/kernels/isa.h"
#include "gpu/host/vec.h"

#define DOUBLES (LANES / 2)
#define TOGETHER 16 /* chains enough to hide what each step of the series waits for */

typedef int64_t lreg __attribute__((vector_size(LANES * 4)));

INLINE dreg d_all(double x) { return (dreg){0} + x; }

/* number_exp's steps, one for one. */
INLINE dreg d_exp(dreg x)
{
    const double log2e = 1.4426950408889634, hi = 6.93147180369123816490e-01,
                 lo = 1.90821492927058770002e-10, round = 6755399441055744.0;
    static const double series[] = {1.0 / 479001600.0,
                                    1.0 / 39916800.0,
                                    1.0 / 3628800.0,
                                    1.0 / 362880.0,
                                    1.0 / 40320.0,
                                    1.0 / 5040.0,
                                    1.0 / 720.0,
                                    1.0 / 120.0,
                                    1.0 / 24.0,
                                    1.0 / 6.0,
                                    0.5};
    lreg seen = x >= d_all(-700.0); /* not a NaN either */
    dreg rounded = x * d_all(log2e) + d_all(round), k = rounded - d_all(round);
    dreg r = (x - k * d_all(hi)) - k * d_all(lo), p = d_all(1.0 / 6227020800.0), scale;

#pragma GCC unroll 16
    for (size_t i = 0; i < sizeof(series) / sizeof(series[0]); i++)
        p = p * r + d_all(series[i]);
    p = p * r * r + r + d_all(1.0);
    /* k is what the lowest bits of `rounded` say; only its own and the exponent's are kept. */
    scale = (dreg)(((lreg)rounded + 1023) << 52);
    return (dreg)((lreg)(p * scale) & seen);
}

/* sum + number_exp((x[i] - max) / temperature) for 16 of them. Without a temperature nothing is
 * divided, which would give the same. */
INLINE double add_block(double sum, const float *x, double max, double temperature)
{
    double t[TOGETHER];

#pragma GCC unroll 8
    for (size_t i = 0; i < TOGETHER; i += DOUBLES) {
        dreg below = d_load(x + i) - d_all(max), e;

        e = d_exp(temperature == 1.0 ? below : below / d_all(temperature));
        memcpy(t + i, &e, sizeof(e));
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < TOGETHER; i++)
        sum += t[i];
    return sum;
}

double KERNEL(exp_sum)(double sum, const float *x, size_t n, double max, double temperature)
{
    size_t i = 0;

    for (; i + TOGETHER <= n; i += TOGETHER)
        sum = add_block(sum, x + i, max, temperature);
    if (i < n) {
        float rest[TOGETHER];

        for (size_t r = 0; r < TOGETHER; r++)
            rest[r] = i + r < n ? x[i + r] : -__builtin_inff(); /* adds a zero */
        sum = add_block(sum, rest, max, temperature);
    }
    return sum;
}

/* Whether one of 16 is larger. */
INLINE bool any_larger(const float *x, float than)
{
    ireg larger = {0};
    int64_t any[LANES / 2], all = 0;

#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++)
        larger |= r_load(x + p * LANES) > r_all(than);
    memcpy(any, &larger, sizeof(larger));
#pragma GCC unroll 8
    for (int i = 0; i < LANES / 2; i++)
        all |= any[i];
    return all != 0;
}

float KERNEL(largest)(const float *x, size_t n, size_t *at)
{
    float max = -__builtin_inff();
    size_t i = 0;

    while (i < n) {
        if (i + TOGETHER <= n && !any_larger(x + i, max)) {
            i += TOGETHER;
            continue;
        }
        for (size_t end = i + TOGETHER < n ? i + TOGETHER : n; i < end; i++)
            if (x[i] > max) {
                max = x[i];
                *at = i;
            }
    }
    return max;
}
