/* The host's filter bank by several frames at once, on several threads and over several windows:
 * the same bits as frame by frame. What the values are is held in tests/ops and
 * tests/parity/diarization. */
#include "tests/common/test.h"

#include <math.h>

#include "gpu/backend.h"
#include "tests/common/fft.h"

#define SAMPLES 80000
#define LENGTH 16777
#define WINDOWS 5
#define MOST 256000

static float pcm[SAMPLES], one[MOST], many[MOST];
static const uint32_t at[WINDOWS] = {0, 160, 1677, 20000, SAMPLES - LENGTH};

static const struct filter_bank_spec specs[] = {
    {.mel = {MEL_HTK, true, false, 16000, 512, 80, 20.0, 8000.0},
     .frame = 400,
     .step = 160,
     .window = FRAME_HAMMING,
     .less_mean = true,
     .pre_emphasis = 0.97,
     .scale = 32768.0,
     .logarithm = true,
     .floor = 1e-7,
     .centre = true},
    {.mel = {MEL_SLANEY, false, true, 16000, 400, 40, 0.0, 8000.0},
     .frame = 400,
     .step = 160,
     .window = FRAME_HANN,
     .place = FRAME_CENTRED,
     .scale = 1.0},
    {.mel = {MEL_HTK, true, false, 16000, 512, 64, 125.0, 7500.0},
     .frame = 400,
     .step = 160,
     .window = FRAME_HANN,
     .place = FRAME_MIRRORED,
     .scale = 1.0,
     .magnitudes = true,
     .logarithm = true,
     .offset = 0.001},
};

/* Windows first .. first + n, by so many threads; values of one behind the other. */
static size_t run(const struct filter_bank_spec *s, uint32_t threads, uint32_t first, uint32_t n,
                  float *ret)
{
    size_t rows = n * filter_bank_frames(s, LENGTH), count = rows * s->mel.bins;
    struct filter_bank *f;
    struct backend *be;
    struct err e;

    assert_true(count < MOST);
    memset(ret, 0xff, (count + 1) * sizeof(*ret)); /* a value that is not written is no number */
    assert_ok(backend_open_host(threads, &be, &e), e);
    assert_ok(be->ops->filter_bank_new(be, s, &f, &e), e);
    assert_ok(be->ops->filter_bank(be, f, tensor_of(DTYPE_F32, pcm, 1, SAMPLES), at + first, n,
                                   LENGTH, tensor_of(DTYPE_F32, ret, (int64_t)rows, s->mel.bins),
                                   &e),
              e);
    be->ops->filter_bank_free(be, f);
    backend_close(be);
    for (size_t i = 0; i < count; i++)
        assert_true(isfinite(ret[i]));
    assert_true(isnan(ret[count]));
    return count;
}

TEST(test_threads)
{
    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        size_t count = run(&specs[s], 1, 0, WINDOWS, one);

        for (uint32_t threads = 2; threads <= 5; threads++) {
            assert_int_equal(run(&specs[s], threads, 0, WINDOWS, many), count);
            assert_memory_equal(many, one, count * sizeof(*one));
        }
        for (uint32_t w = 0; w < WINDOWS; w++) {
            size_t each = run(&specs[s], 3, w, 1, many);

            assert_int_equal(each * WINDOWS, count);
            assert_memory_equal(many, one + w * each, each * sizeof(*one));
        }
    }
}

/* Frame i of the window at `from`, before its logarithm. */
static void one_frame(const struct filter_bank_spec *s, const float *from, int64_t i,
                      const struct fft *fft, const struct mel_filters *filters, double *ret)
{
    double x[512] = {0}, window[512], scratch[1024], power[257], mean = 0, before;
    int64_t begin = i * s->step - filter_bank_before(s), last = LENGTH - 1;

    assert_true(fft_scratch(fft) <= 1024);
    filter_bank_window(s, window);
    for (int64_t k = 0; k < s->frame; k++) {
        int64_t place = begin + k;

        if (s->place == FRAME_MIRRORED)
            place = place < 0 ? -place : place > last ? 2 * last - place : place;
        x[k] = place >= 0 && place <= last ? (double)from[place] : 0.0;
    }
    for (uint32_t k = 0; k < s->frame && s->less_mean; k++)
        mean += x[k];
    mean /= s->frame;
    before = x[0] - mean;
    for (uint32_t k = 0; k < s->frame; k++) {
        double y = x[k] - mean;

        x[k] = (y - s->pre_emphasis * before) * s->scale * window[k];
        before = y;
    }
    fft_power(fft, x, scratch, power);
    for (uint32_t k = 0; k <= s->mel.fft / 2 && s->magnitudes; k++)
        power[k] = sqrt(power[k]);
    mel_filters_apply(filters, power, ret);
}

TEST(test_frame_by_frame)
{
    double bin[FILTER_BANK_MAX_BINS];
    struct mel_filters *filters;
    struct fft *fft;
    struct err e;

    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        struct filter_bank_spec spec = specs[s];
        size_t frames = filter_bank_frames(&spec, LENGTH), bins = spec.mel.bins;

        spec.centre = spec.logarithm = false;
        assert_ok(fft_new(spec.mel.fft, &fft, &e), e);
        assert_ok(mel_filters_new(&spec.mel, &filters, &e), e);
        run(&spec, 1, 3, 1, one);
        for (size_t i = 0; i < frames; i++) {
            one_frame(&spec, pcm + at[3], (int64_t)i, fft, filters, bin);
            for (size_t b = 0; b < bins; b++)
                assert_true(one[i * bins + b] == (float)bin[b]);
        }
        mel_filters_free(filters);
        fft_free(fft);
    }
}

/* A transform has stages of radix 2, 3, 4 and 5 alone. */
TEST(test_lengths_refused)
{
    static const uint32_t bad[] = {401, 448, 1022, 65538};
    struct filter_bank *f = NULL;
    struct backend *be;
    struct err e;

    assert_ok(backend_open_host(1, &be, &e), e);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct filter_bank_spec spec = specs[0];

        spec.mel.fft = bad[i];
        assert_int_equal(be->ops->filter_bank_new(be, &spec, &f, &e), ERR_USAGE);
    }
    assert_null(f);
    backend_close(be);
}

TEST(test_frames)
{
    assert_int_equal(filter_bank_frames(&specs[0], 399), 0);
    assert_int_equal(filter_bank_frames(&specs[0], 400), 1);
    assert_int_equal(filter_bank_frames(&specs[0], 160000), 998);
    assert_int_equal(filter_bank_frames(&specs[1], 0), 1);
    assert_int_equal(filter_bank_frames(&specs[1], 160000), 1001);
}

int main(void)
{
    uint32_t seed = 7;

    for (size_t i = 0; i < SAMPLES; i++) {
        seed = seed * 1664525u + 1013904223u;
        pcm[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * (i % 9000 < 3000 ? 0.001f : 0.5f);
    }
    return suite_run(NULL, NULL);
}
