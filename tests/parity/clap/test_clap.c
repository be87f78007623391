/* CLAP against transformers' ClapModel with the same weights by formula: log-mel, vectors of audio,
 * vectors of text. The small configuration, and the published one's audio tower. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "gpu/backend.h"
#include "tests/common/distance.h"
#include "tests/common/files.h"
#include "tests/parity/clap/model.h"
#include "workers/models/clap/clap.h"
#include "workers/models/clap/clap_audio.h"
#include "workers/models/clap/clap_mel.h"
#include "workers/models/files/weights.h"

#define KEPT 13 /* of the frames, one of so many lies in the fixture */

static struct backend *be;

static const struct {
    const char *name;
    size_t n;
} recordings[] = {{"long", 480000}, {"short", 200001}};

/* make_fixtures.py's audio(), with room for 10 s. */
static float *make_audio(uint32_t i)
{
    size_t n = recordings[i].n;
    float *x = clap_noise(recordings[i].name, CLAP_MEL_SAMPLES, 0.02f);

    for (size_t k = 0; k < n; k++) {
        double t = (double)k / 48000.0;
        double tone = 0.3 * sin(2.0 * 3.14159265358979323846 * (200.0 + 300.0 * t) * t) *
                      (1.0 + 0.5 * sin(9.0 * t));

        x[k] += (float)tone;
    }
    return x;
}

/* |a - b| / |b|; what is no number is far. */
static double apart(const float *a, const float *b, size_t n)
{
    double d = 0.0, all = 0.0;

    for (size_t i = 0; i < n; i++) {
        d += pow((double)a[i] - (double)b[i], 2.0);
        all += pow((double)b[i], 2.0);
    }
    d = sqrt(d / all);
    return d >= 0.0 ? d : INFINITY;
}

/* "repeatpad": the first n samples as often as they fit whole, then silence. */
static void repeat(float *audio, size_t n)
{
    size_t end = CLAP_MEL_SAMPLES / n * n;

    for (size_t i = n; i < CLAP_MEL_SAMPLES; i++)
        audio[i] = i < end ? audio[i - n] : 0.0f;
}

static void normalise(float *v, size_t n)
{
    double sum = 0.0;

    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] / sqrt(sum));
}

static const char *write_model(const struct clap_shape *s)
{
    struct formula *f = clap_model(s);

    assert_int_equal(clap_model_write(s, f, s->name), 0);
    formula_free(f);
    return s->name;
}

static void logmel(void **state)
{
    const struct clap_shape *s = *state;
    struct clap_config c;
    struct filter_bank_spec spec;
    struct filter_bank *bank;
    const uint32_t at = 0;
    uint32_t frames, kept;
    float *want, *have;
    struct err e;

    assert_ok(clap_config_read(write_model(s), &c, &e), e);
    spec = clap_mel_bank(&c);
    assert_ok(be->ops->filter_bank_new(be, &spec, &bank, &e), e);
    frames = clap_mel_frames(&c);
    kept = (frames + KEPT - 1) / KEPT;
    want = file_floats((size_t)2 * kept * 64, "tests/parity/clap/%s.mel.f32", s->name);
    have = malloc((size_t)frames * 64 * sizeof(*have));
    for (uint32_t i = 0; i < 2; i++) {
        float *audio = make_audio(i);
        double worst = 0.0;

        repeat(audio, recordings[i].n);
        assert_ok(be->ops->filter_bank(be, bank, tensor_of(DTYPE_F32, audio, 1, CLAP_MEL_SAMPLES),
                                       &at, 1, CLAP_MEL_SAMPLES,
                                       tensor_of(DTYPE_F32, have, frames, 64), &e),
                  e);
        for (uint32_t t = 0; t < kept; t++) {
            for (uint32_t b = 0; b < 64; b++) {
                double d = fabs(CLAP_MEL_DB * (double)have[(size_t)t * KEPT * 64 + b] -
                                (double)want[((size_t)i * kept + t) * 64 + b]);

                worst = distance_larger(worst, d);
            }
        }
        print_message("%s, %s: log-mel within %.1e dB\n", s->name, recordings[i].name, worst);
        assert_true(worst < 1e-3);
        free(audio);
    }
    be->ops->filter_bank_free(be, bank);
    free(want);
    free(have);
}

