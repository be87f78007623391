#include "gpu/filter_bank.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"

/* ---- triangles on the mel scale, from powers (or magnitudes) of frequencies to bins */

#define MAX_BINS 1024
#define MAX_FFT 65536
#define WHISPER_RATE 16000.0

struct range {
    uint32_t first, count; /* frequencies with a weight */
};

struct mel_filters {
    uint32_t bins;
    struct range *range; /* [bins] */
    double *weight;      /* of one bin after another */
};

static double to_mel(enum mel_scale scale, double hz)
{
    if (scale == MEL_HTK)
        return 1127.0 * log(1.0 + hz / 700.0);
    return hz < 1000.0 ? hz / (200.0 / 3.0) : 15.0 + log(hz / 1000.0) / (log(6.4) / 27.0);
}

static double to_hz(enum mel_scale scale, double mel)
{
    if (scale == MEL_HTK)
        return 700.0 * (exp(mel / 1127.0) - 1.0);
    return mel < 15.0 ? mel * (200.0 / 3.0) : 1000.0 * exp((log(6.4) / 27.0) * (mel - 15.0));
}

/* The weight of frequency k in bin b. */
static double weight_of(const struct mel_spec *s, uint32_t b, uint32_t k)
{
    double low = to_mel(s->scale, s->low_hz), high = to_mel(s->scale, s->high_hz);
    double step = (high - low) / (s->bins + 1), hz = (double)k * s->rate_hz / s->fft;
    double foot = low + step * b, edge[3], at = hz, up, down, w;

    for (int i = 0; i < 3; i++)
        edge[i] = to_hz(s->scale, foot + step * i);
    w = s->area ? 2.0 / (edge[2] - edge[0]) : 1.0;
    if (s->linear_in_mel) {
        at = to_mel(s->scale, hz);
        for (int i = 0; i < 3; i++)
            edge[i] = foot + step * i;
    }
    up = (at - edge[0]) / (edge[1] - edge[0]);
    down = (edge[2] - at) / (edge[2] - edge[1]);
    up = up < down ? up : down;
    return up > 0.0 ? up * w : 0.0;
}

static void fill_mel_weights(const struct mel_spec *s, struct mel_filters *m)
{
    double *next = m->weight;

    for (uint32_t b = 0; b < s->bins; b++) {
        for (uint32_t k = 0; k <= s->fft / 2; k++) {
            double w = weight_of(s, b, k);

            if (w == 0.0)
                continue;
            if (m->range[b].count++ == 0)
                m->range[b].first = k;
            *next++ = w;
        }
    }
}

int mel_filters_new(const struct mel_spec *spec, struct mel_filters **ret, struct err *err)
{
    struct mel_filters *m;

    if (spec->bins < 1 || spec->bins > MAX_BINS || spec->fft < 2 || spec->fft > MAX_FFT ||
        spec->rate_hz < 1 || !(spec->low_hz >= 0.0) || !(spec->low_hz < spec->high_hz) ||
        !(spec->high_hz <= spec->rate_hz))
        return err_set(err, ERR_USAGE, "no mel filters of %u bins from %g to %g Hz", spec->bins,
                       spec->low_hz, spec->high_hz);
    m = calloc(1, sizeof(*m));
    if (!m)
        return err_set(err, ERR_NOMEM, "no memory for mel filters");
    m->bins = spec->bins;
    m->range = calloc(spec->bins, sizeof(*m->range));
    /* A frequency lies in two triangles, or by rounding at an edge in three. */
    m->weight = calloc(3 * ((size_t)spec->fft / 2 + 1), sizeof(*m->weight));
    if (!m->range || !m->weight) {
        mel_filters_free(m);
        return err_set(err, ERR_NOMEM, "no memory for mel filters");
    }
    fill_mel_weights(spec, m);
    *ret = m;
    return 0;
}

void mel_filters_free(struct mel_filters *m)
{
    if (!m)
        return;
    free(m->range);
    free(m->weight);
    free(m);
}

