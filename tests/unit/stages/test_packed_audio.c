/* The audio of lanes whose speech is packed into windows: nothing lost and nothing twice, told
 * apart again, and little of it held. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/err.h"
#include "tests/common/nano.h"
#include "tests/unit/stages/fake_silero.h"
#include "tests/unit/stages/fake_whisper.h"
#include "tests/unit/stages/recording.h"
#include "workers/models/silero/silero.h"
#include "workers/models/whisper/whisper.h"

#define SCRIPTS 4
#define BLOCK ((int64_t)SILERO_BLOCK * SILERO_STEP)
#define PAD_MS 400

static struct transcribe_params params;

static struct transcriber *make(uint32_t slots, uint32_t windows)
{
    struct transcriber *t = NULL;
    struct err e;

    assert_ok(transcriber_new(fake_whisper(nano), fake_silero(), &params, slots, windows, &t, &e),
              e);
    return t;
}

static void transcribe(struct recording *r)
{
    struct transcriber *t = make(1, 1);

    recording_add(t, r, NULL);
    recording_finish(t);
    transcriber_free(t);
    assert_int_equal(r->told, 1);
    assert_int_equal(r->code, 0);
}

static int setup(void **state)
{
    (void)state;
    recording_reset();
    recording_packed(&params);
    SAY(0, T(0.5), FARMER, T(1.8), T(2), TUESDAY, T(4.5), T(4.5), FARMER);
    SAY(1, T(0), TUESDAY, T(20), T(21), FARMER, TUESDAY, T(29));
    SAY(2, T(0), FARMER, TUESDAY, FARMER, T(4));
    SAY(3, T(1), FARMER, T(8), T(9), TUESDAY, T(14));
    return 0;
}

/* ---- nothing lost, nothing twice */

/* Each text lasts to its window's end: no window is heard again. */
static void say_to_the_end(void)
{
    SAY(0, T(0.5), FARMER, T(1.8), T(2), TUESDAY, T(4.5), T(4.5), FARMER, T(30));
    SAY(1, T(0), TUESDAY, T(20), T(20.2), FARMER, TUESDAY, T(30));
    SAY(2, T(0), FARMER, TUESDAY, FARMER, T(30));
    SAY(3, T(0.3), FARMER, T(8), T(8.5), TUESDAY, T(30));
}

static int32_t balance[SCRIPTS][PLACES]; /* samples of a place: in the recording less in windows */

static void count_sample(float v, int32_t by)
{
    int script = (int)lrintf(v * 1000.0f) - 1;
    long place;

    if (v == 0)
        return;
    assert_true(script >= 0 && script < SCRIPTS);
    place = lrint(((double)v - (double)fake_audio((uint32_t)script)) / 4e-9);
    assert_true(place >= 0 && place < PLACES);
    balance[script][place] += by;
}

static void count_window(const struct asr_window *w)
{
    for (size_t i = 0; i < w->n; i++)
        count_sample(w->pcm[i], -1);
}

static void count_recording(const struct recording *r)
{
    struct lane_source source = recording_source((struct recording *)r);
    static float pcm[SECONDS(1)];
    int64_t n, at = r->from;

    while ((n = source.read(source.arg, at, COUNT(pcm), pcm)) > 0) {
        for (int64_t i = 0; i < n; i++)
            count_sample(pcm[i], 1);
        at += n;
    }
    assert_int_equal(n, 0);
}

static void all_balanced(void)
{
    for (size_t i = 0; i < SCRIPTS; i++)
        for (size_t k = 0; k < PLACES; k++)
            if (balance[i][k])
                fail_msg("place %zu of script %zu: %d", k, i, balance[i][k]);
}

/* Milliseconds to the nearest voice. */
static int64_t distance(const struct recording *r, int64_t ms)
{
    int64_t begin = r->from, least = INT64_MAX;

    for (size_t i = 0; i < RECORDING_PARTS; begin += r->parts[i++].samples) {
        int64_t from = begin / 16, to = (begin + r->parts[i].samples) / 16, off;

        if (r->parts[i].script < 0 || !r->parts[i].samples)
            continue;
        off = ms < from ? from - ms : ms > to ? ms - to : 0;
        least = off < least ? off : least;
    }
    return least;
}

TEST_SETUP(test_once, setup)
{
    say_to_the_end();
    strcpy(params.language, "en"); /* no window is encoded again */
    for (uint64_t seed = 100; seed < 130; seed++) {
        static struct recording r;
        uint64_t at = seed;

        recording_random(&r, &at, SCRIPTS);
        if (recording_length(&r) < 1600)
            continue;
        fake.on_window = count_window;
        count_recording(&r);
        transcribe(&r);
        all_balanced();
        for (uint32_t i = 0; i < r.segments; i++) {
            assert_true(distance(&r, r.segment[i].start_ms) <= PAD_MS + 33);
            assert_true(distance(&r, r.segment[i].end_ms) <= PAD_MS + 33);
        }
    }
}

