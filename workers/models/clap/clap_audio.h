/* workers/models/clap/clap_audio.h - CLAP's audio tower: HTSAT, a Swin transformer over an image of
 * log-mel.
 *
 *   image [256][256] (clap_mel.h) -> patches of 4 x 4 -> [64 x 64][96], layer norm
 *   stage s: layers in pairs, the second with shifted windows:
 *       x += out(attention(qkv(norm(x)))) within windows of 8 x 8, biased by relative place
 *       x += down(gelu(up(norm(x))))
 *     then, but after the last, four patches become one: norm(4C) -> 2C
 *   norm, mean over the patches left -> [768]; linear, ReLU, linear -> [512]
 *
 * Chen et al. 2022 (HTS-AT), Liu et al. 2021 (Swin); names and sizes as transformers' ClapModel. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_AUDIO_H
#define NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_AUDIO_H

#include <stdint.h>

#include "base/err.h"
#include "gpu/precision.h"
#include "workers/models/clap/clap_config.h"

struct backend;
struct clap_audio_tower;
struct weights;

/* group: windows of one call of the device. */
int clap_audio_load(const struct clap_config *c, const struct weights *w, struct backend *be,
                    enum precision precision, uint32_t group, struct clap_audio_tower **ret,
                    struct err *err);
void clap_audio_free(struct clap_audio_tower *t); /* NULL is fine */
/* n <= group windows of 1 .. CLAP_SAMPLES samples: the next run's. They may be reused at once. */
int clap_audio_put(struct clap_audio_tower *t, const struct clap_audio *audio, uint32_t n,
                   struct err *err);
/* As clap_mel_samples, for tests. */
float *clap_audio_samples(struct clap_audio_tower *t);
/* The first n windows that were put (silence, where none was); ret: [n][size], not normalised. */
int clap_audio_run(struct clap_audio_tower *t, uint32_t n, float *ret, struct err *err);

#endif
