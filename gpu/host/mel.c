/* Whisper's log-mel spectrogram: filters, padding, the clamp over the window. */
#include "gpu/host/host.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#define SAMPLES 480000
#define FRAMES 3000
#define RATE 16000.0
#define PAD (MEL_FFT / 2)
#define BATCHES ((FRAMES + MEL_LANES - 1) / MEL_LANES)

struct mel {
    struct mel_tables tables;
    float *audio; /* [PAD + SAMPLES + PAD] */
};

/* Slaney's scale: linear below 1 kHz, logarithmic above. */
static double mel_to_hz(double m)
{
    return m < 15.0 ? m * (200.0 / 3.0) : 1000.0 * exp((log(6.4) / 27.0) * (m - 15.0));
}

static double hz_to_mel(double f)
{
    return f < 1000.0 ? f / (200.0 / 3.0) : 15.0 + log(f / 1000.0) / (log(6.4) / 27.0);
}

/* The weight of frequency k in the triangle lo, mid, hi of area one. */
static double filter_weight(uint32_t k, double lo, double mid, double hi)
{
    double f = (double)k * RATE / MEL_FFT;
    double up = (f - lo) / (mid - lo), down = (hi - f) / (hi - mid), w = up < down ? up : down;

    return w > 0.0 ? w * 2.0 / (hi - lo) : 0.0;
}

static void make_filters(struct mel_tables *t)
{
    double top = hz_to_mel(RATE / 2.0), *next = t->weight;

    for (uint32_t b = 0; b < t->bins; b++) {
        double lo = mel_to_hz(top * b / (t->bins + 1)),
               mid = mel_to_hz(top * (b + 1) / (t->bins + 1));
        double hi = mel_to_hz(top * (b + 2) / (t->bins + 1));

        t->count[b] = 0;
        for (uint32_t k = 0; k < MEL_FREQUENCIES; k++) {
            double w = filter_weight(k, lo, mid, hi);

            if (w == 0.0)
                continue;
            if (t->count[b]++ == 0)
                t->first[b] = k;
            *next++ = w;
        }
    }
}

int host_mel_new(struct backend *be, uint32_t bins, struct mel **ret, struct err *err)
{
    struct mel *m;

    if (bins < 1 || bins > 256)
        return host_shape(err, "mel_new");
    /* A multiple of 64 is what aligned_alloc wants; the vectors inside the tables need none. */
    m = calloc(1, sizeof(*m));
    if (!m)
        return err_set(err, ERR_NOMEM, "out of memory for the spectrogram");
    m->tables.bins = bins;
    m->tables.first = calloc(bins, sizeof(uint32_t));
    m->tables.count = calloc(bins, sizeof(uint32_t));
    m->tables.weight = calloc((size_t)bins * MEL_FREQUENCIES, sizeof(double));
    m->audio = calloc(SAMPLES + 2 * PAD, sizeof(float));
    if (!m->tables.first || !m->tables.count || !m->tables.weight || !m->audio) {
        host_mel_free(be, m);
        return err_set(err, ERR_NOMEM, "out of memory for the spectrogram");
    }
    for (int i = 0; i < MEL_FFT; i++) {
        double a = 2.0 * 3.14159265358979323846 * i / MEL_FFT;

        m->tables.cosine[i] = cos(a);
        m->tables.sine[i] = sin(a);
        m->tables.window[i] = 0.5 - 0.5 * cos(a);
    }
    make_filters(&m->tables);
    *ret = m;
    return 0;
}

void host_mel_free(struct backend *be, struct mel *m)
{
    (void)be;
    if (!m)
        return;
    free(m->tables.first);
    free(m->tables.count);
    free(m->tables.weight);
    free(m->audio);
    free(m);
}

/* Zeros up to 30 s, then 200 samples mirrored at both ends, as numpy's "reflect". A sample that is
 * no number, or far outside of [-1, 1], would spoil the window's maximum: it becomes silence or is
 * cut. */
static void pad_audio(float *audio, const float *pcm, size_t n)
{
    float *x = audio + PAD;

    for (size_t i = 0; i < n; i++) {
        float v = pcm[i];

        x[i] = v >= -16.0f && v <= 16.0f ? v : v > 16.0f ? 16.0f : v < -16.0f ? -16.0f : 0.0f;
    }
    memset(x + n, 0, (SAMPLES - n) * sizeof(float));
    for (int i = 1; i <= PAD; i++) {
        x[-i] = x[i];
        x[SAMPLES - 1 + i] = x[SAMPLES - 1 - i];
    }
}

int host_mel(struct backend *be, struct mel *m, const float *pcm, size_t n, struct tensor out,
             struct err *err)
{
    struct host *h = host_of(be);
    uint32_t bins = m->tables.bins;
    float *x = out.data, high = -1e30f;

    if (n > SAMPLES || out.type != DTYPE_F32 || out.rows != FRAMES || out.cols != bins ||
        out.stride != out.cols)
        return host_shape(err, "mel");
    pad_audio(m->audio, pcm, n);
#pragma omp parallel num_threads(h->threads)
    {
        /* The last batch begins early enough to be whole; frames that come twice come out alike. */
#pragma omp for schedule(dynamic, 8) reduction(max : high)
        for (int b = 0; b < BATCHES - 1; b++) {
            size_t frame = (size_t)b * MEL_LANES;
            float top = h->kernels->mel(&m->tables, m->audio + frame * MEL_HOP, x + frame * bins);

            high = top > high ? top : high;
        }
#pragma omp single
        {
            size_t frame = FRAMES - MEL_LANES;
            float top = h->kernels->mel(&m->tables, m->audio + frame * MEL_HOP, x + frame * bins);

            high = top > high ? top : high;
        }
#pragma omp for schedule(static)
        for (int frame = 0; frame < FRAMES; frame++)
            h->kernels->mel_clamp(x + (size_t)frame * bins, bins, high - 8.0f);
    }
    return 0;
}
