#include "workers/models/clap/clap_mel.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/fft.h"
#include "gpu/mel_filters.h"
#include "workers/models/clap/clap_config.h"

#define FLOOR 1e-10

/* Four neighbours of a place between frames, and their shares. */
struct stretch {
    uint32_t frame[4];
    float share[4];
};

struct clap_mel {
    uint32_t bins, fft_length, hop, frames, image;
    struct fft *fft;
    struct mel_filters *filters;
    double *window;          /* [fft_length] */
    struct stretch *stretch; /* [image * image / bins]: frames of the image */
};

/* Keys' cubic convolution with a = -0.75, at distance d. */
static double cubic(double d)
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

            m->stretch[i].share[k] = (float)cubic(at - (double)frame);
            m->stretch[i].frame[k] = (uint32_t)(frame < 0 ? 0 : frame > last ? last : frame);
        }
    }
}

int clap_mel_new(const struct clap_config *c, struct clap_mel **ret, struct err *err)
{
    const struct mel_spec spec = {MEL_SLANEY, false,       true,      CLAP_RATE,
                                  c->fft,     c->mel_bins, c->low_hz, c->high_hz};
    uint32_t stretched = c->image / c->mel_bins * c->image;
    struct clap_mel *m = calloc(1, sizeof(*m));
    int rc = m ? 0 : err_set(err, ERR_NOMEM, "no memory for the spectrogram of sounds");

    if (rc == 0)
        rc = fft_new(c->fft, &m->fft, err);
    if (rc == 0)
        rc = mel_filters_new(&spec, &m->filters, err);
    if (rc != 0) {
        clap_mel_free(m);
        return rc == ERR_USAGE ? (err->code = ERR_MODEL) : rc;
    }
    m->bins = c->mel_bins;
    m->fft_length = c->fft;
    m->hop = c->hop;
    m->frames = CLAP_MEL_SAMPLES / c->hop + 1;
    m->image = c->image;
    m->window = malloc(c->fft * sizeof(*m->window));
    m->stretch = malloc(stretched * sizeof(*m->stretch));
    if (!m->window || !m->stretch) {
        clap_mel_free(m);
        return err_set(err, ERR_NOMEM, "no memory for the spectrogram of sounds");
    }
    for (uint32_t i = 0; i < c->fft; i++)
        m->window[i] = 0.5 - 0.5 * cos(2.0 * 3.14159265358979323846 * i / c->fft);
    make_stretch(m, stretched);
    *ret = m;
    return 0;
}

void clap_mel_free(struct clap_mel *m)
{
    if (!m)
        return;
    fft_free(m->fft);
    mel_filters_free(m->filters);
    free(m->window);
    free(m->stretch);
    free(m);
}

uint32_t clap_mel_frames(const struct clap_mel *m) { return m->frames; }

/* Sample i of 10 s: repeated while it fits whole, then silence; mirrored beyond both ends. */
static double sample(const float *audio, size_t n, int64_t i)
{
    const int64_t last = CLAP_MEL_SAMPLES - 1;
    double v;

    i = i < 0 ? -i : i > last ? 2 * last - i : i;
    if ((size_t)i >= CLAP_MEL_SAMPLES / n * n)
        return 0.0;
    v = (double)audio[(size_t)i % n];
    /* What is no number is silence, and what is far outside is cut: the sums stay finite. */
    return v >= -16.0 && v <= 16.0 ? v : v > 16.0 ? 16.0 : v < -16.0 ? -16.0 : 0.0;
}

int clap_mel(const struct clap_mel *m, const float *audio, size_t n, float *ret, struct err *err)
{
    double *x = malloc((m->fft_length + fft_bins(m->fft) + fft_scratch(m->fft)) * sizeof(*x));
    double *power = x ? x + m->fft_length : NULL, *scratch, mel[CLAP_MEL_MAX_BINS];

    if (!x)
        return err_set(err, ERR_NOMEM, "no memory for the spectrogram of sounds");
    scratch = power + fft_bins(m->fft);
    for (uint32_t t = 0; t < m->frames; t++) {
        int64_t first = (int64_t)t * m->hop - m->fft_length / 2;

        for (uint32_t i = 0; i < m->fft_length; i++)
            x[i] = sample(audio, n, first + i) * m->window[i];
        fft_power(m->fft, x, scratch, power);
        mel_filters_apply(m->filters, power, mel);
        for (uint32_t b = 0; b < m->bins; b++)
            ret[(size_t)t * m->bins + b] = (float)(10.0 * log10(mel[b] > FLOOR ? mel[b] : FLOOR));
    }
    free(x);
    return 0;
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
