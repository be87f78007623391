#include "workers/audio/fbank.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workers/audio/fft.h"
#include "workers/audio/mel_filters.h"

#define PRE_EMPHASIS 0.97
#define PI 3.14159265358979323846

struct fbank {
    enum fbank_kind kind;
    uint32_t bins, length; /* length of the transform */
    struct fft *fft;
    struct mel_filters *filters;
    double window[FBANK_FRAME];
    double *frame; /* [length]; 0 past FBANK_FRAME */
    double *power; /* [length / 2 + 1] */
    double *bin;   /* [bins] */
    double *scratch;
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

int fbank_new(enum fbank_kind kind, struct fbank **ret, struct err *err)
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
        f->frame = calloc(f->length, sizeof(double));
        f->power = calloc(fft_bins(f->fft), sizeof(double));
        f->bin = calloc(f->bins, sizeof(double));
        f->scratch = calloc(fft_scratch(f->fft), sizeof(double));
        if (!f->frame || !f->power || !f->bin || !f->scratch)
            rc = err_set(err, ERR_NOMEM, "no memory for a filter bank");
    }
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
    free(f->frame);
    free(f->power);
    free(f->bin);
    free(f->scratch);
    free(f);
}

size_t fbank_frames(enum fbank_kind kind, size_t n)
{
    if (kind == FBANK_POWER)
        return 1 + n / FBANK_STEP;
    return n < FBANK_FRAME ? 0 : 1 + (n - FBANK_FRAME) / FBANK_STEP;
}

/* The first sample has itself before it. */
static void kaldi_frame(struct fbank *f, const float *pcm)
{
    double mean = 0.0, before;

    for (int i = 0; i < FBANK_FRAME; i++)
        mean += (double)pcm[i];
    mean /= FBANK_FRAME;
    before = (double)pcm[0] - mean;
    for (int i = 0; i < FBANK_FRAME; i++) {
        double x = (double)pcm[i] - mean;

        f->frame[i] = (x - PRE_EMPHASIS * before) * 32768.0 * f->window[i];
        before = x;
    }
}

/* Centred on sample `at`. */
static void centred_frame(struct fbank *f, const float *pcm, size_t n, size_t at)
{
    for (size_t i = 0; i < FBANK_FRAME; i++) {
        size_t k = at + i; /* half a frame ahead of where it lies */

        f->frame[i] = k < FBANK_FRAME / 2 || k - FBANK_FRAME / 2 >= n
                          ? 0.0
                          : (double)pcm[k - FBANK_FRAME / 2] * f->window[i];
    }
}

void fbank_run(struct fbank *f, const float *pcm, size_t n, float *ret)
{
    size_t frames = fbank_frames(f->kind, n);

    for (size_t i = 0; i < frames; i++, ret += f->bins) {
        if (f->kind == FBANK_KALDI)
            kaldi_frame(f, pcm + i * FBANK_STEP);
        else
            centred_frame(f, pcm, n, i * FBANK_STEP);
        fft_power(f->fft, f->frame, f->scratch, f->power);
        mel_filters_apply(f->filters, f->power, f->bin);
        for (uint32_t b = 0; b < f->bins; b++)
            ret[b] = (float)(f->kind == FBANK_KALDI ? log(fmax(f->bin[b], (double)FLT_EPSILON))
                                                    : f->bin[b]);
    }
}
