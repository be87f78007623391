/* workers/audio/upsample.h - from 16 to 48 kHz.
 *
 * Two samples between each two, by a windowed sinc of 64 samples to each side (Kaiser, beta 12): up
 * to 7.5 kHz as it was within 0.0001, and what would mirror above 8.5 kHz lies 110 dB lower.
 * Samples themselves are kept; around them is silence. Immutable: any thread may use it. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_UPSAMPLE_H
#define NIGHTSHIFT_WORKERS_AUDIO_UPSAMPLE_H

#include <stddef.h>

#include "base/err.h"

#define UPSAMPLE_BY 3

struct upsampler;

int upsampler_new(struct upsampler **ret, struct err *err);
void upsampler_free(struct upsampler *u); /* NULL is fine */
/* pcm: [n]; ret: [3 n]. */
void upsample(const struct upsampler *u, const float *pcm, size_t n, float *ret);

#endif
