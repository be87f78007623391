/* workers/models/clap/clap_audio.h - CLAP's audio tower: HTSAT, a Swin transformer over an image of
 * log-mel.
 *
 *   image [256][256] -> patches of 4 x 4 -> [64 x 64][96], layer norm
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

#include "gpu/backend.h"
#include "workers/models/clap/clap_config.h"
#include "workers/models/clap/clap_maps.h"

struct clap_mel;
struct weights;

struct clap_norm {
    struct tensor gamma, beta; /* [1][cols] float32 */
};

struct clap_layer {
    struct clap_order order;
    struct clap_norm before, after;
    struct linear *qkv, *out, *up, *down;
    struct tensor bias; /* [kinds * heads * n][n] float32 */
};

struct clap_stage {
    uint32_t grid, width, heads, ffn;
    struct clap_layer layer[CLAP_MAX_DEPTH];
    /* To the plain order from the image's or the stage's before (four rows to one, then), and
     * between the plain and the shifted one. Device memory; NULL where not wanted. */
    int32_t *enter, *shift, *unshift;
    uint32_t *plain, *shifted;   /* host: kinds of the windows; shifted NULL where not wanted */
    struct clap_norm merge_norm; /* of the stage before: [4 * its width] */
    struct linear *merge;
};

struct clap_audio_tower {
    struct backend *be; /* borrowed */
    struct clap_config config;
    enum precision precision;
    enum dtype type;
    uint32_t group; /* windows of one call of the device */
    struct clap_mel *mel;
    struct filter_bank *bank;
    float *factor, *addend; /* host: the batch norm and CLAP_MEL_DB, [bins] each */
    struct conv2d *patch;
    struct clap_norm patch_norm, norm;
    struct clap_stage stage[CLAP_MAX_STAGES];
    struct linear *project1, *project2;
    uint32_t *spans;       /* host: rows of attention windows, [group * windows + 1] */
    uint32_t *image_spans; /* host: rows of an image in the last stage, [group + 1] */

    /* Device memory, of `group` windows (here W), the first stage's sizes. */
    float *pcm;          /* [W][CLAP_MEL_SAMPLES] */
    float *heard;        /* [W * frames][bins] */
    float *image;        /* [W * image^2] */
    float *x, *other;    /* [W * grid^2][width] */
    void *h, *attended;  /* the same, of `type` */
    void *qkv;           /* three times as wide */
    void *ffn;           /* [W * grid^2][ffn] */
    float *pooled;       /* [W][last stage's width] */
    float *hidden, *out; /* [W][size] */

    /* Host memory. */
    float *frames; /* [W * frames][bins] */
    float *images; /* [W][image^2] */
    uint32_t *at;  /* [W]: where each window begins in pcm */
};

/* group: windows of one call of the device. */
int clap_audio_load(const struct clap_config *c, const struct weights *w, struct backend *be,
                    enum precision precision, uint32_t group, struct clap_audio_tower **ret,
                    struct err *err);
void clap_audio_free(struct clap_audio_tower *t); /* NULL is fine */
/* Called by clap_audio_load.c: allocates everything but the weights. config and mel must be set. */
int clap_audio_take_memory(struct clap_audio_tower *t, struct err *err);
/* audio: [n][CLAP_MEL_SAMPLES] at 48 kHz, as clap_mel_fill leaves it: windows `first` and those
 * behind it of the next run's, at most `group`. May be reused at once. */
int clap_audio_put(struct clap_audio_tower *t, uint32_t first, const float *audio, uint32_t n,
                   struct err *err);
/* The first n windows that were put (silence, where none was); ret: [n][size], not normalised. */
int clap_audio_run(struct clap_audio_tower *t, uint32_t n, float *ret, struct err *err);

#endif
