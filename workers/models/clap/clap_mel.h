/* workers/models/clap/clap_mel.h - CLAP's input: log-mel of 10 s at 48 kHz, as an image. The
 * operation filter_bank makes the log-mel; this file prepares its audio and makes the image.
 *
 * Follows transformers' ClapFeatureExtractor with "rand_trunc" and "repeatpad": shorter audio is
 * repeated as often as it fits whole, then silence; mirrored at both ends; periodic Hann window,
 * powers, Slaney's triangles of area one; 10 log10(max(1e-10, x)), of which the factor is the batch
 * norm's here (CLAP_MEL_DB). Then the tower's own beginning: a batch norm of each bin, the frames
 * stretched to the image's (bicubic, both ends kept), and cut into parts that lie one above the
 * other, bins downwards. Immutable: any thread may use it. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_MEL_H
#define NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_MEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/filter_bank.h"
#include "workers/models/clap/clap_config.h"

#define CLAP_MEL_DB 4.342944819032518 /* 10 log10(x) = so much times log(x) */

struct filter_bank_spec clap_mel_bank(const struct clap_config *c);
uint32_t clap_mel_frames(const struct clap_config *c); /* of 10 s */
/* audio at 48 kHz: room for CLAP_MEL_SAMPLES, of which the first n (at least 1) are there. The rest
 * is filled. */
void clap_mel_fill(float *audio, size_t n);

struct clap_mel;

int clap_mel_new(const struct clap_config *c, struct clap_mel **ret, struct err *err);
void clap_mel_free(struct clap_mel *m); /* NULL is fine */
/* mel: [frames][bins], natural logarithms -> ret: [image][image]; each bin times factor plus addend
 * ([bins] each). */
void clap_mel_image(const struct clap_mel *m, const float *mel, const float *factor,
                    const float *addend, float *ret);

#endif
