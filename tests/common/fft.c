/* n real values are n / 2 complex ones (even ones with odd ones as imaginary parts), transformed by
 * Stockham's method: every stage of radix 4, 2, 3 or 5 reads one buffer and writes the other, in
 * order, so that nothing has to be reversed. The spectrum of the real values follows from the
 * symmetry of its even and odd parts. */
#include "tests/common/fft.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define MAX_STAGES 16 /* 4^8 = FFT_MAX */

struct complex {
    double re, im;
};

struct fft {
    uint32_t n, half;
    uint32_t stages;
    uint8_t radix[MAX_STAGES];
    struct complex turn[]; /* [n]: e^(-2 pi i k / n) */
};

static struct complex c_add(struct complex a, struct complex b)
{
    return (struct complex){a.re + b.re, a.im + b.im};
}

static struct complex c_sub(struct complex a, struct complex b)
{
    return (struct complex){a.re - b.re, a.im - b.im};
}

static struct complex c_mul(struct complex a, struct complex b)
{
    return (struct complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static struct complex c_scale(struct complex a, double s)
{
    return (struct complex){a.re * s, a.im * s};
}

/* a - i b and a + i b */
static struct complex c_sub_i(struct complex a, struct complex b)
{
    return (struct complex){a.re + b.im, a.im - b.re};
}

static struct complex c_add_i(struct complex a, struct complex b)
{
    return (struct complex){a.re - b.im, a.im + b.re};
}

static void radix2(struct complex a[5])
{
    struct complex b = a[1];

    a[1] = c_sub(a[0], b);
    a[0] = c_add(a[0], b);
}

static void radix3(struct complex a[5])
{
    struct complex sum = c_add(a[1], a[2]), turned = c_scale(c_sub(a[1], a[2]), sqrt(0.75));
    struct complex mid = c_sub(a[0], c_scale(sum, 0.5));

    a[0] = c_add(a[0], sum);
    a[1] = c_sub_i(mid, turned);
    a[2] = c_add_i(mid, turned);
}

static void radix4(struct complex a[5])
{
    struct complex s0 = c_add(a[0], a[2]), d0 = c_sub(a[0], a[2]);
    struct complex s1 = c_add(a[1], a[3]), d1 = c_sub(a[1], a[3]);

    a[0] = c_add(s0, s1);
    a[1] = c_sub_i(d0, d1);
    a[2] = c_sub(s0, s1);
    a[3] = c_add_i(d0, d1);
}

static void radix5(struct complex a[5])
{
    const double c1 = 0.30901699437494742, c2 = -0.80901699437494742; /* cos 2 pi/5, 4 pi/5 */
    const double s1 = 0.95105651629515357, s2 = 0.58778525229247313;  /* sin */
    struct complex p1 = c_add(a[1], a[4]), m1 = c_sub(a[1], a[4]);
    struct complex p2 = c_add(a[2], a[3]), m2 = c_sub(a[2], a[3]);
    struct complex u1 = c_add(a[0], c_add(c_scale(p1, c1), c_scale(p2, c2)));
    struct complex u2 = c_add(a[0], c_add(c_scale(p1, c2), c_scale(p2, c1)));
    struct complex w1 = c_add(c_scale(m1, s1), c_scale(m2, s2));
    struct complex w2 = c_sub(c_scale(m1, s2), c_scale(m2, s1));

    a[0] = c_add(a[0], c_add(p1, p2));
    a[1] = c_sub_i(u1, w1);
    a[2] = c_sub_i(u2, w2);
    a[3] = c_add_i(u2, w2);
    a[4] = c_add_i(u1, w1);
}

static void butterfly(struct complex a[5], uint32_t radix)
{
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
}

/* One stage: transforms of `left` points, `done` of them interleaved. Inlined once for each radix.
 */
static inline void stage_of(const struct fft *f, const struct complex *x, struct complex *y,
                            size_t left, size_t done, const uint32_t radix)
{
    const size_t m = left / radix, step = f->n / left;
    struct complex a[5];

    for (size_t p = 0; p < m; p++) {
        for (size_t q = 0; q < done; q++) {
            for (size_t j = 0; j < radix; j++)
                a[j] = x[q + done * (p + m * j)];
            butterfly(a, radix);
            y[q + done * radix * p] = a[0];
            for (size_t k = 1; k < radix; k++)
                y[q + done * (radix * p + k)] = c_mul(a[k], f->turn[p * k * step]);
        }
    }
}

static void run_fft_stage(const struct fft *f, const struct complex *x, struct complex *y,
                          size_t left, size_t done, uint32_t radix)
{
    switch (radix) {
    case 2:
        stage_of(f, x, y, left, done, 2);
        break;
    case 3:
        stage_of(f, x, y, left, done, 3);
        break;
    case 4:
        stage_of(f, x, y, left, done, 4);
        break;
    default:
        stage_of(f, x, y, left, done, 5);
    }
}

/* The factors of n / 2, largest stages first; false when one is above 5. */
static bool factor_half_length(struct fft *f)
{
    static const uint8_t radices[] = {4, 2, 3, 5};
    uint32_t left = f->half;

    for (size_t i = 0; i < sizeof(radices); i++)
        for (; left % radices[i] == 0; left /= radices[i])
            f->radix[f->stages++] = radices[i];
    return left == 1;
}

int fft_new(uint32_t n, struct fft **ret, struct err *err)
{
    struct fft *f;

    if (n < 2 || n > FFT_MAX || n % 2)
        return err_set(err, ERR_USAGE, "no Fourier transform of %u values", n);
    f = calloc(1, sizeof(*f) + n * sizeof(f->turn[0]));
    if (!f)
        return err_set(err, ERR_NOMEM, "no memory for a Fourier transform");
    f->n = n;
    f->half = n / 2;
    if (!factor_half_length(f)) {
        fft_free(f);
        return err_set(err, ERR_USAGE, "no Fourier transform of %u values", n);
    }
    for (uint32_t k = 0; k < n; k++) {
        double angle = 2.0 * 3.14159265358979323846 * k / n;

        f->turn[k] = (struct complex){cos(angle), -sin(angle)};
    }
    *ret = f;
    return 0;
}

void fft_free(struct fft *f) { free(f); }

uint32_t fft_bins(const struct fft *f) { return f->half + 1; }

size_t fft_scratch(const struct fft *f) { return (size_t)2 * f->n; }

/* The half-length transform; where it lies then. */
static const struct complex *transform_half(const struct fft *f, const double *x, double *scratch)
{
    struct complex *from = (struct complex *)scratch, *to = from + f->half, *other;
    size_t left = f->half, done = 1;

    for (uint32_t i = 0; i < f->half; i++)
        from[i] = (struct complex){x[2 * i], x[2 * i + 1]};
    for (uint32_t i = 0; i < f->stages; i++) {
        run_fft_stage(f, from, to, left, done, f->radix[i]);
        left /= f->radix[i];
        done *= f->radix[i];
        other = from;
        from = to;
        to = other;
    }
    return from;
}

/* Frequency k of the real values, from the transform z of their pairs. */
static inline struct complex unpack_frequency(const struct fft *f, const struct complex *z,
                                              uint32_t k)
{
    struct complex a = z[k % f->half], b = z[(f->half - k) % f->half], even, odd;

    b.im = -b.im;
    even = c_scale(c_add(a, b), 0.5);
    odd = c_scale(c_sub(a, b), 0.5);
    return c_sub_i(even, c_mul(odd, f->turn[k]));
}

void fft_real(const struct fft *f, const double *x, double *scratch, double *re, double *im)
{
    const struct complex *z = transform_half(f, x, scratch);

    for (uint32_t k = 0; k <= f->half; k++) {
        struct complex v = unpack_frequency(f, z, k);

        re[k] = v.re;
        im[k] = v.im;
    }
}

void fft_power(const struct fft *f, const double *x, double *scratch, double *ret)
{
    const struct complex *z = transform_half(f, x, scratch);

    for (uint32_t k = 0; k <= f->half; k++) {
        struct complex v = unpack_frequency(f, z, k);

        ret[k] = v.re * v.re + v.im * v.im;
    }
}
