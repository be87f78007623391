/* Softmax and median over rows of attention, to align tokens with the audio. */
#include "gpu/host/kernels/isa.h"

#include <math.h>

#include "gpu/host/vec.h"

INLINE vreg r_min(vreg a, vreg b) { return r_pick(a < b, a, b); }

void KERNEL(softmax)(float *x, size_t n)
{
    float t[BACKEND_MAX_KEYS], total;
    size_t whole = (n + 15) / 16 * 16;
    vreg part[PARTS], top;
    v16 sums;

    memcpy(t, x, n * sizeof(*t));
    for (size_t i = n; i < whole; i++)
        t[i] = -INFINITY;
    for (int p = 0; p < PARTS; p++)
        part[p] = r_all(0.0f);
    top = r_highest(t, whole, -INFINITY);
    for (size_t i = 0; i < whole; i += 16) {
        for (int p = 0; p < PARTS; p++) {
            vreg d = r_load(t + i + p * LANES) - top;
            vreg weight = r_pick(d < r_all(-87.0f), r_all(0.0f), r_exp(d));

            part[p] += weight;
            r_store(t + i + p * LANES, weight);
        }
    }
    memcpy(&sums, part, sizeof(sums));
    total = v_sum(sums);
    for (size_t i = 0; i < n; i++)
        x[i] = t[i] / total;
}

/* The smaller one into *a, the larger one into *b. */
INLINE void order(vreg *a, vreg *b)
{
    vreg low = r_min(*a, *b);

    *b = r_max(*a, *b);
    *a = low;
}

/* The median of seven. The least and the greatest of five values cannot be it: they are dropped,
 * and a sixth value is added. The same for these four with the seventh; the middle one of three is
 * left. */
INLINE vreg median(const float *x)
{
    vreg a = r_load(x), b = r_load(x + 1), c = r_load(x + 2), d = r_load(x + 3);
    vreg e = r_load(x + 4), f = r_load(x + 5), g = r_load(x + 6);

    order(&a, &b);
    order(&c, &d);
    order(&a, &c);
    order(&b, &d);
    order(&a, &e);
    order(&e, &d); /* a and d are out */
    order(&b, &c);
    order(&e, &f);
    order(&b, &e);
    order(&c, &f); /* b and f are out */
    order(&c, &e);
    return r_max(c, r_min(e, g));
}

void KERNEL(add_median)(const float *x, size_t n, float *sum)
{
    for (size_t i = 0; i < n; i += LANES)
        r_store(sum + i, r_load(sum + i) + median(x + i));
}
