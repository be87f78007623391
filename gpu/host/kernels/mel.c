/* The log-mel spectrogram of sixteen frames at once.
 *
 * In float64, because the quietest bin that the clamp keeps has 10^-4 of the loudest one's
 * amplitude, and a float32 transform would be wrong there by more than the parity bound. Frames i
 * and i + 8 share a transform as its real and imaginary parts; eight transforms share a vector. A
 * Stockham transform of radices 4, 4, 5, 5: no bit reversal, every stage reads and writes whole
 * vectors. */
#include "gpu/host/kernels/isa.h"
#include "gpu/host/vec.h"

struct complex8 {
    d8 re, im;
};

INLINE struct complex8 c_add(struct complex8 a, struct complex8 b)
{
    return (struct complex8){a.re + b.re, a.im + b.im};
}

INLINE struct complex8 c_sub(struct complex8 a, struct complex8 b)
{
    return (struct complex8){a.re - b.re, a.im - b.im};
}

/* a e^(-2 pi i k / 400) */
INLINE struct complex8 c_turn(const struct mel_tables *t, struct complex8 a, size_t k)
{
    double c = t->cosine[k], s = t->sine[k];

    return (struct complex8){a.re * c + a.im * s, a.im * c - a.re * s};
}

INLINE void radix4(struct complex8 a[4])
{
    struct complex8 s0 = c_add(a[0], a[2]), d0 = c_sub(a[0], a[2]);
    struct complex8 s1 = c_add(a[1], a[3]), d1 = c_sub(a[1], a[3]);

    a[0] = c_add(s0, s1);
    a[2] = c_sub(s0, s1);
    a[1] = (struct complex8){d0.re + d1.im, d0.im - d1.re};
    a[3] = (struct complex8){d0.re - d1.im, d0.im + d1.re};
}

INLINE void radix5(struct complex8 a[5])
{
    const double c1 = 0.30901699437494742, c2 = -0.80901699437494742;
    const double s1 = 0.95105651629515357, s2 = 0.58778525229247313;
    struct complex8 p1 = c_add(a[1], a[4]), m1 = c_sub(a[1], a[4]);
    struct complex8 p2 = c_add(a[2], a[3]), m2 = c_sub(a[2], a[3]);
    struct complex8 u1 = {a[0].re + p1.re * c1 + p2.re * c2, a[0].im + p1.im * c1 + p2.im * c2};
    struct complex8 u2 = {a[0].re + p1.re * c2 + p2.re * c1, a[0].im + p1.im * c2 + p2.im * c1};
    struct complex8 w1 = {m1.re * s1 + m2.re * s2, m1.im * s1 + m2.im * s2};
    struct complex8 w2 = {m1.re * s2 - m2.re * s1, m1.im * s2 - m2.im * s1};

    a[0] = c_add(a[0], c_add(p1, p2));
    a[1] = (struct complex8){u1.re + w1.im, u1.im - w1.re};
    a[4] = (struct complex8){u1.re - w1.im, u1.im + w1.re};
    a[2] = (struct complex8){u2.re + w2.im, u2.im - w2.re};
    a[3] = (struct complex8){u2.re - w2.im, u2.im + w2.re};
}

/* One stage: n points left, s transforms interleaved. */
INLINE void stage(const struct mel_tables *t, const struct complex8 *x, struct complex8 *y,
                  const size_t n, const size_t s, const size_t radix)
{
    const size_t m = n / radix;
    struct complex8 a[5];

    for (size_t p = 0; p < m; p++) {
        for (size_t q = 0; q < s; q++) {
            for (size_t j = 0; j < radix; j++)
                a[j] = x[q + s * (p + m * j)];
            if (radix == 4)
                radix4(a);
            else
                radix5(a);
            y[q + s * radix * p] = a[0];
            for (size_t k = 1; k < radix; k++)
                y[q + s * (radix * p + k)] = c_turn(t, a[k], p * k * (MEL_FFT / n));
        }
    }
}

/* Powers of the two frames that share a transform, at frequency k. */
INLINE void powers(const struct complex8 *z, size_t k, d8 *first, d8 *second)
{
    struct complex8 a = z[k], b = z[(MEL_FFT - k) % MEL_FFT];
    d8 r1 = a.re + b.re, i1 = a.im - b.im, r2 = a.im + b.im, i2 = b.re - a.re;

    *first = (r1 * r1 + i1 * i1) * 0.25;
    *second = (r2 * r2 + i2 * i2) * 0.25;
}

float KERNEL(mel)(const struct mel_tables *t, const float *audio, float *out)
{
    struct complex8 x[MEL_FFT], y[MEL_FFT];
    d8 power[MEL_FREQUENCIES][2];
    const double *weight = t->weight;
    v16 high = v_all(-1e30f);

    for (size_t i = 0; i < MEL_FFT; i++) {
        for (size_t f = 0; f < 8; f++) {
            x[i].re[f] = (double)audio[f * MEL_HOP + i] * t->window[i];
            x[i].im[f] = (double)audio[(f + 8) * MEL_HOP + i] * t->window[i];
        }
    }
    stage(t, x, y, 400, 1, 4);
    stage(t, y, x, 100, 4, 4);
    stage(t, x, y, 25, 16, 5);
    stage(t, y, x, 5, 80, 5);
    for (size_t k = 0; k < MEL_FREQUENCIES; k++)
        powers(x, k, &power[k][0], &power[k][1]);
    for (uint32_t b = 0; b < t->bins; b++) {
        d8 e0 = {0}, e1 = {0};
        float lanes[MEL_LANES];
        v16 value;

        for (uint32_t i = 0; i < t->count[b]; i++) {
            e0 += power[t->first[b] + i][0] * weight[i];
            e1 += power[t->first[b] + i][1] * weight[i];
        }
        weight += t->count[b];
        for (int f = 0; f < 8; f++) {
            lanes[f] = (float)e0[f];
            lanes[f + 8] = (float)e1[f];
        }
        value = v_log10(v_max(v_load(lanes), v_all(1e-10f)));
        high = v_max(high, value);
        v_store(lanes, value);
        for (int f = 0; f < MEL_LANES; f++)
            out[(size_t)f * t->bins + b] = lanes[f];
    }
    return v_highest(high);
}

void KERNEL(mel_clamp)(float *x, size_t n, float floor)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        v_store(x + i, v_max(v_load(x + i), v_all(floor)) * v_all(0.25f) + v_all(1.0f));
    for (; i < n; i++)
        x[i] = (x[i] > floor ? x[i] : floor) * 0.25f + 1.0f;
}