static void audio(void **state)
{
    const struct clap_shape *s = *state;
    struct clap_audio_tower *t = NULL;
    struct weights *w = NULL;
    struct clap_config c;
    float *want = file_floats((size_t)2 * s->size, "tests/parity/clap/%s.audio.f32", s->name);
    float *have = malloc((size_t)2 * s->size * sizeof(*have));
    struct err e;

    assert_ok(clap_config_read(s->name, &c, &e), e);
    assert_ok(weights_open(s->name, &w, &e), e);
    assert_ok(clap_audio_load(&c, w, be, PRECISION_F32, 2, &t, &e), e);
    weights_close(w);
    if (s == &clap_published)
        assert_in_range(clap_predict_bytes(CLAP_AUDIO, PRECISION_F32, 2), be->allocated,
                        be->allocated / 4 * 5);
    for (uint32_t i = 0; i < 2; i++) {
        float *x = make_audio(i);

        repeat(x, recordings[i].n);
        assert_ok(be->ops->write(be, clap_audio_samples(t) + (size_t)i * CLAP_MEL_SAMPLES, x,
                                 CLAP_MEL_SAMPLES * sizeof(*x), &e),
                  e);
        free(x);
    }
    assert_ok(clap_audio_run(t, 2, have, &e), e);
    for (uint32_t i = 0; i < 2; i++) {
        double d;

        normalise(have + i * s->size, s->size);
        d = apart(have + i * s->size, want + i * s->size, s->size);
        print_message("%s, %s: audio within %.1e\n", s->name, recordings[i].name, d);
        assert_true(d < 1e-5);
    }
    clap_audio_free(t);
    free(want);
    free(have);
}

/* The fixture's texts: nothing, bytes of several characters, and more tokens than positions. */
static void text(void **state)
{
    const struct clap_shape *s = *state;
    char wide[201];
    const char *texts[] = {"the sound of a dog barking", "Applause.", "",
                           "m\xc3\xbasica: a\xc3\xb1il \xf0\x9f\x8e\xb5", wide};
    const uint32_t n = sizeof(texts) / sizeof(texts[0]);
    float *want = file_floats((size_t)n * s->size, "tests/parity/clap/%s.text.f32", s->name);
    float *have = malloc((size_t)n * s->size * sizeof(*have)), *alone = malloc(s->size * 4);
    struct clap *c = NULL;
    struct err e;

    memset(wide, 'x', 200);
    wide[200] = '\0';
    assert_int_equal(clap_model_tokenizer(s->name), 0);
    assert_ok(clap_load(s->name, be, PRECISION_F32, CLAP_TEXT, 0, &c, &e), e);
    assert_int_equal(clap_size(c), s->size);
    assert_ok(clap_run_text(c, texts, n, have, &e), e);
    for (uint32_t i = 0; i < n; i++) {
        double d = apart(have + (size_t)i * s->size, want + (size_t)i * s->size, s->size);

        print_message("text %u within %.1e\n", i, d);
        assert_true(d < 1e-5);
        assert_ok(clap_run_text(c, &texts[i], 1, alone, &e), e);
        assert_memory_equal(alone, have + (size_t)i * s->size, s->size * sizeof(*have));
    }
    clap_free(c);
    free(want);
    free(have);
    free(alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(logmel, (void *)&clap_small),
        cmocka_unit_test_prestate(audio, (void *)&clap_small),
        cmocka_unit_test_prestate(text, (void *)&clap_small),
        cmocka_unit_test_prestate(logmel, (void *)&clap_published),
        cmocka_unit_test_prestate(audio, (void *)&clap_published),
    };
    struct err e = {0};
    int rc;

    if (backend_open_host(0, &be, &e) != 0) {
        printf("%s\n", e.msg);
        return 1;
    }
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    backend_close(be);
    return rc;
}
