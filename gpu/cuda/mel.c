/* The log-mel spectrogram: tables as on the host, audio on its way while the device works.
 *
 * There are two buffers for audio. While the kernels read one, the next batch is copied into the
 * other on the stream for copies; events keep a copy from overtaking the kernels that still read,
 * and the kernels from starting before their audio is there. */
#include "gpu/cuda/cuda.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/kernels.h"
#include "gpu/mel_filters.h"

#define FREQUENCIES (K_MEL_FFT / 2 + 1)
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

/* In the order in which they lie on the device: doubles first. */
struct tables {
    double window[K_MEL_FFT], cosine[K_MEL_FFT], sine[K_MEL_FFT];
    double weight[2 * FREQUENCIES]; /* a frequency is in two filters at most */
    uint32_t first[256], count[256], at[256];
};

static void make_tables(struct tables *t, uint32_t bins)
{
    for (int i = 0; i < K_MEL_FFT; i++) {
        double a = 2.0 * 3.14159265358979323846 * i / K_MEL_FFT;

        t->cosine[i] = cos(a);
        t->sine[i] = sin(a);
        t->window[i] = 0.5 - 0.5 * cos(a);
    }
    mel_filters(K_MEL_FFT, bins, t->first, t->count, t->weight);
    for (uint32_t b = 1; b < bins; b++)
        t->at[b] = t->at[b - 1] + t->count[b - 1];
}

static int put_tables(struct backend *be, struct mel *m, uint32_t bins, struct err *err)
{
    struct tables *t = calloc(1, sizeof(*t)), *device;
    int rc;

    if (!t)
        return err_set(err, ERR_NOMEM, "out of memory for the spectrogram");
    make_tables(t, bins);
    rc = cuda_alloc(be, sizeof(*t), &m->tables, err);
    if (rc == 0)
        rc = cuda_write(be, m->tables, t, sizeof(*t), err);
    free(t);
    device = m->tables;
    if (rc == 0)
        m->device = (struct mel_device){
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
    rc = put_tables(be, m, bins, err);
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
