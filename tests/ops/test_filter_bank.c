/* Energies of mel bins against the sum that defines a transform, in double precision, on the host
 * or the device that NIGHTSHIFT_TEST_DEVICE names. */
#include "tests/common/test.h"

#include <math.h>
#include <string.h>

#include "tests/common/distance.h"
#include "tests/ops/check.h"

#define PI 3.14159265358979323846
#define SAMPLES 24000
#define MOST_WINDOWS 4
/* Of an energy; of its logarithm as much, which is then off by itself, not by a share. Energies of
 * a transform in float32 would be off by more where a bin is quiet beside loud ones. */
#define BOUND 1e-5

struct bank_case {
    struct filter_bank_spec spec;
    size_t samples;
    uint32_t windows, at[MOST_WINDOWS];
};

static const struct bank_case cases[] = {
    /* ResNet's: windows that lie over each other, and one that shares no whole frames */
    {{.mel = {MEL_HTK, true, false, 16000, 512, 80, 20.0, 8000.0},
      .frame = 400,
      .step = 160,
      .window = FRAME_HAMMING,
      .less_mean = true,
      .pre_emphasis = 0.97,
      .scale = 32768.0,
      .logarithm = true,
      .floor = 1.1920928955078125e-07,
      .centre = true},
     8000,
     4,
     {0, 1600, 3250, SAMPLES - 8000}},
    /* GE2E's: silence beyond both ends */
    {{.mel = {MEL_SLANEY, false, true, 16000, 400, 40, 0.0, 8000.0},
      .frame = 400,
      .step = 160,
      .window = FRAME_HANN,
      .place = FRAME_CENTRED,
      .scale = 1.0},
     7999,
     2,
     {5, 9000}},
    /* YAMNet's */
    {{.mel = {MEL_HTK, true, false, 16000, 512, 64, 125.0, 7500.0},
      .frame = 400,
      .step = 160,
      .window = FRAME_HANN,
      .scale = 1.0,
      .magnitudes = true,
      .logarithm = true,
      .offset = 0.001},
     15600,
     2,
     {0, 7680}},
    /* CLAP's: mirrored at both ends; an odd number of frames */
    {{.mel = {MEL_SLANEY, false, true, 48000, 1024, 64, 50.0, 14000.0},
      .frame = 1024,
      .step = 480,
      .window = FRAME_HANN,
      .place = FRAME_MIRRORED,
      .scale = 1.0,
      .logarithm = true,
      .floor = 1e-10},
     10000,
     2,
     {3, SAMPLES - 10000}},
    /* as short as can be mirrored */
    {{.mel = {MEL_SLANEY, false, true, 16000, 512, 40, 0.0, 8000.0},
      .frame = 512,
      .step = 100,
      .window = FRAME_HANN,
      .place = FRAME_MIRRORED,
      .scale = 1.0,
      .magnitudes = true,
      .offset = 1.0},
     257,
     1,
     {11}},
    /* nothing even: a short frame, few bins of which some are empty, a number of frames that no
     * block divides, logarithms that are not centred */
    {{.mel = {MEL_SLANEY, false, false, 16000, 400, 23, 100.0, 7000.0},
      .frame = 321,
      .step = 77,
      .window = FRAME_HAMMING,
      .place = FRAME_CENTRED,
      .less_mean = true,
      .pre_emphasis = 0.5,
      .scale = 3.0,
      .logarithm = true,
      .floor = 1e-3},
     1001,
     3,
     {0, 1, 20000}},
    {{.mel = {MEL_HTK, false, true, 16000, 512, 256, 0.0, 8000.0},
      .frame = 512,
      .step = 1000,
      .window = FRAME_HANN,
      .scale = 1.0,
      .centre = true},
     512,
     1,
     {SAMPLES - 512}},
};

/* ---- the reference */

static double to_mel(enum mel_scale scale, double f)
{
    return scale == MEL_HTK ? 1127.0 * log(1.0 + f / 700.0)
           : f < 1000.0     ? f * 3.0 / 200.0
                            : 15.0 + 27.0 * log(f / 1000.0) / log(6.4);
}

static double to_hz(enum mel_scale scale, double m)
{
    return scale == MEL_HTK ? 700.0 * (exp(m / 1127.0) - 1.0)
           : m < 15.0       ? m * 200.0 / 3.0
                            : 1000.0 * pow(6.4, (m - 15.0) / 27.0);
}

