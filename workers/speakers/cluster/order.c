#include "workers/speakers/cluster/order.h"

#include <stddef.h>

#define SAMPLE 128u /* points that a spread is taken from */

struct ordering {
    const float *points;
    uint32_t stride, dims, together;
    uint32_t *order;
};

static float value(const struct ordering *o, uint32_t at, uint32_t dim)
{
    return o->points[(size_t)o->order[at] * o->stride + dim];
}

/* The dimension with the greatest variance among some of [from, to). */
static uint32_t widest(const struct ordering *o, uint32_t from, uint32_t to)
{
    uint32_t step = (to - from) / SAMPLE + 1, best = 0;
    double most = -1.0;

    for (uint32_t d = 0; d < o->dims; d++) {
        double sum = 0.0, squares = 0.0, n = 0.0, spread;

        for (uint32_t i = from; i < to; i += step, n++) {
            sum += (double)value(o, i, d);
            squares += (double)value(o, i, d) * (double)value(o, i, d);
        }
        spread = squares - sum * sum / n;
        if (spread > most) {
            most = spread;
            best = d;
        }
    }
    return best;
}

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t kept = *a;

    *a = *b;
    *b = kept;
}

/* Hoare's selection: nothing before `middle` is greater than what is behind it. Equal values change
 * sides, too, so that many of them do not make it slow; values laid out against it can make it
 * quadratic, which the search that follows is in any case. */
static void halve(const struct ordering *o, int64_t from, int64_t to, int64_t middle, uint32_t dim)
{
    int64_t low = from, high = to - 1;

    while (low < high) {
        float pivot = value(o, (uint32_t)(low + (high - low) / 2), dim);
        int64_t i = low, k = high;

        while (i <= k) {
            while (value(o, (uint32_t)i, dim) < pivot)
                i++;
            while (value(o, (uint32_t)k, dim) > pivot)
                k--;
            if (i <= k)
                swap(&o->order[i++], &o->order[k--]);
        }
        if (middle <= k)
            high = k;
        else if (middle >= i)
            low = i;
        else
            return;
    }
}

/* Depth: the logarithm of n. */
static void split(const struct ordering *o, uint32_t from, uint32_t to)
{
    while (to - from > o->together) {
        uint32_t pieces = (to - from + o->together - 1) / o->together;
        uint32_t middle = from + (pieces + 1) / 2 * o->together;

        halve(o, from, to, middle, widest(o, from, to));
        split(o, from, middle);
        from = middle;
    }
}

void order_near(const float *points, uint32_t n, uint32_t stride, uint32_t dims, uint32_t together,
                uint32_t *ret)
{
    const struct ordering o = {points, stride, dims, together, ret};

    for (uint32_t i = 0; i < n; i++)
        ret[i] = i;
    split(&o, 0, n);
}
