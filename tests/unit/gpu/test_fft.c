/* Spectra against the sum that defines them, and mel filters against hand-made triangles. */
#include "tests/common/test.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/filter_bank.h"
#include "tests/common/fft.h"

#define PI 3.14159265358979323846

/* Every radix alone and mixed, and the lengths that the models use. */
static const uint32_t lengths[] = {2, 4, 6, 8, 10, 12, 30, 60, 128, 250, 400, 480, 512, 1024};

static void check_length(uint32_t n)
{
    struct fft *f = NULL;
    struct err e;
    double x[1024], re[513], im[513], power[513], *scratch;

    assert_ok(fft_new(n, &f, &e), e);
    assert_int_equal(fft_bins(f), n / 2 + 1);
    scratch = calloc(fft_scratch(f), sizeof(*scratch));
    assert_non_null(scratch);
    for (uint32_t i = 0; i < n; i++)
        x[i] = sin(0.37 * i * i) + 0.25;
    fft_real(f, x, scratch, re, im);
    fft_power(f, x, scratch, power);
    for (uint32_t k = 0; k <= n / 2; k++) {
        double a = 0.0, b = 0.0;

        for (uint32_t i = 0; i < n; i++) {
            double angle = 2.0 * PI * (double)((uint64_t)i * k % n) / n;

            a += x[i] * cos(angle);
            b -= x[i] * sin(angle);
        }
        assert_true(fabs(re[k] - a) < 1e-12 * n && fabs(im[k] - b) < 1e-12 * n);
        assert_true(fabs(power[k] - (re[k] * re[k] + im[k] * im[k])) <= 1e-12 * (1.0 + power[k]));
    }
    free(scratch);
    fft_free(f);
}

TEST(spectra)
{
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        check_length(lengths[i]);
}

TEST(lengths_refused)
{
    static const uint32_t bad[] = {0, 1, 3, 14, 401, 1022, FFT_MAX + 2};
    struct fft *f = NULL;
    struct err e;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(fft_new(bad[i], &f, &e), ERR_USAGE);
    assert_null(f);
    assert_ok(fft_new(FFT_MAX, &f, &e), e);
    fft_free(f);
}

/* 160 values at 16 kHz: every 100 Hz. Slaney's scale is linear up to 1 kHz, so four bins
 * up to there have edges 0, 200 .. 1000 Hz, and 1 kHz lies on the last foot. */
TEST(triangles)
{
    struct mel_spec spec = {MEL_SLANEY, false, false, 16000, 160, 4, 0.0, 1000.0};
    struct mel_filters *m = NULL;
    struct err e;
    double x[81] = {0}, y[4];

    assert_ok(mel_filters_new(&spec, &m, &e), e);
    x[3] = 1.0; /* 300 Hz: half way between the peaks of bins 0 and 1 */
    mel_filters_apply(m, x, y);
    assert_true(fabs(y[0] - 0.5) < 1e-12 && fabs(y[1] - 0.5) < 1e-12);
    assert_true(y[2] == 0.0 && y[3] == 0.0);
    x[3] = 0.0;
    x[8] = 2.0; /* the peak of the last */
    mel_filters_apply(m, x, y);
    assert_true(fabs(y[2]) < 1e-12 && fabs(y[3] - 2.0) < 1e-12);
    mel_filters_free(m);
    spec.area = true; /* height 2 / (1000 - 600) */
    assert_ok(mel_filters_new(&spec, &m, &e), e);
    mel_filters_apply(m, x, y);
    assert_true(fabs(y[3] - 2.0 * 2.0 / 400.0) < 1e-12);
    mel_filters_free(m);
}

/* Neighbours with straight sides over mel add up to one everywhere between the outer peaks. */
TEST(mel_sides)
{
    struct mel_spec spec = {MEL_HTK, true, false, 16000, 512, 64, 125.0, 7500.0};
    struct mel_filters *m = NULL;
    struct err e;

    assert_ok(mel_filters_new(&spec, &m, &e), e);
    for (uint32_t k = 0; k <= 256; k++) {
        double x[257] = {0}, y[64], sum = 0.0, hz = k * 16000.0 / 512.0;

        x[k] = 1.0;
        mel_filters_apply(m, x, y);
        for (int b = 0; b < 64; b++)
            sum += y[b];
        if (hz > 200.0 && hz < 7000.0)
            assert_true(fabs(sum - 1.0) < 1e-12);
        if (hz < 125.0 || hz > 7500.0)
            assert_true(sum == 0.0);
    }
    mel_filters_free(m);
}

TEST(filters_refused)
{
    static const struct mel_spec bad[] = {
        {MEL_HTK, false, false, 16000, 512, 0, 0.0, 8000.0},
        {MEL_HTK, false, false, 16000, 512, 80, 8000.0, 8000.0},
        {MEL_HTK, false, false, 16000, 512, 80, -1.0, 8000.0},
        {MEL_HTK, false, false, 16000, 1, 80, 0.0, 8000.0},
        {MEL_HTK, false, false, 0, 512, 80, 0.0, 8000.0},
        {MEL_HTK, false, false, 16000, 512, 80, 0.0, NAN},
        {MEL_HTK, false, false, 16000, 512, 80, NAN, 8000.0},
    };
    struct mel_filters *m = NULL;
    struct err e;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(mel_filters_new(&bad[i], &m, &e), ERR_USAGE);
    assert_null(m);
}

TEST_MAIN(NULL, NULL)
