#include "gpu/mel_filters.h"

#include <math.h>

#define RATE 16000.0

/* Slaney's scale: linear below 1 kHz, logarithmic above. */
static double mel_to_hz(double m)
{
    return m < 15.0 ? m * (200.0 / 3.0) : 1000.0 * exp((log(6.4) / 27.0) * (m - 15.0));
}

static double hz_to_mel(double f)
{
    return f < 1000.0 ? f / (200.0 / 3.0) : 15.0 + log(f / 1000.0) / (log(6.4) / 27.0);
}

/* The weight of a frequency in the triangle lo, mid, hi of area one. */
static double weight_of(double f, double lo, double mid, double hi)
{
    double up = (f - lo) / (mid - lo), down = (hi - f) / (hi - mid), w = up < down ? up : down;

    return w > 0.0 ? w * 2.0 / (hi - lo) : 0.0;
}

void mel_filters(uint32_t fft, uint32_t bins, uint32_t *first, uint32_t *count, double *weight)
{
    double top = hz_to_mel(RATE / 2.0);

    for (uint32_t b = 0; b < bins; b++) {
        double lo = mel_to_hz(top * b / (bins + 1)), mid = mel_to_hz(top * (b + 1) / (bins + 1));
        double hi = mel_to_hz(top * (b + 2) / (bins + 1));

        first[b] = count[b] = 0;
        for (uint32_t k = 0; k <= fft / 2; k++) {
            double w = weight_of((double)k * RATE / fft, lo, mid, hi);

            if (w == 0.0)
                continue;
            if (count[b]++ == 0)
                first[b] = k;
            *weight++ = w;
        }
    }
}
