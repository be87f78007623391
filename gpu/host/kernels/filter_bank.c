/* Frames of a filter bank, one in each lane. To the same bits on every processor: no
 * multiplication is fused with an addition (this file is compiled without that). */
#include <math.h>

#include "gpu/host/kernels/isa.h"
#include "gpu/host/kernels/stockham.h"

/* Sample i of each frame. */
INLINE dreg samples(const struct bank_job *j, size_t i)
{
    double x[TRANSFORMS];
    dreg ret;

    for (size_t f = 0; f < TRANSFORMS; f++)
        x[f] = (double)j->pcm[(f < j->frames ? f : 0) * j->spec->step + i];
    memcpy(&ret, x, sizeof(ret));
    return ret;
}

/* The frames as they are transformed; zeros behind their samples. */
INLINE void load(const struct bank_job *j, dreg *to)
{
    const struct filter_bank_spec *s = j->spec;
    dreg mean = {0}, before;

    for (size_t i = 0; i < s->frame && s->less_mean; i++)
        mean += samples(j, i);
    mean /= (double)s->frame;
    before = samples(j, 0) - mean;
    for (size_t i = 0; i < s->frame; i++) {
        dreg x = samples(j, i) - mean;

        to[i] = (x - s->pre_emphasis * before) * s->scale * j->window[i];
        before = x;
    }
    for (size_t i = s->frame; i < s->mel.fft; i++)
        to[i] = (dreg){0};
}

/* The transform of n / 2 pairs of values, in `from` or in `to`: where it lies then. */
INLINE const struct complexes *transform(const struct bank_job *j, const struct turns *t,
                                         struct complexes *from, struct complexes *to)
{
    size_t left = t->n / 2, done = 1;

    for (uint32_t i = 0; i < j->stages; i++) {
        struct complexes *other = from;
        size_t radix = j->radix[i];

        if (radix == 4)
            stockham_stage(t, from, to, left, done, 4);
        else if (radix == 2)
            stockham_stage(t, from, to, left, done, 2);
        else if (radix == 3)
            stockham_stage(t, from, to, left, done, 3);
        else
            stockham_stage(t, from, to, left, done, 5);
        left /= radix;
        done *= radix;
        from = to;
        to = other;
    }
    return from;
}

/* |.|^2 of frequency k of the real values, from the transform z of their pairs. */
INLINE dreg power_of(const struct turns *t, const struct complexes *z, size_t k)
{
    size_t half = t->n / 2;
    struct complexes a = z[k % half], b = z[(half - k) % half], even, odd, v;

    b.im = -b.im;
    even = c_scale(c_add(a, b), 0.5);
    odd = c_scale(c_sub(a, b), 0.5);
    v = c_sub_i(even, c_turn(t, odd, k));
    return v.re * v.re + v.im * v.im;
}

/* Square roots. */
INLINE dreg roots(dreg x)
{
    double each[TRANSFORMS];

    memcpy(each, &x, sizeof(x));
    for (size_t f = 0; f < TRANSFORMS; f++)
        each[f] = sqrt(each[f]);
    memcpy(&x, each, sizeof(x));
    return x;
}

void KERNEL(filter_bank)(const struct bank_job *j)
{
    const size_t n = j->spec->mel.fft, half = n / 2;
    const struct turns t = {j->cosine, j->sine, n};
    struct complexes *x = j->scratch, *y = x + half;
    dreg *power = (dreg *)(y + half);
    const double *weight = j->weight;
    const struct complexes *z;

    load(j, (dreg *)x); /* pairs of values are complex ones as they lie */
    z = transform(j, &t, x, y);
    for (size_t k = 0; k <= half; k++)
        power[k] = power_of(&t, z, k);
    for (size_t k = 0; k <= half && j->spec->magnitudes; k++)
        power[k] = roots(power[k]);
    for (uint32_t b = 0; b < j->spec->mel.bins; b++) {
        double sums[TRANSFORMS];
        dreg sum = {0};

        for (uint32_t i = 0; i < j->count[b]; i++)
            sum += power[j->first[b] + i] * weight[i];
        weight += j->count[b];
        memcpy(sums, &sum, sizeof(sums));
        for (size_t f = 0; f < j->frames; f++)
            j->bins[f * j->spec->mel.bins + b] = sums[f];
    }
}
