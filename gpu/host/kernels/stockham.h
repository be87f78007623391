/* gpu/host/kernels/stockham.h - complex Fourier transforms, one in each lane of a register.
 *
 * Stockham's method: every stage of radix 2, 3, 4 or 5 reads one buffer and writes the other, in
 * order, so that nothing has to be reversed. In float64. The steps are those of tests/common/fft.c,
 * and so are the bits. */
#ifndef NIGHTSHIFT_GPU_HOST_KERNELS_STOCKHAM_H
#define NIGHTSHIFT_GPU_HOST_KERNELS_STOCKHAM_H

#include "gpu/host/vec.h"

#define TRANSFORMS (LANES / 2) /* at once */

struct complexes {
    dreg re, im;
};

/* e^(-2 pi i k / n) is cosine[k] - i sine[k] */
struct turns {
    const double *cosine, *sine;
    size_t n;
};

INLINE struct complexes c_add(struct complexes a, struct complexes b)
{
    return (struct complexes){a.re + b.re, a.im + b.im};
}

INLINE struct complexes c_sub(struct complexes a, struct complexes b)
{
    return (struct complexes){a.re - b.re, a.im - b.im};
}

INLINE struct complexes c_scale(struct complexes a, double s)
{
    return (struct complexes){a.re * s, a.im * s};
}

/* a - i b and a + i b */
INLINE struct complexes c_sub_i(struct complexes a, struct complexes b)
{
    return (struct complexes){a.re + b.im, a.im - b.re};
}

INLINE struct complexes c_add_i(struct complexes a, struct complexes b)
{
    return (struct complexes){a.re - b.im, a.im + b.re};
}

/* a e^(-2 pi i k / n) */
INLINE struct complexes c_turn(const struct turns *t, struct complexes a, size_t k)
{
    double c = t->cosine[k], s = t->sine[k];

    return (struct complexes){a.re * c + a.im * s, a.im * c - a.re * s};
}

INLINE void radix2(struct complexes a[5])
{
    struct complexes b = a[1];

    a[1] = c_sub(a[0], b);
    a[0] = c_add(a[0], b);
}

INLINE void radix3(struct complexes a[5])
{
    struct complexes sum = c_add(a[1], a[2]);
    struct complexes turned = c_scale(c_sub(a[1], a[2]), 0.86602540378443865); /* sqrt 3/4 */
    struct complexes mid = c_sub(a[0], c_scale(sum, 0.5));

    a[0] = c_add(a[0], sum);
    a[1] = c_sub_i(mid, turned);
    a[2] = c_add_i(mid, turned);
}

INLINE void radix4(struct complexes a[5])
{
    struct complexes s0 = c_add(a[0], a[2]), d0 = c_sub(a[0], a[2]);
    struct complexes s1 = c_add(a[1], a[3]), d1 = c_sub(a[1], a[3]);

    a[0] = c_add(s0, s1);
    a[1] = c_sub_i(d0, d1);
    a[2] = c_sub(s0, s1);
    a[3] = c_add_i(d0, d1);
}

INLINE void radix5(struct complexes a[5])
{
    const double c1 = 0.30901699437494742, c2 = -0.80901699437494742; /* cos 2 pi/5, 4 pi/5 */
    const double s1 = 0.95105651629515357, s2 = 0.58778525229247313;  /* sin */
    struct complexes p1 = c_add(a[1], a[4]), m1 = c_sub(a[1], a[4]);
    struct complexes p2 = c_add(a[2], a[3]), m2 = c_sub(a[2], a[3]);
    struct complexes u1 = c_add(a[0], c_add(c_scale(p1, c1), c_scale(p2, c2)));
    struct complexes u2 = c_add(a[0], c_add(c_scale(p1, c2), c_scale(p2, c1)));
    struct complexes w1 = c_add(c_scale(m1, s1), c_scale(m2, s2));
    struct complexes w2 = c_sub(c_scale(m1, s2), c_scale(m2, s1));

    a[0] = c_add(a[0], c_add(p1, p2));
    a[1] = c_sub_i(u1, w1);
    a[2] = c_sub_i(u2, w2);
    a[3] = c_add_i(u2, w2);
    a[4] = c_add_i(u1, w1);
}

/* One stage: transforms of `left` points, `done` of them interleaved. radix: a constant. */
INLINE void stockham_stage(const struct turns *t, const struct complexes *x, struct complexes *y,
                           size_t left, size_t done, const size_t radix)
{
    const size_t m = left / radix, step = t->n / left;
    struct complexes a[5];

    for (size_t p = 0; p < m; p++) {
        for (size_t q = 0; q < done; q++) {
            for (size_t j = 0; j < radix; j++)
                a[j] = x[q + done * (p + m * j)];
            switch (radix) {
            case 2:
                radix2(a);
                break;
            case 3:
                radix3(a);
                break;
            case 4:
                radix4(a);
                break;
            default:
                radix5(a);
            }
            y[q + done * radix * p] = a[0];
            for (size_t k = 1; k < radix; k++)
                y[q + done * (radix * p + k)] = c_turn(t, a[k], p * k * step);
        }
    }
}

#endif
