#include "workers/models/yamnet/yamnet_mel.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/fft.h"
#include "gpu/mel_filters.h"

#define RATE 16000
#define LOW_HZ 125.0
#define HIGH_HZ 7500.0
#define LOG_OFFSET 0.001

struct yamnet_mel {
    struct fft *fft;
    struct mel_filters *filters;
    double window[YAMNET_FRAME];
};

int yamnet_mel_new(struct yamnet_mel **ret, struct err *err)
{
    const struct mel_spec spec = {MEL_HTK,    true,        false,  RATE,
                                  YAMNET_FFT, YAMNET_BINS, LOW_HZ, HIGH_HZ};
    struct yamnet_mel *m = calloc(1, sizeof(*m));
    int rc;

    if (!m)
        return err_set(err, ERR_NOMEM, "no memory for the spectrogram of sounds");
    rc = fft_new(YAMNET_FFT, &m->fft, err);
    if (rc == 0)
        rc = mel_filters_new(&spec, &m->filters, err);
    if (rc != 0) {
        yamnet_mel_free(m);
        return rc;
    }
    for (int i = 0; i < YAMNET_FRAME; i++)
        m->window[i] = 0.5 - 0.5 * cos(2.0 * 3.14159265358979323846 * i / YAMNET_FRAME);
    *ret = m;
    return 0;
}

void yamnet_mel_free(struct yamnet_mel *m)
{
    if (!m)
        return;
    fft_free(m->fft);
    mel_filters_free(m->filters);
    free(m);
}

/* One frame's window of samples, then zeros. What is no number is silence, and what is far outside
 * of [-1, 1] is cut: the sums stay finite. */
static void take(const struct yamnet_mel *m, const float *pcm, size_t n, size_t at, double *x)
{
    for (size_t i = 0; i < YAMNET_FFT; i++) {
        double v = i < YAMNET_FRAME && at + i < n ? (double)pcm[at + i] : 0.0;

        v = v >= -16.0 && v <= 16.0 ? v : v > 16.0 ? 16.0 : v < -16.0 ? -16.0 : 0.0;
        x[i] = i < YAMNET_FRAME ? v * m->window[i] : 0.0;
    }
}

int yamnet_mel(const struct yamnet_mel *m, const float *pcm, size_t n, uint32_t frames, float *ret,
               struct err *err)
{
    double x[YAMNET_FFT], magnitude[YAMNET_FFT / 2 + 1], mel[YAMNET_BINS];
    double *scratch = malloc(fft_scratch(m->fft) * sizeof(*scratch));

    if (!scratch)
        return err_set(err, ERR_NOMEM, "no memory for the spectrogram of sounds");
    for (uint32_t t = 0; t < frames; t++) {
        take(m, pcm, n, (size_t)t * YAMNET_FRAME_HOP, x);
        fft_power(m->fft, x, scratch, magnitude);
        for (uint32_t k = 0; k <= YAMNET_FFT / 2; k++)
            magnitude[k] = sqrt(magnitude[k]);
        mel_filters_apply(m->filters, magnitude, mel);
        for (uint32_t b = 0; b < YAMNET_BINS; b++)
            ret[(size_t)t * YAMNET_BINS + b] = (float)log(mel[b] + LOG_OFFSET);
    }
    free(scratch);
    return 0;
}
