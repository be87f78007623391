/* workers/models/clap/clap_mel.h - CLAP's input, on the device: from sound at 16 kHz to log-mel of
 * 10 s at 48 kHz, as an image.
 *
 *   sound, at most 10 s    resample by 3; shorter sound is repeated as often as it fits whole, then
 *                          silence ("rand_trunc" and "repeatpad" of transformers'
 * ClapFeatureExtractor) [480000] at 48 kHz     filter bank: mirrored at both ends, periodic Hann
 * window, powers, Slaney's triangles of area one, log(max(1e-10, x)) [frames][bins] resample:
 * frames stretched to the image's (bicubic, both ends kept); times 10 / ln(10), and a batch norm of
 * each bin [image^2 / bins][bins]
 *
 * transformers cuts the stretched frames into parts of `image` frames, and lays these one above the
 * other, bins downwards. Here they stay as they are: a patch is at another place
 * (clap_map_patches), and is turned. One thread at a time. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_MEL_H
#define NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_MEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/backend.h"
#include "workers/models/clap/clap_config.h"

#define CLAP_MEL_DB 4.342944819032518 /* 10 log10(x) = so much times log(x) */
#define CLAP_UPSAMPLE_BY 3
#define CLAP_UPSAMPLE_TAPS 128

struct filter_bank_spec clap_mel_bank(const struct clap_config *c);
uint32_t clap_mel_frames(const struct clap_config *c); /* of 10 s */
/* From 16 to 48 kHz: two samples between each two, by a windowed sinc of 64 samples to each side
 * (Kaiser, beta 12): up to 7.5 kHz as it was within 0.0001, and what would mirror above 8.5 kHz
 * lies 110 dB lower. Samples themselves are kept; around them is silence. w:
 * [CLAP_UPSAMPLE_BY][CLAP_UPSAMPLE_TAPS]. */
struct resample_spec clap_mel_upsampling(float *w);

struct clap_mel;

/* windows: of one call. factor, addend: [bins], for the natural logarithms of the filter bank's
 * energies: CLAP_MEL_DB and the batch norm. be is borrowed. */
int clap_mel_new(const struct clap_config *c, struct backend *be, uint32_t windows,
                 const float *factor, const float *addend, struct clap_mel **ret, struct err *err);
void clap_mel_free(struct clap_mel *m); /* NULL is fine */
/* n <= windows windows of 1 .. CLAP_SAMPLES samples, which may be reused at once. */
int clap_mel_put(struct clap_mel *m, const struct clap_audio *audio, uint32_t n, struct err *err);
/* [windows][CLAP_MEL_SAMPLES] at 48 kHz, device memory: what was put (silence, where nothing was).
 * For tests. */
float *clap_mel_samples(struct clap_mel *m);
/* The first n windows that were put. image: [n * image^2 / bins][bins] float32, device memory. */
int clap_mel_run(struct clap_mel *m, uint32_t n, struct tensor image, struct err *err);

#endif
