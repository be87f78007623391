#include "workers/models/clap/clap_mel.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "workers/models/clap/clap_config.h"

#define SIDE (CLAP_UPSAMPLE_TAPS / 2) /* samples of the old rate to each side */
#define BETA 12.0
#define PI 3.14159265358979323846
#define CUBIC_TAPS 4

struct clap_mel {
    struct backend *be; /* borrowed */
    struct clap_config config;
    uint32_t windows; /* of one call */
    struct resampling *upsampling, *stretching;
    struct filter_bank *bank;
    struct tensor factor, addend; /* device memory: [1][bins] */
    float *heard;                 /* device memory: [windows][CLAP_SAMPLES] */
    float *samples;               /* device memory: [windows][CLAP_MEL_SAMPLES] */
    float *energies;              /* device memory: [windows * frames][bins] */
    uint32_t *at;                 /* host: [windows], where each begins in samples */
    uint32_t *lengths;            /* host: [windows], of what is in heard */
};

/* ---- weights */

/* The modified Bessel function of order 0, by its series. */
static double compute_bessel(double x)
{
    double sum = 1.0, term = 1.0;

    for (int k = 1; term > 1e-17 * sum; k++) {
        term *= (x / (2.0 * k)) * (x / (2.0 * k));
        sum += term;
    }
    return sum;
}

/* The filter `at` samples from its middle. */
static double evaluate_sinc_filter(double at)
{
    double edge = at / SIDE;

    if (edge <= -1.0 || edge >= 1.0)
        return 0.0;
    return sin(PI * at) / (PI * at) * compute_bessel(BETA * sqrt(1.0 - edge * edge)) /
           compute_bessel(BETA);
}

/* A filter that cuts at half of the old rate is zero at every third tap but the middle one: samples
 * pass as they are, and the two phases between them mirror each other. */
struct resample_spec clap_mel_upsampling(float *w)
{
    double tap[CLAP_UPSAMPLE_TAPS], sum = 0.0;

    for (int k = 0; k < CLAP_UPSAMPLE_TAPS; k++)
        sum += tap[k] = evaluate_sinc_filter(k - (SIDE - 1) - 1.0 / CLAP_UPSAMPLE_BY);
    for (int k = 0; k < CLAP_UPSAMPLE_TAPS; k++) {
        w[k] = k == SIDE - 1 ? 1.0f : 0.0f;
        w[CLAP_UPSAMPLE_TAPS + k] = (float)(tap[k] / sum); /* a constant stays one */
        w[2 * CLAP_UPSAMPLE_TAPS + k] = (float)(tap[CLAP_UPSAMPLE_TAPS - 1 - k] / sum);
    }
    return (struct resample_spec){
        .up = CLAP_UPSAMPLE_BY, .down = 1, .taps = CLAP_UPSAMPLE_TAPS, .before = SIDE - 1};
}

/* Keys' cubic convolution with a = -0.75, at distance d. */
static double compute_cubic_weight(double d)
{
    const double a = -0.75;

    d = fabs(d);
    if (d <= 1.0)
        return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
    return d < 2.0 ? ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a : 0.0;
}

/* Frames of the image, from its parts. */
static uint32_t count_stretched(const struct clap_config *c)
{
    return c->image / c->mel_bins * c->image;
}

/* First and last frame stay where they are; beyond them they go on. */
static int load_stretching(struct clap_mel *m, struct err *err)
{
    const struct resample_spec spec = {.up = count_stretched(&m->config) - 1,
                                       .down = clap_mel_frames(&m->config) - 1,
                                       .taps = CUBIC_TAPS,
                                       .before = 1,
                                       .keep_ends = true};
    float *w = malloc((size_t)spec.up * CUBIC_TAPS * sizeof(*w));
    int rc;

    if (!w)
        return err_no_memory(err, "the spectrogram of sounds");
    for (uint32_t phase = 0; phase < spec.up; phase++)
        for (int k = 0; k < CUBIC_TAPS; k++)
            w[(size_t)phase * CUBIC_TAPS + (size_t)k] =
                (float)compute_cubic_weight((double)phase / spec.up - (k - 1));
    rc = m->be->ops->resample_new(m->be, &spec, w, &m->stretching, err);
    free(w);
    return rc;
}

