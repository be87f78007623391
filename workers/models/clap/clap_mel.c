#include "workers/models/clap/clap_mel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/clap/clap_config.h"

/* Four neighbours of a place between frames, and their shares. */
struct stretch {
    uint32_t frame[4];
    float share[4];
};

struct clap_mel {
    uint32_t bins, frames, image;
    struct stretch *stretch; /* [image * image / bins]: frames of the image */
};

/* Keys' cubic convolution with a = -0.75, at distance d. */
static double compute_cubic_weight(double d)
{
    const double a = -0.75;

    d = fabs(d);
    if (d <= 1.0)
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
    return d < 2.0 ? ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a : 0.0;
}

/* First and last frame stay where they are; beyond them they go on. */
static void make_stretch(struct clap_mel *m, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        double at = count > 1 ? (double)i * (m->frames - 1) / (count - 1) : 0.0;
        int64_t first = (int64_t)floor(at) - 1, last = (int64_t)m->frames - 1;

        for (int k = 0; k < 4; k++) {
            int64_t frame = first + k;

            m->stretch[i].share[k] = (float)compute_cubic_weight(at - (double)frame);
            m->stretch[i].frame[k] = (uint32_t)(frame < 0 ? 0 : frame > last ? last : frame);
        }
    }
}

int clap_mel_new(const struct clap_config *c, struct clap_mel **ret, struct err *err)
{
    uint32_t stretched = c->image / c->mel_bins * c->image;
    struct clap_mel *m = calloc(1, sizeof(*m));

    if (m)
        m->stretch = malloc(stretched * sizeof(*m->stretch));
    if (!m || !m->stretch) {
        clap_mel_free(m);
        return err_set(err, ERR_NOMEM, "no memory for the spectrogram of sounds");
    }
    m->bins = c->mel_bins;
    m->frames = clap_mel_frames(c);
    m->image = c->image;
    make_stretch(m, stretched);
    *ret = m;
    return 0;
}

void clap_mel_free(struct clap_mel *m)
{
    if (!m)
        return;
    free(m->stretch);
    free(m);
}

struct filter_bank_spec clap_mel_bank(const struct clap_config *c)
{
    return (struct filter_bank_spec){
        .mel = {.scale = MEL_SLANEY,
                .area = true,
                .rate_hz = CLAP_RATE,
                .fft = c->fft,
                .bins = c->mel_bins,
                .low_hz = c->low_hz,
                .high_hz = c->high_hz},
        .frame = c->fft,
        .step = c->hop,
        .window = FRAME_HANN,
        .place = FRAME_MIRRORED,
        .scale = 1.0,
        .logarithm = true,
        .floor = 1e-10,
    };
}

uint32_t clap_mel_frames(const struct clap_config *c) { return CLAP_MEL_SAMPLES / c->hop + 1; }

void clap_mel_fill(float *audio, size_t n)
{
    size_t end = CLAP_MEL_SAMPLES / n * n; /* repeated while it fits whole */

    for (size_t at = n; at < end; at += n)
        memcpy(audio + at, audio, n * sizeof(*audio));
    memset(audio + end, 0, (CLAP_MEL_SAMPLES - end) * sizeof(*audio));
}

void clap_mel_image(const struct clap_mel *m, const float *mel, const float *factor,
                    const float *addend, float *ret)
{
    uint32_t parts = m->image / m->bins;

    for (uint32_t part = 0; part < parts; part++) {
        for (uint32_t b = 0; b < m->bins; b++) {
            float *row = ret + ((size_t)part * m->bins + b) * m->image;

            for (uint32_t i = 0; i < m->image; i++) {
                const struct stretch *s = &m->stretch[part * m->image + i];
                float sum = 0.0f;

                for (int k = 0; k < 4; k++)
                    sum += s->share[k] *
                           (mel[(size_t)s->frame[k] * m->bins + b] * factor[b] + addend[b]);
                row[i] = sum;
            }
        }
    }
}
