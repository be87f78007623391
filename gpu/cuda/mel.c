/* Spectrograms: tables as on the host.
 *
 * The log-mel spectrogram's audio is copied while the device works. There are two buffers for
 * audio. While the kernels read one, the next batch is copied into the other on the stream for
 * copies; events keep a copy from overtaking the kernels that still read, and the kernels from
 * starting before their audio is there. */
#include "gpu/cuda/cuda.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/kernels.h"
#include "gpu/filter_bank.h"

#define BUFFERS 2

struct buffer {
    float *pcm;        /* [windows][K_MEL_SAMPLES] */
    uint32_t *n;       /* [windows]: samples of each */
    cudaEvent_t there; /* the copy is done */
    cudaEvent_t read;  /* the kernels have passed it */
};

struct mel {
    struct mel_device device;
    uint32_t windows; /* at once */
    void *tables, *audio, *maxima;
    struct buffer buffer[BUFFERS];
    uint32_t next;
};

#define FFT_MOST 1024

/* In the order in which they lie on the device: doubles first. */
struct tables {
    double window[FFT_MOST], cosine[FFT_MOST], sine[FFT_MOST];
    double weight[3 * (FFT_MOST / 2 + 1)]; /* a frequency is in three filters at most */
    uint32_t first[256], count[256], at[256];
};

static void make_turns(struct tables *t, uint32_t fft)
{
    for (uint32_t i = 0; i < fft; i++) {
        double a = 2.0 * 3.14159265358979323846 * i / fft;

        t->cosine[i] = cos(a);
        t->sine[i] = sin(a);
    }
}

/* *memory is to be released. */
static int put_tables(struct backend *be, struct tables *t, uint32_t bins, void **memory,
                      struct mel_device *ret, struct err *err)
{
    struct tables *device;
    int rc;

    for (uint32_t b = 1; b < bins; b++)
        t->at[b] = t->at[b - 1] + t->count[b - 1];
    rc = cuda_alloc(be, sizeof(*t), memory, err);
    if (rc == 0)
        rc = cuda_write(be, *memory, t, sizeof(*t), err);
    device = *memory;
    if (rc == 0)
        *ret = (struct mel_device){
            .bins = bins,
            .window = device->window,
            .cosine = device->cosine,
            .sine = device->sine,
            .first = device->first,
            .count = device->count,
            .at = device->at,
            .weight = device->weight,
        };
    return rc;
}

/* ---- Whisper's log-mel */

static int put_mel(struct backend *be, struct mel *m, uint32_t bins, struct err *err)
{
    struct tables *t = calloc(1, sizeof(*t));
    int rc;

    if (!t)
        return err_set(err, ERR_NOMEM, "out of memory for the spectrogram");
    make_turns(t, K_MEL_FFT);
    for (int i = 0; i < K_MEL_FFT; i++)
        t->window[i] = 0.5 - 0.5 * t->cosine[i];
    mel_filters_whisper(K_MEL_FFT, bins, t->first, t->count, t->weight);
    rc = put_tables(be, t, bins, &m->tables, &m->device, err);
    free(t);
    return rc;
}

static int make_buffers(struct backend *be, struct mel *m, struct err *err)
{
    size_t pcm = (size_t)m->windows * K_MEL_SAMPLES * sizeof(float);
    size_t each = pcm + ((size_t)m->windows * sizeof(uint32_t) + 255) / 256 * 256;
    cudaError_t status = cudaSuccess;
    int rc;

    rc = cuda_alloc(be, each * BUFFERS, &m->audio, err);
    if (rc == 0)
        rc = cuda_alloc(be, (size_t)m->windows * K_MEL_BLOCKS * sizeof(float), &m->maxima, err);
    if (rc != 0)
        return rc;
    for (int i = 0; i < BUFFERS && status == cudaSuccess; i++) {
        char *p = (char *)m->audio + (size_t)i * each;

        m->buffer[i].pcm = (float *)p;
        m->buffer[i].n = (uint32_t *)(p + pcm);
        status = cudaEventCreateWithFlags(&m->buffer[i].there, cudaEventDisableTiming);
        if (status == cudaSuccess)
            status = cudaEventCreateWithFlags(&m->buffer[i].read, cudaEventDisableTiming);
    }
    return cuda_status(err, status, "making events");
}

