/* From 16 to 48 kHz: tones stay what they are, and nothing appears above 8 kHz. */
#include "tests/common/test.h"

#include <math.h>

#include "gpu/backend.h"
#include "tests/common/fft.h"
#include "workers/models/clap/clap_mel.h"

#define N 4000
#define EDGE 64 /* samples whose neighbours are not all there */
#define PI 3.14159265358979323846

static float *tone(double hz)
{
    float *x = malloc(N * sizeof(*x));

    assert_non_null(x);
    for (int i = 0; i < N; i++)
        x[i] = (float)(0.7 * sin(2.0 * PI * hz * i / 16000.0 + 0.3));
    return x;
}

static float *up(const float *x, size_t n)
{
    float *y = malloc(3 * n * sizeof(*y)), w[CLAP_UPSAMPLE_BY * CLAP_UPSAMPLE_TAPS];
    const struct resample_spec spec = clap_mel_upsampling(w);
    struct backend *be = NULL;
    struct resampling *r = NULL;
    struct err e;

    assert_non_null(y);
    assert_ok(backend_open_host(1, &be, &e), e);
    assert_ok(be->ops->resample_new(be, &spec, w, &r, &e), e);
    assert_ok(be->ops->resample(be, r, 1, NULL, tensor_of(DTYPE_F32, (float *)x, (int64_t)n, 1),
                                NULL, NULL, tensor_of(DTYPE_F32, y, 3 * (int64_t)n, 1), &e),
              e);
    be->ops->resample_free(be, r);
    backend_close(be);
    return y;
}

TEST(tones)
{
    static const double hz[] = {0.0, 50.0, 440.0, 1000.0, 4000.0, 6500.0, 7400.0};

    for (size_t k = 0; k < sizeof(hz) / sizeof(hz[0]); k++) {
        float *x = tone(hz[k]), *y = up(x, N);

        for (int i = 0; i < N; i++)
            assert_true(y[3 * i] == x[i]);
        for (int i = 3 * EDGE; i < 3 * (N - EDGE); i++)
            assert_true(fabs((double)y[i] - 0.7 * sin(2.0 * PI * hz[k] * i / 48000.0 + 0.3)) <
                        1e-4);
        free(x);
        free(y);
    }
}

/* What a tone of 7 kHz would have at 9 kHz. */
TEST(no_mirror)
{
    float *x = tone(7000.0), *y = up(x, N);
    double windowed[8192], power[4097], *scratch, loud = 0.0, mirror = 0.0;
    struct fft *f = NULL;
    struct err e;

    assert_ok(fft_new(8192, &f, &e), e);
    scratch = malloc(fft_scratch(f) * sizeof(*scratch));
    for (int i = 0; i < 8192; i++) { /* Blackman-Harris: side lobes below -92 dB */
        double a = 2.0 * PI * i / 8192.0;

        windowed[i] = (double)y[1000 + i] * (0.35875 - 0.48829 * cos(a) + 0.14128 * cos(2.0 * a) -
                                             0.01168 * cos(3.0 * a));
    }
    fft_power(f, windowed, scratch, power);
    for (int k = 0; k <= 4096; k++) {
        double hz = k * 48000.0 / 8192.0;

        if (hz < 8000.0)
            loud = fmax(loud, power[k]);
        else
            mirror = fmax(mirror, power[k]);
    }
    assert_true(10.0 * log10(mirror / loud) < -90.0);
    free(scratch);
    fft_free(f);
    free(x);
    free(y);
}

/* Blocks leave no seam: any part, far enough from its ends, comes out as within the whole. */
TEST(seams)
{
    float *x = tone(1234.0), *y = up(x, N), *part = up(x + 700, 1500), *one = up(x, 1);

    for (int i = 3 * EDGE; i < 3 * (1500 - EDGE); i++)
        assert_true(part[i] == y[3 * 700 + i]);
    assert_true(one[0] == x[0]);
    free(x);
    free(y);
    free(part);
    free(one);
}

TEST_MAIN(NULL, NULL)