static double weight_of(const struct mel_spec *m, uint32_t bin, uint32_t k)
{
    double low = to_mel(m->scale, m->low_hz);
    double step = (to_mel(m->scale, m->high_hz) - low) / (m->bins + 1);
    double lo = to_hz(m->scale, low + step * bin), hi = to_hz(m->scale, low + step * (bin + 2));
    double mid = to_hz(m->scale, low + step * (bin + 1));
    double f = (double)k * m->rate_hz / m->fft, norm = m->area ? 2.0 / (hi - lo) : 1.0;

    if (m->linear_in_mel) {
        f = to_mel(m->scale, f);
        lo = low + step * bin;
        mid = lo + step;
        hi = mid + step;
    }
    return norm * fmax(0.0, fmin((f - lo) / (mid - lo), (hi - f) / (hi - mid)));
}

static double sample(const struct filter_bank_spec *s, const float *pcm, size_t n, long i)
{
    if (s->place == FRAME_MIRRORED && i < 0)
        i = -i;
    if (s->place == FRAME_MIRRORED && i >= (long)n)
        i = 2 * ((long)n - 1) - i;
    return i < 0 || i >= (long)n ? 0.0 : (double)pcm[i];
}

/* One frame's energies. */
static void reference_frame(const struct filter_bank_spec *s, const float *pcm, size_t n,
                            size_t frame, double *ret)
{
    long begin = (long)(frame * s->step) - (s->place == FRAME_WITHIN ? 0 : (long)s->frame / 2);
    double x[1024] = {0}, z[1024] = {0}, power[513], mean = 0.0;

    for (uint32_t i = 0; i < s->frame; i++) {
        x[i] = sample(s, pcm, n, begin + i);
        mean += x[i] / s->frame;
    }
    for (uint32_t i = 0; i < s->frame; i++) {
        double w = s->window == FRAME_HANN ? 0.5 - 0.5 * cos(2.0 * PI * i / s->frame)
                                           : 0.54 - 0.46 * cos(2.0 * PI * i / (s->frame - 1));
        double off = s->less_mean ? mean : 0.0;

        z[i] = ((x[i] - off) - s->pre_emphasis * (x[i ? i - 1 : 0] - off)) * s->scale * w;
    }
    for (uint32_t k = 0; k <= s->mel.fft / 2; k++) {
        double re = 0.0, im = 0.0;

        for (uint32_t i = 0; i < s->frame; i++) {
            double a = 2.0 * PI * (double)(k * i % s->mel.fft) / s->mel.fft;

            re += z[i] * cos(a);
            im -= z[i] * sin(a);
        }
        power[k] = s->magnitudes ? hypot(re, im) : re * re + im * im;
    }
    for (uint32_t b = 0; b < s->mel.bins; b++) {
        ret[b] = 0.0;
        for (uint32_t k = 0; k <= s->mel.fft / 2; k++)
            ret[b] += weight_of(&s->mel, b, k) * power[k];
        if (s->logarithm)
            ret[b] = log(fmax(ret[b], s->floor) + s->offset);
    }
}

static void reference_window(const struct filter_bank_spec *s, const float *pcm, size_t n,
                             size_t frames, double *ret)
{
    for (size_t f = 0; f < frames; f++)
        reference_frame(s, pcm, n, f, ret + f * s->mel.bins);
    for (uint32_t b = 0; b < s->mel.bins && s->centre; b++) {
        double mean = 0.0;

        for (size_t f = 0; f < frames; f++)
            mean += ret[f * s->mel.bins + b] / (double)frames;
        for (size_t f = 0; f < frames; f++)
            ret[f * s->mel.bins + b] -= mean;
    }
}

/* ---- */

/* A loud tone over noise far below it, and quiet stretches. */
static void make_sound(float *pcm)
{
    float *noise = values(SAMPLES, DTYPE_F32, 1e-4f, 3);

    for (size_t i = 0; i < SAMPLES; i++)
        pcm[i] = (i % 6000 < 1500 ? 1e-3f : 0.8f) * sinf((float)i * 0.2f) + noise[i] + 0.01f;
    free(noise);
}

static double distance(const struct filter_bank_spec *s, double have, double want)
{
    return fabs(have - want) / (s->logarithm ? 1.0 : fmax(fabs(want), 1e-12));
}

