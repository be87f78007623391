#include "base/number.h"

#include <string.h>

double number_exp(double x)
{
    /* x = k ln 2 + r with |r| <= ln 2 / 2; the upper part of ln 2 has zeros enough at its end for
     * k * hi to be exact. e^r is its Taylor series to r^13: the rest is below 2^-60. */
    static const double log2e = 1.4426950408889634, hi = 6.93147180369123816490e-01,
                        lo = 1.90821492927058770002e-10, round = 6755399441055744.0;
    double k, r, p, scale;
    int64_t bits;

    if (!(x >= -700.0))
        return 0.0;
    k = (x * log2e + round) - round;
    r = (x - k * hi) - k * lo;
    p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r * r + r + 1.0;
    bits = ((int64_t)k + 1023) << 52;
    memcpy(&scale, &bits, sizeof(scale));
    return p * scale;
}

static uint64_t mix_bits(uint64_t z)
{
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t number_seed(uint64_t seed, uint64_t name) { return mix_bits(mix_bits(seed) ^ name); }

double number_uniform(uint64_t seed, uint64_t counter)
{
    return (double)(number_seed(seed, counter) >> 11) * 0x1p-53;
}