static int load_upsampling(struct clap_mel *m, struct err *err)
{
    float w[CLAP_UPSAMPLE_BY * CLAP_UPSAMPLE_TAPS];
    const struct resample_spec spec = clap_mel_upsampling(w);

    return m->be->ops->resample_new(m->be, &spec, w, &m->upsampling, err);
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

static int load_bank(struct clap_mel *m, struct err *err)
{
    const struct filter_bank_spec spec = clap_mel_bank(&m->config);
    int rc = m->be->ops->filter_bank_new(m->be, &spec, &m->bank, err);

    if (rc == ERR_USAGE) /* of a model, that is no option to be put right */
        rc = err->code = ERR_MODEL;
    if (rc == ERR_MODEL)
        err_prefix(err, "preprocessor_config.json: fft_window_size is %u", spec.mel.fft);
    return rc;
}

/* ---- memory */

static int put_vector(struct clap_mel *m, const float *values, struct tensor *ret, struct err *err)
{
    int64_t bins = m->config.mel_bins;
    void *p = NULL;
    int rc = m->be->ops->alloc(m->be, (size_t)bins * sizeof(float), &p, err);

    if (rc != 0)
        return rc;
    *ret = tensor_of(DTYPE_F32, p, 1, bins);
    return m->be->ops->put(m->be, *ret, values, err);
}

static int take_floats(struct clap_mel *m, size_t each, float **ret, struct err *err)
{
    void *p = NULL;
    int rc = m->be->ops->alloc(m->be, m->windows * each * sizeof(float), &p, err);

    *ret = p;
    return rc;
}

static int take_memory(struct clap_mel *m, struct err *err)
{
    size_t energies = (size_t)clap_mel_frames(&m->config) * m->config.mel_bins;
    int rc = take_floats(m, CLAP_SAMPLES, &m->heard, err);

    if (rc == 0)
        rc = take_floats(m, CLAP_MEL_SAMPLES, &m->samples, err);
    if (rc == 0)
        rc = take_floats(m, energies, &m->energies, err);
    if (rc != 0)
        return rc;
    m->at = malloc(m->windows * sizeof(*m->at));
    m->lengths = malloc(m->windows * sizeof(*m->lengths));
    if (!m->at || !m->lengths)
        return err_no_memory(err, "the spectrogram of sounds");
    for (uint32_t i = 0; i < m->windows; i++)
        m->at[i] = i * CLAP_MEL_SAMPLES;
    return 0;
}

int clap_mel_new(const struct clap_config *c, struct backend *be, uint32_t windows,
                 const float *factor, const float *addend, struct clap_mel **ret, struct err *err)
{
    struct clap_mel *m = calloc(1, sizeof(*m));
    int rc;

    if (!m)
        return err_no_memory(err, "the spectrogram of sounds");
    m->be = be;
    m->config = *c;
    m->windows = windows;
    rc = load_bank(m, err);
    if (rc == 0)
        rc = load_upsampling(m, err);
    if (rc == 0)
        rc = load_stretching(m, err);
    if (rc == 0)
        rc = put_vector(m, factor, &m->factor, err);
    if (rc == 0)
        rc = put_vector(m, addend, &m->addend, err);
    if (rc == 0)
        rc = take_memory(m, err);
    if (rc != 0) {
        clap_mel_free(m);
        return rc;
    }
    *ret = m;
    return 0;
}

void clap_mel_free(struct clap_mel *m)
{
    const struct backend_ops *ops = m ? m->be->ops : NULL;

    if (!m)
        return;
    ops->filter_bank_free(m->be, m->bank);
    ops->resample_free(m->be, m->upsampling);
    ops->resample_free(m->be, m->stretching);
    ops->release(m->be, m->factor.data);
    ops->release(m->be, m->addend.data);
    ops->release(m->be, m->heard);
    ops->release(m->be, m->samples);
    ops->release(m->be, m->energies);
    free(m->at);
    free(m->lengths);
    free(m);
}

/* ---- running */

float *clap_mel_samples(struct clap_mel *m) { return m->samples; }

/* The sound of as many windows, from `from` on, as lie behind each other in memory, which is most.
 */
static int write_stretch(struct clap_mel *m, const struct clap_audio *audio, uint32_t from,
                         uint32_t n, uint32_t *count, struct err *err)
{
    size_t samples = audio[from].n;

    *count = 1;
    while (from + *count < n && audio[from + *count - 1].n == CLAP_SAMPLES &&
           audio[from + *count].pcm == audio[from + *count - 1].pcm + CLAP_SAMPLES)
        samples += audio[from + (*count)++].n;
    return m->be->ops->write(m->be, m->heard + (size_t)from * CLAP_SAMPLES, audio[from].pcm,
                             samples * sizeof(float), err);
}

/* Repeats the first n samples of window i as often as they fit whole: what is there is doubled
 * until it is as much as what is still missing. */
static int repeat_samples(struct clap_mel *m, uint32_t i, size_t n, struct err *err)
{
    float *samples = m->samples + (size_t)i * CLAP_MEL_SAMPLES;
    size_t end = CLAP_MEL_SAMPLES / n * n;
    int rc = 0;

    for (size_t have = n, more; rc == 0 && have < end; have += more) {
        more = have < end - have ? have : end - have;
        rc = m->be->ops->copy(m->be, tensor_of(DTYPE_F32, samples + have, 1, (int64_t)more),
                              tensor_of(DTYPE_F32, samples, 1, (int64_t)more), err);
    }
    return rc;
}

int clap_mel_put(struct clap_mel *m, const struct clap_audio *audio, uint32_t n, struct err *err)
{
    int64_t rows = (int64_t)n * CLAP_SAMPLES;
    int rc = 0;

    for (uint32_t i = 0, count; rc == 0 && i < n; i += count)
        rc = write_stretch(m, audio, i, n, &count, err);
    for (uint32_t i = 0; i < n; i++)
        m->lengths[i] = (uint32_t)audio[i].n;
    if (rc == 0)
        rc = m->be->ops->resample(
            m->be, m->upsampling, n, m->lengths, tensor_of(DTYPE_F32, m->heard, rows, 1), NULL,
            NULL, tensor_of(DTYPE_F32, m->samples, rows * CLAP_UPSAMPLE_BY, 1), err);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = repeat_samples(m, i, audio[i].n * CLAP_UPSAMPLE_BY, err);
    return rc;
}

int clap_mel_run(struct clap_mel *m, uint32_t n, struct tensor image, struct err *err)
{
    int64_t frames = clap_mel_frames(&m->config), bins = m->config.mel_bins;
    struct tensor samples = tensor_of(DTYPE_F32, m->samples, 1, (int64_t)n * CLAP_MEL_SAMPLES);
    struct tensor energies = tensor_of(DTYPE_F32, m->energies, n * frames, bins);
    int rc =
        m->be->ops->filter_bank(m->be, m->bank, samples, m->at, n, CLAP_MEL_SAMPLES, energies, err);

    return rc == 0 ? m->be->ops->resample(m->be, m->stretching, n, NULL, energies, &m->factor,
                                          &m->addend, image, err)
                   : rc;
}