void mel_filters_apply(const struct mel_filters *m, const double *x, double *ret)
{
    const double *weight = m->weight;

    for (uint32_t b = 0; b < m->bins; b++) {
        const double *at = x + m->range[b].first;
        double sum = 0.0;

        for (uint32_t i = 0; i < m->range[b].count; i++)
            sum += at[i] * weight[i];
        weight += m->range[b].count;
        ret[b] = sum;
    }
}

void mel_filters_ranges(const struct mel_filters *m, uint32_t *first, uint32_t *count,
                        const double **weight)
{
    for (uint32_t b = 0; b < m->bins; b++) {
        first[b] = m->range[b].first;
        count[b] = m->range[b].count;
    }
    *weight = m->weight;
}

/* ---- Whisper's */

/* The weight of a frequency in the triangle lo, mid, hi of area one. */
static double compute_triangle_weight(double f, double lo, double mid, double hi)
{
    double up = (f - lo) / (mid - lo), down = (hi - f) / (hi - mid), w = up < down ? up : down;

    return w > 0.0 ? w * 2.0 / (hi - lo) : 0.0;
}

void mel_filters_whisper(uint32_t fft, uint32_t bins, uint32_t *first, uint32_t *count,
                         double *weight)
{
    double top = to_mel(MEL_SLANEY, WHISPER_RATE / 2.0);

    for (uint32_t b = 0; b < bins; b++) {
        double lo = to_hz(MEL_SLANEY, top * b / (bins + 1)),
               mid = to_hz(MEL_SLANEY, top * (b + 1) / (bins + 1));
        double hi = to_hz(MEL_SLANEY, top * (b + 2) / (bins + 1));

        first[b] = count[b] = 0;
        for (uint32_t k = 0; k <= fft / 2; k++) {
            double w = compute_triangle_weight((double)k * WHISPER_RATE / fft, lo, mid, hi);

            if (w == 0.0)
                continue;
            if (count[b]++ == 0)
                first[b] = k;
            *weight++ = w;
        }
    }
}

/* ---- energies of mel bins in short frames */

#define PI 3.14159265358979323846

bool filter_bank_fits(const struct filter_bank_spec *s)
{
    return s->frame > 1 && s->frame <= s->mel.fft && s->step > 0 && s->mel.bins > 0 &&
           s->mel.bins <= FILTER_BANK_MAX_BINS && s->floor >= 0.0 && s->offset >= 0.0 &&
           (!s->logarithm || s->floor + s->offset > 0.0);
}

size_t filter_bank_frames(const struct filter_bank_spec *s, size_t n)
{
    if (s->place == FRAME_WITHIN)
        return n < s->frame ? 0 : 1 + (n - s->frame) / s->step;
    return s->place == FRAME_MIRRORED && n <= s->frame / 2 ? 0 : 1 + n / s->step;
}

bool filter_bank_shapes(const struct filter_bank_spec *s, struct tensor pcm, const uint32_t *at,
                        uint32_t windows, size_t samples, struct tensor out)
{
    const size_t frames = filter_bank_frames(s, samples);

    if (pcm.type != DTYPE_F32 || pcm.rows != 1 || out.type != DTYPE_F32 || windows < 1 ||
        frames < 1 || samples > (size_t)1 << 30 || out.rows != (int64_t)(windows * frames) ||
        out.cols != s->mel.bins || out.stride != out.cols)
        return false;
    for (uint32_t i = 0; i < windows; i++)
        if ((int64_t)at[i] + (int64_t)samples > pcm.cols)
            return false;
    return true;
}

uint32_t filter_bank_before(const struct filter_bank_spec *s)
{
    return s->place == FRAME_WITHIN ? 0 : s->frame / 2;
}

void filter_bank_window(const struct filter_bank_spec *s, double *ret)
{
    for (uint32_t i = 0; i < s->frame; i++)
        ret[i] = s->window == FRAME_HAMMING ? 0.54 - 0.46 * cos(2.0 * PI * i / (s->frame - 1))
                                            : 0.5 - 0.5 * cos(2.0 * PI * i / s->frame);
}
