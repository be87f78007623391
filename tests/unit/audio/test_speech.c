/* Stretches of speech on a stream: the same however it is fed, in bounded memory, never before the
 * horizon. What they are is held against the reference in tests/parity/vad. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "tests/common/random.h"
#include "workers/audio/speech.h"

#define STEP SPEECH_STEP
#define SPANS 4000

static const struct speech_params usual = {.threshold = 0.5f,
                                           .neg_threshold = 0.35f,
                                           .max_speech_ms = 30000,
                                           .min_silence_ms = 160,
                                           .pad_ms = 400};

struct found {
    struct speech_span span[SPANS];
    size_t n;
};

/* Feeds steps first .. past of prob, `chunk` at a time (0: random numbers of them), and looks at
 * the invariants after each call. Stretches go to ret. */
static void feed(struct speech *s, const float *prob, size_t n, uint32_t chunk, uint64_t *seed,
                 struct found *ret)
{
    int64_t horizon = speech_horizon(s);
    struct err e;

    for (size_t i = 0; i < n;) {
        size_t k = chunk ? chunk : 1 + random_below(seed, 90);

        k = k < n - i ? k : n - i;
        assert_ok(speech_feed(s, prob + i, k, &e), e);
        i += k;
        for (;;) {
            bool more;

            assert_true(speech_horizon(s) >= horizon);
            horizon = speech_horizon(s);
            assert_true(ret->n < SPANS);
            more = speech_next(s, &ret->span[ret->n]);
            if (!more)
                break;
            assert_true(ret->span[ret->n].start >= horizon);
            ret->n++;
        }
    }
}

static void end(struct speech *s, int64_t samples, struct found *ret)
{
    int64_t horizon = speech_horizon(s);
    struct err e;

    assert_ok(speech_end(s, samples, &e), e);
    assert_true(speech_horizon(s) >= horizon);
    while (ret->n < SPANS && speech_next(s, &ret->span[ret->n])) {
        assert_true(ret->span[ret->n].start >= horizon);
        ret->n++;
    }
    assert_true(speech_horizon(s) >= samples);
}

static void find(const struct speech_params *p, const float *prob, size_t n, int64_t samples,
                 uint32_t chunk, uint64_t seed, struct found *ret)
{
    struct speech *s;
    struct err e;

    ret->n = 0;
    assert_ok(speech_new(p, &s, &e), e);
    feed(s, prob, n, chunk, &seed, ret);
    end(s, samples, ret);
    speech_free(s);
}

static struct found one, other;

TEST(feeding_does_not_matter)
{
    static float prob[4000];

    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t r = seed;
        struct speech_params p = usual;
        size_t n = 1 + random_below(&r, 4000);
        int64_t samples = (int64_t)(n - 1) * STEP + random_below(&r, STEP);

        p.max_speech_ms = random_below(&r, 2) ? 2000 + random_below(&r, 30000) : 0;
        p.min_silence_ms = random_below(&r, 1500);
        p.min_speech_ms = random_below(&r, 2) ? random_below(&r, 600) : 0;
        p.pad_ms = random_below(&r, 600);
        random_probs(&r, prob, n, 1 + random_below(&r, 60));
        find(&p, prob, n, samples, 1, seed, &one);
        for (uint32_t chunk = 0; chunk < 4001; chunk += 2000) {
            find(&p, prob, n, samples, chunk, seed, &other);
            assert_int_equal(one.n, other.n);
            assert_memory_equal(one.span, other.span, one.n * sizeof(one.span[0]));
        }
        for (size_t i = 0; i < one.n; i++) {
            assert_true(one.span[i].start >= (i ? one.span[i - 1].end : 0));
            assert_true(one.span[i].start < one.span[i].end && one.span[i].end <= samples);
            assert_true(one.span[i].prob >= 0.0f && one.span[i].prob <= 1.0f);
        }
    }
}

static void fill(float *prob, size_t from, size_t to, float value)
{
    for (size_t i = from; i < to; i++)
        prob[i] = value;
}