/* All speech, and silence but for the end. */
TEST_SETUP(test_lengths, setup)
{
    static const int64_t lengths[] = {0,
                                      1,
                                      511,
                                      512,
                                      513,
                                      1599,
                                      1600,
                                      2048,
                                      BLOCK - 513,
                                      BLOCK - 512,
                                      BLOCK - 1,
                                      BLOCK,
                                      BLOCK + 1,
                                      2 * BLOCK - 1,
                                      2 * BLOCK,
                                      479999,
                                      480000,
                                      480001,
                                      SECONDS(95) + 1};

    say_to_the_end();
    strcpy(params.language, "en");
    fake.on_window = count_window;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct recording r = {.parts = {{lengths[i], 1}}};

        recording_rewind(&r);
        if (lengths[i] >= 1600)
            count_recording(&r);
        transcribe(&r);
        all_balanced();
        assert_int_equal(r.windows > 0, lengths[i] >= 1600);
        assert_true(r.windows <= lengths[i] / SECONDS(28) + 1);
        r = (struct recording){.parts = {{lengths[i], SILENCE}, {100, 1}}};
        recording_rewind(&r);
        if (lengths[i] >= 1599)
            count_recording(&r);
        transcribe(&r);
        all_balanced();
        assert_int_equal(r.windows, lengths[i] >= 1599);
    }
}

/* Three stretches in one window, told apart again. */
TEST_SETUP(test_places, setup)
{
    struct recording r = {.from = SECONDS(100),
                          .parts = {{SECONDS(10), SILENCE},
                                    {SECONDS(2.048), 0},
                                    {SECONDS(60), SILENCE},
                                    {SECONDS(2.048), 1},
                                    {SECONDS(60), SILENCE}}};

    recording_rewind(&r);
    /* 0.4 s, 2.1 s of speech, 0.4 s; and the same again. */
    SAY(0, T(0.4), FARMER, T(2.4), T(3.2), TUESDAY, T(5.2), T(5.2));
    transcribe(&r);
    assert_int_equal(r.windows, 1);
    assert_int_equal(r.segments, 2);
    assert_true(llabs(r.segment[0].start_ms - 110000) <= 32);
    assert_true(llabs(r.segment[0].end_ms - 112000) <= 32);
    assert_true(llabs(r.segment[1].start_ms - 172048) <= 400);
    assert_true(llabs(r.segment[1].end_ms - 174048) <= 400);
    assert_true(r.segment[0].speech_prob > 0.8f);
}

/* ---- what is held */

TEST_SETUP(test_held, setup)
{
    static const int64_t hours = 3 * 3600;
    static struct recording r;

    r = (struct recording){.parts = {{SECONDS(hours), SILENCE}, {SECONDS(2), 0}}};
    recording_rewind(&r);
    transcribe(&r);
    assert_int_equal(r.windows, 1);
    assert_true(r.segments > 0 && r.segment[0].start_ms >= hours * 1000 - 500);
    assert_true(r.most_held <= 2 * BLOCK);
    assert_int_equal(r.released, recording_length(&r));
    /* Nothing but speech. */
    r = (struct recording){.parts = {{SECONDS(600), 1}}};
    recording_rewind(&r);
    transcribe(&r);
    assert_true(r.windows >= 20 && r.windows < 24);
    assert_true(r.most_held <= SECONDS(30) + 2 * BLOCK);
}

/* Done with, as people are told: never more than was transcribed, in the end all. */
TEST_SETUP(test_progress, setup)
{
    static struct recording r;
    struct transcriber *t = make(2, 1);
    uint32_t lanes, windows, most = 0;
    int64_t samples = 0, before = 0;

    r = (struct recording){.parts = {{SECONDS(120), 1}, {SECONDS(50), SILENCE}, {SECONDS(9), 0}}};
    recording_rewind(&r);
    recording_add(t, &r, NULL);
    for (bool progress = true; progress; before = samples) {
        struct err e;

        assert_ok(transcriber_step(t, &progress, &e), e);
        transcriber_stats(t, &lanes, &windows, &samples);
        assert_true(samples >= before && samples <= recording_length(&r));
        most = windows > most ? windows : most;
    }
    assert_int_equal(samples, recording_length(&r));
    assert_int_equal(most, 2); /* windows of one lane in flight */
    assert_int_equal(r.told, 1);
    transcriber_free(t);
}

TEST_MAIN(nano_open, nano_close)
