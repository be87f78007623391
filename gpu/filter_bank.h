/* gpu/filter_bank.h - energies of mel bins in short frames: what front ends of networks hear, as
 * values; what every backend shares of the operation `filter_bank`. Pure; any thread. */
#ifndef NIGHTSHIFT_GPU_FILTER_BANK_H
#define NIGHTSHIFT_GPU_FILTER_BANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/mel_filters.h"
#include "gpu/tensor.h"

#define FILTER_BANK_MAX_BINS 256

#ifdef __CUDACC__
#define ON_DEVICE_TOO __host__ __device__
#else
#define ON_DEVICE_TOO
#endif

enum frame_window {
    FRAME_HAMMING, /* its last value at the frame's last sample, as Kaldi's */
    FRAME_HANN,    /* periodic, as librosa's */
};

enum frame_place {
    FRAME_WITHIN,   /* frames lie within their window */
    FRAME_CENTRED,  /* frame i lies around sample i step: silence beyond the window's ends, or */
    FRAME_MIRRORED, /*   what is before its first and behind its last sample, in reverse */
};

/* Of the samples x of a frame:
 *
 *     y[i]   = x[i] - mean(x)                             with less_mean, else x[i]
 *     z[i]   = (y[i] - pre_emphasis y[i - 1]) scale window[i]      y[-1] = y[0]
 *     p[k]   = |DFT(z)[k]|^2                              zeros behind z, up to mel.fft; with
 *                                                         magnitudes |DFT(z)[k]|
 *     e[b]   = sum over k of weight_b[k] p[k]
 *     out[b] = log(max(e[b], floor) + offset)             with logarithm, else e[b]
 *
 * and with `centre` each bin's mean over the window's frames is taken off at last. */
struct filter_bank_spec {
    struct mel_spec mel;  /* at most FILTER_BANK_MAX_BINS bins; its fft is the transform's length */
    uint32_t frame, step; /* samples; frame <= mel.fft */
    enum frame_window window;
    enum frame_place place;
    bool less_mean;
    double pre_emphasis, scale;
    bool magnitudes;
    bool logarithm;       /* the natural one */
    double floor, offset; /* neither below 0, one above it with logarithm */
    bool centre;
};

/* Whether the numbers make sense, but for `mel`, which mel_filters_new looks at. */
bool filter_bank_fits(const struct filter_bank_spec *s);
/* Of a window of n samples. */
size_t filter_bank_frames(const struct filter_bank_spec *s, size_t n);
/* Whether these are what `filter_bank` takes. */
bool filter_bank_shapes(const struct filter_bank_spec *s, struct tensor pcm, const uint32_t *at,
                        uint32_t windows, size_t samples, struct tensor out);
/* How many samples before its window the first frame begins. */
uint32_t filter_bank_before(const struct filter_bank_spec *s);
/* Every sample that this operation and `mel` take, so that sums stay finite: what is no number is
 * silence, and what is far outside of [-1, 1] is cut. */
static inline ON_DEVICE_TOO float filter_bank_sample(float v)
{
    v = v == v ? v : 0.0f; /* in this form compilers take several at once */
    v = v < 16.0f ? v : 16.0f;
    return v > -16.0f ? v : -16.0f;
}
/* ret: [frame] */
void filter_bank_window(const struct filter_bank_spec *s, double *ret);

#endif
