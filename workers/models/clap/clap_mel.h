/* workers/models/clap/clap_mel.h - what CLAP hears: log-mel of 10 s at 48 kHz, as an image.
 *
 * As transformers' ClapFeatureExtractor with "rand_trunc" and "repeatpad": shorter audio is
 * repeated as often as it fits whole, then silence; mirrored at both ends; periodic Hann window,
 * powers, Slaney's triangles of area one; 10 log10(max(1e-10, x)). Then the tower's own beginning:
 * a batch norm of each bin, the frames stretched to the image's (bicubic, both ends kept), and cut
 * into parts that lie one above the other, bins downwards. float64 within. Immutable: any thread
 * may use it. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_MEL_H
#define NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_MEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/models/clap/clap_config.h"

struct clap_mel;

int clap_mel_new(const struct clap_config *c, struct clap_mel **ret, struct err *err);
void clap_mel_free(struct clap_mel *m); /* NULL is fine */
uint32_t clap_mel_frames(const struct clap_mel *m);
/* audio at 48 kHz: n samples, 1 .. CLAP_MEL_SAMPLES. ret: [frames][bins]. */
int clap_mel(const struct clap_mel *m, const float *audio, size_t n, float *ret, struct err *err);
/* mel: [frames][bins] -> ret: [image][image]; each bin times factor plus addend ([bins] each). */
void clap_mel_image(const struct clap_mel *m, const float *mel, const float *factor,
                    const float *addend, float *ret);

#endif