TEST(nothing_and_everything)
{
    static float prob[200];

    find(&usual, prob, 0, 0, 1, 1, &one);
    assert_int_equal(one.n, 0);
    find(&usual, prob, 1, 0, 1, 1, &one); /* an empty recording has one step */
    assert_int_equal(one.n, 0);
    find(&usual, prob, 200, 199 * STEP + 7, 1, 1, &one);
    assert_int_equal(one.n, 0);
    fill(prob, 0, 200, NAN);
    find(&usual, prob, 200, 199 * STEP + 7, 1, 1, &one);
    assert_int_equal(one.n, 0);
    fill(prob, 0, 200, 0.75f);
    find(&usual, prob, 200, 199 * STEP + 7, 1, 1, &one);
    assert_int_equal(one.n, 1);
    assert_int_equal(one.span[0].start, 0);
    assert_int_equal(one.span[0].end, 199 * STEP + 7);
    assert_true(one.span[0].prob == 0.75f);
    prob[199] = 0.4f; /* of which nothing is sound */
    find(&usual, prob, 200, 199 * STEP, 1, 1, &one);
    assert_int_equal(one.n, 1);
    assert_int_equal(one.span[0].end, 199 * STEP);
    assert_true(one.span[0].prob == 0.75f);
    prob[199] = 0.75f;
    fill(prob, 0, 199, 0.0f); /* one step that begins where the sound ends */
    find(&usual, prob, 200, 199 * STEP, 1, 1, &one);
    assert_int_equal(one.n, 0);
}

/* Speech in steps 50 .. 99 and 105 .. 149: known by hand. */
TEST(padding_and_gaps)
{
    static float prob[200];
    struct speech_params p = usual;

    fill(prob, 50, 100, 1.0f);
    fill(prob, 105, 150, 0.5f);
    p.min_silence_ms = 150; /* 4.7 steps: over when the silence has lasted five steps */
    p.pad_ms = 32;          /* one step; the gap of five is wider than two */
    prob[105] = 0.4f;       /* neither speech nor silence */
    find(&p, prob, 200, 200 * STEP, 1, 1, &one);
    assert_int_equal(one.n, 1); /* the fifth step was not silent, and then there was speech */
    prob[105] = 0.34f;
    find(&p, prob, 200, 200 * STEP, 1, 1, &one);
    assert_int_equal(one.n, 2);
    assert_int_equal(one.span[0].start, 49 * STEP);
    assert_int_equal(one.span[0].end, 101 * STEP);
    assert_int_equal(one.span[1].start, 105 * STEP);
    assert_int_equal(one.span[1].end, 151 * STEP);
    assert_true(one.span[0].prob == 1.0f && one.span[1].prob == 0.5f);
    p.pad_ms = 400; /* more than half of the gap of six */
    find(&p, prob, 200, 200 * STEP, 1, 1, &one);
    assert_int_equal(one.n, 2);
    assert_int_equal(one.span[0].start, 50 * STEP - 6400);
    assert_int_equal(one.span[0].end, 103 * STEP);
    assert_int_equal(one.span[1].start, 103 * STEP);
    assert_int_equal(one.span[1].end, 150 * STEP + 6400);
    p.min_speech_ms = 1500; /* the second has 44 steps: 1408 ms */
    find(&p, prob, 200, 200 * STEP, 1, 1, &one);
    assert_int_equal(one.n, 1);
    assert_int_equal(one.span[0].end, 100 * STEP + 6400);
}

TEST(long_speech_is_cut)
{
    static float prob[400];
    struct speech_params p = {.threshold = 0.5f,
                              .neg_threshold = -1.0f,
                              .max_speech_ms = 3232, /* 100 steps and the one that is kept free */
                              .min_silence_ms = 2000};

    fill(prob, 0, 400, 0.9f);
    fill(prob, 60, 65, 0.1f); /* 128 ms when its last step begins */
    fill(prob, 80, 83, 0.1f); /* too short to cut at */
    find(&p, prob, 400, 400 * STEP, 1, 1, &one);
    assert_int_equal(one.span[0].start, 0);
    assert_int_equal(one.span[0].end, 60 * STEP);
    assert_int_equal(one.span[1].start, 65 * STEP);
    assert_int_equal(one.span[1].end, 166 * STEP); /* nowhere to cut */
    assert_int_equal(one.span[2].start, 167 * STEP);
    for (size_t i = 0; i < one.n; i++)
        assert_true(one.span[i].end - one.span[i].start <= 101 * STEP);
}

