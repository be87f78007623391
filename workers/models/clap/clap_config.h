/* workers/models/clap/clap_config.h - a CLAP model's dimensions, as Hugging Face's config.json and
 * preprocessor_config.json say them, within what clap_audio.c computes. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_CONFIG_H
#define NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CLAP_SAMPLES 160000 /* of a window at 16 kHz: 10 s */
#define CLAP_MAX_SIZE 4096
#define CLAP_RATE 48000
#define CLAP_MEL_SAMPLES 480000
#define CLAP_MEL_MAX_BINS 256
#define CLAP_MEL_MAX_FFT 8192
#define CLAP_MAX_STAGES 6
#define CLAP_MAX_DEPTH 64 /* layers of a stage */

struct clap_config {
    uint32_t size; /* of the vectors */
    /* Features: 64 bins over 10 s at 48 kHz. */
    uint32_t mel_bins, fft, hop;
    double low_hz, high_hz;
    /* The audio tower. */
    uint32_t image;  /* edge of the image that log-mel becomes: a multiple of mel_bins */
    uint32_t patch;  /* edge of a patch, and the way to the next */
    uint32_t window; /* edge of an attention window */
    uint32_t width;  /* values of a patch in the first stage; each next stage has twice as many */
    uint32_t stages;
    uint32_t depth[CLAP_MAX_STAGES], heads[CLAP_MAX_STAGES];
    double mlp_ratio;
    float epsilon; /* of the layers' norms; the other norms have 1e-5 */
};

/* One window: 1 .. CLAP_SAMPLES samples in [-1, 1]; one that is no number is silence, as are those
 * that are interpolated with it. */
struct clap_audio {
    const float *pcm;
    size_t n;
};

/* ERR_MODEL says which value of which file cannot be. */
int clap_config_read(const char *dir, struct clap_config *ret, struct err *err);

/* Edge of stage s's grid of patches, and its values. */
static inline uint32_t clap_grid(const struct clap_config *c, uint32_t s)
{
    return c->image / c->patch >> s;
}

static inline uint32_t clap_width(const struct clap_config *c, uint32_t s) { return c->width << s; }

/* Values between the two linear layers behind the attention, rounded down as transformers does. */
static inline uint32_t clap_ffn(const struct clap_config *c, uint32_t s)
{
    return (uint32_t)(c->mlp_ratio * clap_width(c, s));
}

#endif