int cuda_mel_new(struct backend *be, uint32_t bins, uint32_t windows, struct mel **ret,
                 struct err *err)
{
    struct cuda *c = cuda_enter(be);
    struct mel *m;
    int rc;

    if (bins < 1 || bins > 256 || windows < 1)
        return cuda_shape(err, "mel_new");
    rc = cuda_not_recording(c, "mel_new", err);
    if (rc != 0)
        return rc;
    m = calloc(1, sizeof(*m));
    if (!m)
        return err_set(err, ERR_NOMEM, "out of memory for the spectrogram");
    m->windows = windows;
    rc = put_mel(be, m, bins, err);
    if (rc == 0)
        rc = make_buffers(be, m, err);
    /* The buffers were cleared on the other stream. */
    if (rc == 0)
        rc = cuda_sync(be, err);
    if (rc != 0) {
        cuda_mel_free(be, m);
        return rc;
    }
    *ret = m;
    return 0;
}

void cuda_mel_free(struct backend *be, struct mel *m)
{
    if (!m)
        return;
    for (int i = 0; i < BUFFERS; i++) {
        if (m->buffer[i].there)
            (void)cudaEventDestroy(m->buffer[i].there);
        if (m->buffer[i].read)
            (void)cudaEventDestroy(m->buffer[i].read);
    }
    cuda_release(be, m->tables);
    cuda_release(be, m->audio);
    cuda_release(be, m->maxima);
    free(m);
}

/* Only what there is of each window: the kernels know where it ends. */
static int upload_audio(struct cuda *c, const struct buffer *b, const struct audio *audio,
                        uint32_t windows, struct err *err)
{
    uint32_t n[64];
    int rc = 0;

    for (uint32_t w = 0; w < windows && rc == 0; w++) {
        n[w % 64] = (uint32_t)audio[w].n;
        if (w % 64 == 63 || w + 1 == windows)
            rc = cuda_upload(c, c->copies, b->n + w / 64 * 64, n, (w % 64 + 1) * sizeof(n[0]), err);
    }
    for (uint32_t w = 0; w < windows && rc == 0; w++)
        rc = cuda_upload(c, c->copies, b->pcm + (size_t)w * K_MEL_SAMPLES, audio[w].pcm,
                         audio[w].n * sizeof(float), err);
    return rc;
}

static bool audio_fits(const struct audio *audio, uint32_t windows)
{
    for (uint32_t w = 0; w < windows; w++)
        if (audio[w].n > K_MEL_SAMPLES)
            return false;
    return true;
}

int cuda_mel(struct backend *be, struct mel *m, const struct audio *audio, uint32_t windows,
             struct tensor out, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    struct buffer *b = &m->buffer[m->next];
    int rc;

    if (windows < 1 || windows > m->windows || out.type != DTYPE_F32 ||
        out.rows != (int64_t)windows * K_MEL_FRAMES || out.cols != m->device.bins ||
        out.stride != out.cols || !audio_fits(audio, windows))
        return cuda_shape(err, "mel");
    rc = cuda_not_recording(c, "mel", err);
    if (rc != 0)
        return rc;
    m->next = (m->next + 1) % BUFFERS;
    rc = cuda_status(err, cudaStreamWaitEvent(c->copies, b->read, 0), "ordering copies");
    if (rc == 0)
        rc = upload_audio(c, b, audio, windows, err);
    if (rc == 0)
        rc = cuda_status(err, cudaEventRecord(b->there, c->copies), "ordering copies");
    if (rc == 0)
        rc = cuda_status(err, cudaStreamWaitEvent(c->work, b->there, 0), "ordering copies");
    if (rc == 0)
        rc = cuda_status(
            err, k_mel(c->work, m->device, b->pcm, K_MEL_SAMPLES, b->n, windows, m->maxima, out),
            "making a spectrogram");
    if (rc == 0)
        rc = cuda_status(err, cudaEventRecord(b->read, c->work), "ordering copies");
    return rc;
}

