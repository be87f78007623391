#include "workers/audio/fbank.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "workers/audio/fft.h"
#include "workers/audio/mel_filters.h"

#define PRE_EMPHASIS 0.97
#define PI 3.14159265358979323846

#define BLOCK 16 /* frames that a thread takes at once: some 0.1 ms */

/* Of a thread. */
struct desk {
    double *frame; /* [length]; 0 past FBANK_FRAME */
    double *power; /* [length / 2 + 1] */
    double *bin;   /* [bins] */
    double *scratch;
};

struct fbank {
    enum fbank_kind kind;
    uint32_t bins, length; /* length of the transform */
    uint32_t threads;
    struct fft *fft;
    struct mel_filters *filters;
    double window[FBANK_FRAME];
    struct desk *desks; /* [threads] */
};

static const struct mel_spec specs[] = {
    [FBANK_KALDI] = {.scale = MEL_HTK,
                     .linear_in_mel = true,
                     .rate_hz = 16000,
                     .fft = 512,
                     .bins = FBANK_KALDI_BINS,
                     .low_hz = 20.0,
                     .high_hz = 8000.0},
    [FBANK_POWER] = {.scale = MEL_SLANEY,
                     .area = true,
                     .rate_hz = 16000,
                     .fft = 400,
                     .bins = FBANK_POWER_BINS,
                     .low_hz = 0.0,
                     .high_hz = 8000.0},
};

/* Hamming's window has its last value at the frame's last sample; Hann's is periodic. */
static void make_window(struct fbank *f)
{
    for (int i = 0; i < FBANK_FRAME; i++)
        f->window[i] = f->kind == FBANK_KALDI ? 0.54 - 0.46 * cos(2.0 * PI * i / (FBANK_FRAME - 1))
                                              : 0.5 - 0.5 * cos(2.0 * PI * i / FBANK_FRAME);
}

static int make_desk(const struct fbank *f, struct desk *b, struct err *err)
{
    b->frame = calloc(f->length, sizeof(double));
    b->power = calloc(fft_bins(f->fft), sizeof(double));
    b->bin = calloc(f->bins, sizeof(double));
    b->scratch = calloc(fft_scratch(f->fft), sizeof(double));
    if (!b->frame || !b->power || !b->bin || !b->scratch)
        return err_set(err, ERR_NOMEM, "no memory for a filter bank");
    return 0;
}

static uint32_t threads_of(uint32_t asked)
{
    int usual = omp_get_max_threads();

    if (CPU_ONE_THREAD)
        return 1;
    if (asked)
        return asked;
    return usual < 1 ? 1 : usual > FBANK_MAX_THREADS ? FBANK_MAX_THREADS : (uint32_t)usual;
}

int fbank_new(enum fbank_kind kind, uint32_t threads, struct fbank **ret, struct err *err)
{
    struct fbank *f = calloc(1, sizeof(*f));
    int rc;

    if (!f)
        return err_set(err, ERR_NOMEM, "no memory for a filter bank");
    f->kind = kind;
    f->bins = specs[kind].bins;
    f->length = specs[kind].fft;
    make_window(f);
    rc = fft_new(f->length, &f->fft, err);
    if (rc == 0)
        rc = mel_filters_new(&specs[kind], &f->filters, err);
    if (rc == 0) {
        f->threads = threads_of(threads);
        f->desks = calloc(f->threads, sizeof(*f->desks));
        if (!f->desks)
            rc = err_set(err, ERR_NOMEM, "no memory for a filter bank");
    }
    for (uint32_t i = 0; rc == 0 && i < f->threads; i++)
        rc = make_desk(f, &f->desks[i], err);
    if (rc != 0) {
        fbank_free(f);
        return rc;
    }
    *ret = f;
    return 0;
}

void fbank_free(struct fbank *f)
{
    if (!f)
        return;
    fft_free(f->fft);
    mel_filters_free(f->filters);
    for (uint32_t i = 0; f->desks && i < f->threads; i++) {
        free(f->desks[i].frame);
        free(f->desks[i].power);
        free(f->desks[i].bin);
        free(f->desks[i].scratch);
    }
    free(f->desks);
    free(f);
}

