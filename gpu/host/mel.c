/* Whisper's log-mel spectrogram: filters, padding, the clamp over the window. */
#include "gpu/filter_bank.h"
#include "gpu/host/host.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#define SAMPLES 480000
#define FRAMES 3000
#define PAD (MEL_FFT / 2)
#define BATCHES ((FRAMES + MEL_LANES - 1) / MEL_LANES)

struct mel {
    struct mel_tables tables;
    uint32_t windows; /* at most, in a call */
    float *audio;     /* [PAD + SAMPLES + PAD]: one window's */
};

static int make_memory(struct backend *be, struct mel *m, struct err *err)
{
    void *p = NULL;
    int rc;

    m->tables.first = calloc(m->tables.bins, sizeof(uint32_t));
    m->tables.count = calloc(m->tables.bins, sizeof(uint32_t));
    if (!m->tables.first || !m->tables.count)
        return err_set(err, ERR_NOMEM, "out of memory for the spectrogram");
    rc = host_alloc(be, (size_t)m->tables.bins * MEL_FREQUENCIES * sizeof(double), &p, err);
    if (rc != 0)
        return rc;
    m->tables.weight = p;
    rc = host_alloc(be, (SAMPLES + 2 * PAD) * sizeof(float), &p, err);
    if (rc == 0)
        m->audio = p;
    return rc;
}

int host_mel_new(struct backend *be, uint32_t bins, uint32_t windows, struct mel **ret,
                 struct err *err)
{
    struct mel *m;
    int rc;

    if (bins < 1 || bins > MEL_MOST || windows < 1)
        return host_shape(err, "mel_new");
    m = calloc(1, sizeof(*m));
    if (!m)
        return err_set(err, ERR_NOMEM, "out of memory for the spectrogram");
    m->tables.bins = bins;
    m->windows = windows;
    rc = make_memory(be, m, err);
    if (rc != 0) {
        host_mel_free(be, m);
        return rc;
    }
    for (int i = 0; i < MEL_FFT; i++) {
        double a = 2.0 * 3.14159265358979323846 * i / MEL_FFT;

        m->tables.cosine[i] = cos(a);
        m->tables.sine[i] = sin(a);
        m->tables.window[i] = 0.5 - 0.5 * cos(a);
    }
    mel_filters_whisper(MEL_FFT, m->tables.bins, m->tables.first, m->tables.count,
                        m->tables.weight);
    *ret = m;
    return 0;
}

void host_mel_free(struct backend *be, struct mel *m)
{
    if (!m)
        return;
    free(m->tables.first);
    free(m->tables.count);
    host_release(be, m->tables.weight);
    host_release(be, m->audio);
    free(m);
}

/* Zeros up to 30 s, then 200 samples mirrored at both ends, as numpy's "reflect". */
static void pad_audio(float *audio, const float *pcm, size_t n)
{
    float *x = audio + PAD;

    for (size_t i = 0; i < n; i++)
        x[i] = filter_bank_sample(pcm[i]);
    memset(x + n, 0, (SAMPLES - n) * sizeof(float));
    for (int i = 1; i <= PAD; i++) {
        x[-i] = x[i];
        x[SAMPLES - 1 + i] = x[SAMPLES - 1 - i];
    }
}

static void mel_window(struct host *h, struct mel *m, const struct audio *audio, float *x)
{
    uint32_t bins = m->tables.bins;
    float high = -1e30f;

    pad_audio(m->audio, audio->pcm, audio->n);
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
}

int host_mel(struct backend *be, struct mel *m, const struct audio *audio, uint32_t windows,
             struct tensor out, struct err *err)
{
    size_t each = (size_t)FRAMES * m->tables.bins;

    if (windows < 1 || windows > m->windows || out.type != DTYPE_F32 ||
        out.rows != (int64_t)windows * FRAMES || out.cols != m->tables.bins ||
        out.stride != out.cols)
        return host_shape(err, "mel");
    for (uint32_t i = 0; i < windows; i++)
        if (audio[i].n > SAMPLES)
            return host_shape(err, "mel");
    for (uint32_t i = 0; i < windows && !be->rehearsing; i++)
        mel_window(host_of(be), m, &audio[i], (float *)out.data + i * each);
    return 0;
}