/* ---- filter banks */

struct filter_bank {
    struct filter_bank_spec spec;
    struct bank_device device;
    void *tables;
};

static int put_bank(struct backend *be, struct filter_bank *f, struct err *err)
{
    const struct filter_bank_spec *s = &f->spec;
    struct mel_filters *filters = NULL;
    struct tables *t = calloc(1, sizeof(*t));
    const double *weight;
    int rc = t ? mel_filters_new(&s->mel, &filters, err)
               : err_set(err, ERR_NOMEM, "out of memory for a filter bank");

    if (rc == 0) {
        make_turns(t, s->mel.fft);
        filter_bank_window(s, t->window);
        mel_filters_ranges(filters, t->first, t->count, &weight);
        for (size_t b = 0, at = 0; b < s->mel.bins; at += t->count[b++])
            memcpy(t->weight + at, weight + at, t->count[b] * sizeof(*weight));
        rc = put_tables(be, t, s->mel.bins, &f->tables, &f->device.mel, err);
    }
    mel_filters_free(filters);
    free(t);
    return rc;
}

int cuda_filter_bank_new(struct backend *be, const struct filter_bank_spec *spec,
                         struct filter_bank **ret, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    struct filter_bank *f;
    int rc;

    if (!filter_bank_fits(spec))
        return cuda_shape(err, "filter_bank_new");
    if (!k_filter_bank_has(spec->mel.fft))
        return err_set(err, ERR_MODEL, "no filter bank of %u samples on a GPU", spec->mel.fft);
    rc = cuda_not_recording(c, "filter_bank_new", err);
    if (rc != 0)
        return rc;
    f = calloc(1, sizeof(*f));
    if (!f)
        return err_set(err, ERR_NOMEM, "out of memory for a filter bank");
    f->spec = *spec;
    f->device = (struct bank_device){
        .fft = spec->mel.fft,
        .frame = spec->frame,
        .step = spec->step,
        .before = filter_bank_before(spec),
        .mirrored = spec->place == FRAME_MIRRORED,
        .less_mean = spec->less_mean,
        .magnitudes = spec->magnitudes,
        .logarithm = spec->logarithm,
        .centre = spec->centre,
        .pre_emphasis = spec->pre_emphasis,
        .scale = spec->scale,
        .floor = spec->floor,
        .offset = spec->offset,
    };
    rc = put_bank(be, f, err);
    if (rc != 0) {
        cuda_filter_bank_free(be, f);
        return rc;
    }
    *ret = f;
    return 0;
}

void cuda_filter_bank_free(struct backend *be, struct filter_bank *f)
{
    if (!f)
        return;
    cuda_release(be, f->tables);
    free(f);
}

int cuda_filter_bank(struct backend *be, struct filter_bank *f, struct tensor pcm,
                     const uint32_t *at, uint32_t windows, size_t samples, struct tensor out,
                     struct err *err)
{
    const size_t frames = filter_bank_frames(&f->spec, samples);
    struct cuda *c = cuda_enter(be);
    uint32_t *places = NULL;
    int rc;

    if (!filter_bank_shapes(&f->spec, pcm, at, windows, samples, out))
        return cuda_shape(err, "filter_bank");
    rc = cuda_not_recording(c, "filter_bank", err);
    if (rc == 0)
        rc = cuda_numbers(c, at, windows, &places, err);
    return rc == 0 ? cuda_status(err,
                                 k_filter_bank(c->work, f->device, pcm.data, places, windows,
                                               (uint32_t)samples, (uint32_t)frames, out),
                                 "taking energies of mel bins")
                   : rc;
}