TEST(filter_banks)
{
    static float pcm[SAMPLES];
    struct tensor sound;

    make_sound(pcm);
    sound = tensor_new(DTYPE_F32, 1, SAMPLES, pcm);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct bank_case *c = &cases[i];
        const size_t frames = filter_bank_frames(&c->spec, c->samples), bins = c->spec.mel.bins;
        struct tensor out = tensor_new(DTYPE_F32, c->windows * frames, bins, NULL);
        double *want = malloc(frames * bins * sizeof(*want)), worst = 0.0;
        float *got = malloc(c->windows * frames * bins * sizeof(*got));
        struct filter_bank *f;
        struct err e;

        assert_ok(be->ops->filter_bank_new(be, &c->spec, &f, &e), e);
        assert_ok(be->ops->filter_bank(be, f, sound, c->at, c->windows, c->samples, out, &e), e);
        assert_ok(be->ops->get(be, got, out, &e), e);
        for (uint32_t w = 0; w < c->windows; w++) {
            reference_window(&c->spec, pcm + c->at[w], c->samples, frames, want);
            for (size_t k = 0; k < frames * bins; k++)
                worst = distance_larger(
                    worst, distance(&c->spec, (double)got[w * frames * bins + k], want[k]));
        }
        print_message("  %zu frames of %zu bins: %.1e\n", frames, bins, worst);
        assert_true(worst < BOUND);
        be->ops->filter_bank_free(be, f);
        tensor_free(out);
        free(want);
        free(got);
    }
    tensor_free(sound);
}

/* What is no number is silence, and what is far outside of [-1, 1] is cut. */
TEST(strange_samples)
{
    static float pcm[2][SAMPLES], got[2][64 * 1024];

    make_sound(pcm[0]);
    for (size_t i = 0; i < SAMPLES; i += 777)
        pcm[0][i] = (float[]){NAN, -INFINITY, 1e38f, -17.0f, -NAN, 16.0f}[i / 777 % 6];
    for (size_t i = 0; i < SAMPLES; i++)
        pcm[1][i] = isnan(pcm[0][i]) ? 0.0f : fmaxf(fminf(pcm[0][i], 16.0f), -16.0f);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct bank_case *c = &cases[i];
        const size_t rows = c->windows * filter_bank_frames(&c->spec, c->samples);
        struct tensor out = tensor_new(DTYPE_F32, rows, c->spec.mel.bins, NULL);
        struct filter_bank *f;
        struct err e;

        assert_in_range(rows * c->spec.mel.bins, 1, COUNT(got[0]));
        assert_ok(be->ops->filter_bank_new(be, &c->spec, &f, &e), e);
        for (size_t k = 0; k < 2; k++) {
            struct tensor sound = tensor_new(DTYPE_F32, 1, SAMPLES, pcm[k]);

            assert_ok(be->ops->filter_bank(be, f, sound, c->at, c->windows, c->samples, out, &e),
                      e);
            assert_ok(be->ops->get(be, got[k], out, &e), e);
            tensor_free(sound);
        }
        assert_memory_equal(got[0], got[1], rows * c->spec.mel.bins * sizeof(float));
        be->ops->filter_bank_free(be, f);
        tensor_free(out);
    }
}

TEST(what_does_not_fit)
{
    const struct bank_case *c = &cases[0];
    const uint32_t frames = (uint32_t)filter_bank_frames(&c->spec, 8000), past[] = {0, 8001};
    struct tensor pcm = tensor_new(DTYPE_F32, 1, 16000, NULL);
    struct tensor out = tensor_new(DTYPE_F32, 2 * frames, 80, NULL), wrong = out;
    struct filter_bank_spec spec = c->spec;
    struct filter_bank *f, *none = NULL;
    struct err e;

    assert_ok(be->ops->filter_bank_new(be, &c->spec, &f, &e), e);
    assert_ok(be->ops->filter_bank(be, f, pcm, (uint32_t[]){0, 8000}, 2, 8000, out, &e), e);
    assert_int_equal(be->ops->filter_bank(be, f, pcm, past, 2, 8000, out, &e), ERR_DEVICE);
    assert_int_equal(be->ops->filter_bank(be, f, pcm, past, 1, 8000, out, &e), ERR_DEVICE);
    assert_int_equal(be->ops->filter_bank(be, f, pcm, past, 0, 8000, out, &e), ERR_DEVICE);
    wrong.rows = 0;
    assert_int_equal(be->ops->filter_bank(be, f, pcm, past, 1, 399, wrong, &e), ERR_DEVICE);
    wrong = tensor_columns(out, 0, 79);
    assert_int_equal(be->ops->filter_bank(be, f, pcm, past, 1, 8000, wrong, &e), ERR_DEVICE);
    be->ops->filter_bank_free(be, f);
    be->ops->filter_bank_free(be, NULL);
    spec.frame = 513;
    assert_int_equal(be->ops->filter_bank_new(be, &spec, &none, &e), ERR_DEVICE);
    spec = c->spec;
    spec.floor = 0.0;
    assert_int_equal(be->ops->filter_bank_new(be, &spec, &none, &e), ERR_DEVICE);
    spec = c->spec;
    spec.mel.high_hz = 10.0;
    assert_int_equal(be->ops->filter_bank_new(be, &spec, &none, &e), ERR_USAGE);
    assert_null(none);
    tensor_free(pcm);
    tensor_free(out);
}

int main(void) { return suite_run(open_backend, close_backend); }
