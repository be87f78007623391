/* gpu/filter_bank.h - mel filters, and energies of mel bins in short frames: what front ends of
 * networks hear, as values; what every backend shares of the operation `filter_bank`. Pure; any
 * thread. */
#ifndef NIGHTSHIFT_GPU_FILTER_BANK_H
#define NIGHTSHIFT_GPU_FILTER_BANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/tensor.h"

/* ---- triangles on the mel scale, from powers (or magnitudes) of frequencies to bins. Immutable
 * after they were made */

enum mel_scale {
    MEL_HTK,    /* 1127 ln(1 + f / 700) */
    MEL_SLANEY, /* linear below 1 kHz, logarithmic above */
};

struct mel_spec {
    enum mel_scale scale;
    bool linear_in_mel; /* triangles' sides: straight over mel (Kaldi, YAMNet) or over Hz (librosa)
                         */
    bool area;          /* of area one (Slaney's norm) instead of height one */
    uint32_t rate_hz;
    uint32_t fft; /* length; frequency k is k rate / fft */
    uint32_t bins;
    double low_hz, high_hz; /* of the first and the last triangle's feet; low < high */
};

struct mel_filters;

/* ERR_USAGE when there can be no such filters. A bin that no frequency falls into is 0 ever. */
int mel_filters_new(const struct mel_spec *spec, struct mel_filters **ret, struct err *err);
void mel_filters_free(struct mel_filters *m); /* NULL is fine */
/* ret[b] = sum over k of weight[b][k] x[k], in ascending order. x: [fft / 2 + 1], ret: [bins]. */
void mel_filters_apply(const struct mel_filters *m, const double *x, double *ret);
/* Bin b covers count[b] of the frequencies 0 .. fft / 2, from first[b] on ([bins] each). The
 * weights, which stay the filters', follow each other, bin after bin: a frequency is in three bins
 * at most. */
void mel_filters_ranges(const struct mel_filters *m, uint32_t *first, uint32_t *count,
                        const double **weight);

/* The filters that Whisper hears with, as every backend has them: MEL_SLANEY, of area one, at 16
 * kHz, 0 .. 8 kHz. The same as above but for the last bits of its edges, by which transcripts have
 * been made: so they stay. weight has room for fft + 2. */
void mel_filters_whisper(uint32_t fft, uint32_t bins, uint32_t *first, uint32_t *count,
                         double *weight);

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

/* The output `out` for the samples x of a frame:
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
/* The number of frames in a window of n samples. */
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
