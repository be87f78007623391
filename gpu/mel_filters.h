/* gpu/mel_filters.h - triangles on the mel scale, from powers (or magnitudes) of
 * frequencies to bins. Immutable after it was made: any thread may use it. */
#ifndef NIGHTSHIFT_GPU_MEL_FILTERS_H
#define NIGHTSHIFT_GPU_MEL_FILTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

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
/* Of the frequencies 0 .. fft / 2 bin b is count[b] from first[b] on ([bins] each); the weights,
 * which stay the filters', lie one after the other, bin after bin: a frequency is in three bins at
 * most. */
void mel_filters_ranges(const struct mel_filters *m, uint32_t *first, uint32_t *count,
                        const double **weight);

/* The filters that Whisper hears with, as every backend has them: MEL_SLANEY, of area one, at 16
 * kHz, 0 .. 8 kHz. The same as above but for the last bits of its edges, by which transcripts have
 * been made: so they stay. weight has room for fft + 2. */
void mel_filters_whisper(uint32_t fft, uint32_t bins, uint32_t *first, uint32_t *count,
                         double *weight);

#endif