size_t fbank_frames(enum fbank_kind kind, size_t n)
{
    if (kind == FBANK_POWER)
        return 1 + n / FBANK_STEP;
    return n < FBANK_FRAME ? 0 : 1 + (n - FBANK_FRAME) / FBANK_STEP;
}

/* The first sample has itself before it. */
static void kaldi_frame(const struct fbank *f, const float *pcm, double *ret)
{
    double mean = 0.0, before;

    for (int i = 0; i < FBANK_FRAME; i++)
        mean += (double)pcm[i];
    mean /= FBANK_FRAME;
    before = (double)pcm[0] - mean;
    for (int i = 0; i < FBANK_FRAME; i++) {
        double x = (double)pcm[i] - mean;

        ret[i] = (x - PRE_EMPHASIS * before) * 32768.0 * f->window[i];
        before = x;
    }
}

/* Centred on sample `at`. */
static void centred_frame(const struct fbank *f, const float *pcm, size_t n, size_t at, double *ret)
{
    for (size_t i = 0; i < FBANK_FRAME; i++) {
        size_t k = at + i; /* half a frame ahead of where it lies */

        ret[i] = k < FBANK_FRAME / 2 || k - FBANK_FRAME / 2 >= n
                     ? 0.0
                     : (double)pcm[k - FBANK_FRAME / 2] * f->window[i];
    }
}

static void run_frame(const struct fbank *f, const struct desk *b, const struct fbank_piece *p,
                      size_t i)
{
    float *ret = p->ret + i * f->bins;

    if (f->kind == FBANK_KALDI)
        kaldi_frame(f, p->pcm + i * FBANK_STEP, b->frame);
    else
        centred_frame(f, p->pcm, p->n, i * FBANK_STEP, b->frame);
    fft_power(f->fft, b->frame, b->scratch, b->power);
    mel_filters_apply(f->filters, b->power, b->bin);
    for (uint32_t k = 0; k < f->bins; k++)
        ret[k] =
            (float)(f->kind == FBANK_KALDI ? log(fmax(b->bin[k], (double)FLT_EPSILON)) : b->bin[k]);
}

static size_t blocks_of(const struct fbank *f, const struct fbank_piece *p)
{
    return (fbank_frames(f->kind, p->n) + BLOCK - 1) / BLOCK;
}

/* Block k of all pieces' together. */
static void run_block(const struct fbank *f, const struct desk *b, const struct fbank_piece *pieces,
                      size_t k)
{
    size_t frames, first;

    for (; k >= blocks_of(f, pieces); pieces++)
        k -= blocks_of(f, pieces);
    frames = fbank_frames(f->kind, pieces->n);
    first = k * BLOCK;
    for (size_t i = first; i < frames && i < first + BLOCK; i++)
        run_frame(f, b, pieces, i);
}

void fbank_run_all(struct fbank *f, const struct fbank_piece *pieces, size_t count)
{
    size_t blocks = 0;

    for (size_t i = 0; i < count; i++)
        blocks += blocks_of(f, &pieces[i]);
#pragma omp parallel for schedule(dynamic) num_threads(blocks > 1 ? f->threads : 1)
    for (size_t k = 0; k < blocks; k++)
        run_block(f, &f->desks[omp_get_thread_num()], pieces, k);
}

void fbank_run(struct fbank *f, const float *pcm, size_t n, float *ret)
{
    const struct fbank_piece piece = {pcm, n, ret};

    fbank_run_all(f, &piece, 1);
}

static void centre(const float *rows, size_t frames, size_t bins, float *ret)
{
    double mean[FBANK_KALDI_BINS] = {0};

    for (size_t i = 0; i < frames; i++)
        for (size_t b = 0; b < bins; b++)
            mean[b] += (double)rows[i * bins + b];
    for (size_t b = 0; b < bins; b++)
        mean[b] /= (double)frames;
    for (size_t i = 0; i < frames; i++)
        for (size_t b = 0; b < bins; b++)
            ret[i * bins + b] = (float)((double)rows[i * bins + b] - mean[b]);
}

void fbank_centre_all(const struct fbank *f, const float *const *rows, size_t count, size_t frames,
                      float *ret)
{
#pragma omp parallel for schedule(dynamic) num_threads(count > 1 ? f->threads : 1)
    for (size_t i = 0; i < count; i++)
        centre(rows[i], frames, f->bins, ret + i * frames * f->bins);
}