/* Ten hours: stretches come as they go, and the horizon follows within what a stretch may last. */
TEST(ten_hours)
{
    static float prob[10000];
    const size_t steps = 10 * 3600 * 16000 / STEP;
    uint64_t seed = 5;
    struct speech *s;
    size_t fed = 0;
    struct err e;

    assert_ok(speech_new(&usual, &s, &e), e);
    for (int64_t last = 0; fed < steps; fed += 10000) {
        random_probs(&seed, prob, 10000, 100);
        one.n = 0;
        feed(s, prob, 10000, 0, &seed, &one);
        assert_true(one.n > 10);
        assert_true(one.span[0].start >= last);
        last = one.span[one.n - 1].end;
        assert_true((int64_t)(fed + 10000) * STEP - speech_horizon(s) < 65 * 16000);
    }
    one.n = 0;
    end(s, (int64_t)fed * STEP, &one);
    speech_free(s);
}

/* A stretch is handed out as soon as nothing can change it: here, once the silence after it has
 * lasted twice the padding, or the next stretch is sure to be one. */
TEST(nothing_is_held_back)
{
    static float prob[100];
    struct speech_params p = usual;
    struct speech_span span;
    struct speech *s;
    struct err e;

    assert_ok(speech_new(&p, &s, &e), e);
    fill(prob, 0, 100, 1.0f);
    assert_ok(speech_feed(s, prob, 20, &e), e);
    fill(prob, 0, 100, 0.0f);
    assert_ok(speech_feed(s, prob, 26, &e), e); /* 25 steps have passed: 800 ms */
    assert_true(speech_next(s, &span));
    assert_int_equal(span.end, 20 * STEP + 6400);
    speech_free(s);

    assert_ok(speech_new(&p, &s, &e), e);
    fill(prob, 0, 20, 1.0f);
    fill(prob, 30, 100, 1.0f);
    assert_ok(speech_feed(s, prob, 31, &e), e);
    assert_false(speech_next(s, &span));
    assert_ok(speech_feed(s, prob + 31, 1, &e), e);
    assert_true(speech_next(s, &span));
    assert_int_equal(span.end, 25 * STEP);
    assert_int_equal(speech_horizon(s), 25 * STEP);
    speech_free(s);
}

TEST(means)
{
    static float prob[20000];
    struct speech *s;
    struct err e;

    for (size_t i = 0; i < 20000; i++)
        prob[i] = (float)(i % 4) / 4.0f;
    assert_ok(speech_new(&usual, &s, &e), e);
    assert_true(speech_mean(s, 0, STEP) == -1.0f);
    assert_ok(speech_feed(s, prob, 100, &e), e);
    assert_true(speech_mean(s, 0, 4 * STEP) == 0.375f);
    assert_true(speech_mean(s, STEP, STEP + 1) == 0.25f);
    assert_true(speech_mean(s, 2 * STEP - 1, 2 * STEP + 1) == 0.375f);
    assert_true(speech_mean(s, 3 * STEP, 3 * STEP) == -1.0f);
    assert_true(speech_mean(s, 5 * STEP, 3 * STEP) == -1.0f);
    assert_true(speech_mean(s, 99 * STEP, INT64_MAX) == 0.75f);
    assert_true(speech_mean(s, 100 * STEP, 101 * STEP) == -1.0f);
    assert_true(speech_mean(s, INT64_MIN, 4 * STEP) == 0.375f);
    assert_ok(speech_feed(s, prob + 100, 19900, &e), e);
    assert_true(speech_mean(s, 0, 4 * STEP) == -1.0f); /* long gone */
    assert_true(speech_mean(s, (int64_t)(20000 - 8 * 60 * 31) * STEP, 20000 * STEP) == 0.375f);
    speech_free(s);
}

TEST(bad_thresholds)
{
    struct speech_params p = usual;
    struct speech *s = NULL;
    struct err e;

    p.threshold = NAN;
    assert_int_equal(speech_new(&p, &s, &e), ERR_USAGE);
    p.threshold = 1.5f;
    assert_int_equal(speech_new(&p, &s, &e), ERR_USAGE);
    p.threshold = 0.5f;
    p.neg_threshold = NAN;
    assert_int_equal(speech_new(&p, &s, &e), ERR_USAGE);
    assert_null(s);
    speech_free(NULL);
}

TEST_MAIN(NULL, NULL)
