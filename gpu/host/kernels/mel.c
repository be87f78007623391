/* The log-mel spectrogram of sixteen frames at once.
 *
 * In float64, because the quietest bin that the clamp keeps has 10^-4 of the loudest one's
 * amplitude, and a float32 transform would be wrong there by more than the parity bound. Frames i
 * and i + 8 share a transform as its real and imaginary parts; a register has some transforms. */
#include "gpu/host/kernels/isa.h"
#include "gpu/host/kernels/stockham.h"

#define PAIRS (MEL_LANES / 2) /* of frames */

/* Powers of the two frames that share a transform, at frequency k. */
INLINE void powers(const struct complexes *z, size_t k, dreg *first, dreg *second)
{
    struct complexes a = z[k], b = z[(MEL_FFT - k) % MEL_FFT];
    dreg r1 = a.re + b.re, i1 = a.im - b.im, r2 = a.im + b.im, i2 = b.re - a.re;

    *first = (r1 * r1 + i1 * i1) * 0.25;
    *second = (r2 * r2 + i2 * i2) * 0.25;
}

/* A sample of some frames, which are MEL_HOP apart. */
INLINE dreg samples(const float *audio)
{
    double x[TRANSFORMS];
    dreg ret;

    for (size_t f = 0; f < TRANSFORMS; f++)
        x[f] = (double)audio[f * MEL_HOP];
    memcpy(&ret, x, sizeof(ret));
    return ret;
}

/* Energies of the frames from `first` on and of those PAIRS behind them, a register of each:
 * out[bin][frame]. */
INLINE void energies(const struct mel_tables *t, const float *audio, size_t first,
                     float (*out)[MEL_LANES])
{
    const struct turns turns = {t->cosine, t->sine, MEL_FFT};
    struct complexes x[MEL_FFT], y[MEL_FFT];
    dreg power[MEL_FREQUENCIES][2];
    const double *weight = t->weight;

    for (size_t i = 0; i < MEL_FFT; i++) {
        x[i].re = samples(audio + first * MEL_HOP + i) * t->window[i];
        x[i].im = samples(audio + (first + PAIRS) * MEL_HOP + i) * t->window[i];
    }
    stockham_stage(&turns, x, y, 400, 1, 4);
    stockham_stage(&turns, y, x, 100, 4, 4);
    stockham_stage(&turns, x, y, 25, 16, 5);
    stockham_stage(&turns, y, x, 5, 80, 5);
    for (size_t k = 0; k < MEL_FREQUENCIES; k++)
        powers(x, k, &power[k][0], &power[k][1]);
    for (uint32_t b = 0; b < t->bins; b++) {
        dreg e[2] = {{0}, {0}};
        double sums[2][TRANSFORMS];

        for (uint32_t i = 0; i < t->count[b]; i++) {
            e[0] += power[t->first[b] + i][0] * weight[i];
            e[1] += power[t->first[b] + i][1] * weight[i];
        }
        weight += t->count[b];
        memcpy(sums, e, sizeof(sums));
        for (size_t f = 0; f < TRANSFORMS; f++) {
            out[b][first + f] = (float)sums[0][f];
            out[b][first + PAIRS + f] = (float)sums[1][f];
        }
    }
}

float KERNEL(mel)(const struct mel_tables *t, const float *audio, float *out)
{
    float energy[MEL_MOST][MEL_LANES];
    v16 high = v_all(-1e30f);

    for (size_t first = 0; first < PAIRS; first += TRANSFORMS)
        energies(t, audio, first, energy);
    for (uint32_t b = 0; b < t->bins; b++) {
        v16 value = v_log10(v_max(v_load(energy[b]), v_all(1e-10f)));

        high = v_max(high, value);
        v_store(energy[b], value);
        for (int f = 0; f < MEL_LANES; f++)
            out[(size_t)f * t->bins + b] = energy[b][f];
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
