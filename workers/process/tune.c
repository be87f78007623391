#include "workers/process/tune.h"

#include <math.h>

/* Powers of two, and from 16 on the halfway stones between them. */
static uint32_t step_after(uint32_t size)
{
    uint32_t power = 1;

    if (size == 0)
        return 1;
    while (power <= size / 2)
        power *= 2;
    if (size < 16)
        return power * 2;
    return size < power + power / 2 ? power + power / 2 : power * 2;
}

static double best_of(const struct tune *t, uint32_t count)
{
    double best = 0;

    for (uint32_t i = 0; i < count; i++)
        best = fmax(best, t->samples[i].rate);
    return best;
}

/* Did the k-th sample give less than TUNE_NEAR over all before it? */
static int is_flat(const struct tune *t, uint32_t k)
{
    return k > 0 && t->samples[k].rate < best_of(t, k) * (1 + TUNE_NEAR);
}

uint32_t tune_next(const struct tune *t, uint32_t most)
{
    uint32_t n = t->count, last, next;

    if (n == 0)
        return t->first >= most ? most : t->first ? t->first : 1;
    last = t->samples[n - 1].size;
    if (n == TUNE_STEPS_MAX || last >= most || t->samples[n - 1].rate == 0)
        return 0;
    if (n > 2 && is_flat(t, n - 1) && is_flat(t, n - 2))
        return 0;
    next = step_after(last);
    return next < most ? next : most;
}

void tune_add(struct tune *t, uint32_t size, double rate)
{
    if (t->count == TUNE_STEPS_MAX)
        return;
    t->samples[t->count++] = (struct tune_sample){size, isfinite(rate) && rate > 0 ? rate : 0};
}

uint32_t tune_pick(const struct tune *t, double *rate)
{
    double best = best_of(t, t->count);

    for (uint32_t i = 0; i < t->count; i++)
        if (t->samples[i].rate > 0 && t->samples[i].rate >= best * (1 - TUNE_NEAR)) {
            *rate = t->samples[i].rate;
            return t->samples[i].size;
        }
    return 0;
}
