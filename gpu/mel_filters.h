/* gpu/mel_filters.h - the triangles of the mel scale that Whisper hears with, as every backend has
 * them: Slaney's, of area one, at 16 kHz. Pure; any thread. */
#ifndef NIGHTSHIFT_GPU_MEL_FILTERS_H
#define NIGHTSHIFT_GPU_MEL_FILTERS_H

#include <stdint.h>

/* Of the frequencies 0 .. fft / 2 of a transform of fft samples, band b is count[b] from first[b]
 * on, each by its weight; the weights lie one after the other, band after band. weight has room for
 * fft + 2: a frequency is in two bands at most. */
void mel_filters(uint32_t fft, uint32_t bins, uint32_t *first, uint32_t *count, double *weight);

#endif
