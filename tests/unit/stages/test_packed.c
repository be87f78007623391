/* Lanes whose speech is packed into windows: the same whatever the slots, the order of arrival and
 * the lack of memory; and what fails. */
#include "tests/common/test.h"

#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "tests/common/nano.h"
#include "tests/unit/stages/fake_silero.h"
#include "tests/unit/stages/fake_whisper.h"
#include "tests/unit/stages/recording.h"
#include "workers/models/silero/silero.h"

#define LANES 10
#define SCRIPTS 4
#define BLOCK ((int64_t)SILERO_BLOCK * SILERO_STEP)

static struct transcribe_params params;

static struct transcriber *make(uint32_t slots, uint32_t windows)
{
    struct transcriber *t = NULL;
    struct err e;

    assert_ok(transcriber_new(fake_whisper(nano), params.vad_model[0] ? fake_silero() : NULL,
                              &params, slots, windows, &t, &e),
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
    SAY(0, T(0.5), FARMER, T(1.8), T(2), TUESDAY, T(4.5), T(4.5), FARMER);
    SAY(1, T(0), TUESDAY, T(20), T(21), FARMER, TUESDAY, T(29));
    SAY(2, T(0), FARMER, TUESDAY, FARMER, T(4));
    fake.scripts[2].attempt[0].unsure = true; /* drawn at every temperature */
    SAY(3, T(0), TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY,
        TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, T(4));
    SAY_AT(3, 1, T(1), FARMER, T(8), T(9), TUESDAY, T(14));
    fake.scripts[1].language = ES;
    fake.scripts[2].rival = ES; /* not sure which */
    fake.scripts[2].rival_prob = 0.49;
    fake.scripts[2].no_speech = 0.3;
    recording_packed(&params);
    return 0;
}

/* ---- the same whatever happens around them */

static struct recording alone[LANES], together[LANES];

/* Each by itself, with one slot. */
static void make_recordings(uint64_t seed)
{
    for (int i = 0; i < LANES; i++) {
        recording_random(&alone[i], &seed, SCRIPTS);
        together[i] = alone[i];
        transcribe(&alone[i]);
    }
}

/* A bit more of each is decoded, now and then. */
static bool arrive(uint64_t *seed)
{
    bool more = false;

    for (int i = 0; i < LANES; i++) {
        struct recording *r = &together[i];
        int64_t length = recording_length(r);

        r->decoded += random_below(seed, 2) ? random_below(seed, 200000) : 0;
        if (r->decoded > length)
            r->decoded = length;
        more = more || r->decoded < length;
    }
    return more;
}

static void run_together(struct transcriber *t, uint64_t seed)
{
    for (int i = 0; i < LANES; i++) {
        together[i].decoded = 0;
        recording_add(t, &together[i], NULL);
    }
    for (bool more = true; more;) {
        bool progress;
        struct err e;

        more = arrive(&seed);
        assert_ok(transcriber_step(t, &progress, &e), e);
    }
    recording_finish(t);
}

TEST_SETUP(test_batching, setup)
{
    uint32_t windows = 0;

    print_message("seeds 1 to 24\n");
    for (uint32_t seed = 1; seed <= 24; seed++) {
        struct transcriber *t;

        if (seed % 8 == 1) {
            fake_ear.blocks = 1;
            params.multilingual = seed == 9;
            params.word_timestamps = seed == 17;
            params.language_detection_segments = 1 + seed % 5;
            make_recordings(seed);
        }
        fake_ear.blocks = seed % 4;
        t = make(1 + seed % 8, 1 + seed % 3);
        for (int i = 0; i < LANES; i++)
            recording_rewind(&together[i]);
        run_together(t, seed);
        transcriber_free(t);
        for (int i = 0; i < LANES; i++) {
            recording_equal(&alone[i], &together[i]);
            windows += alone[i].windows;
        }
    }
    assert_true(windows > 24 * LANES);
    assert_true(fake_ear.largest == 3);
}

/* The same of lanes whose windows follow each other, where words and silence move them. */
TEST_SETUP(test_sequential, setup)
{
    params.vad_model[0] = params.vad_hash[0] = 0;
    params.word_timestamps = true;
    params.hallucination_silence_threshold = 1.5f;
    params.condition_on_previous_text = true;
    make_recordings(21);
    for (uint32_t seed = 1; seed <= 3; seed++) {
        struct transcriber *t = make(3 * seed - 1, seed);

        for (int i = 0; i < LANES; i++)
            recording_rewind(&together[i]);
        run_together(t, seed);
        transcriber_free(t);
        for (int i = 0; i < LANES; i++)
            recording_equal(&alone[i], &together[i]);
    }
}

/* Samples come one by one, in steps, in blocks, and nearly so. */
TEST_SETUP(test_pieces, setup)
{
    static const int64_t pieces[] = {1,         511,   512,       513,      8191,
                                     BLOCK - 1, BLOCK, BLOCK + 1, INT32_MAX};
    static struct recording whole, r;

    whole = (struct recording){
        .parts = {{4321, 1}, {SECONDS(2.5), SILENCE}, {SECONDS(1), 0}, {12345, SILENCE}}};
    recording_rewind(&whole);
    r = whole;
    transcribe(&whole);
    assert_true(whole.segments > 0);
    for (size_t i = 0; i < COUNT(pieces); i++) {
        struct transcriber *t = make(2, 1);
        int64_t length = recording_length(&r);
        bool progress;
        struct err e;

        recording_rewind(&r);
        recording_add(t, &r, NULL);
        for (r.decoded = 0; r.decoded < length; r.decoded += pieces[i])
            assert_ok(transcriber_step(t, &progress, &e), e);
        assert_int_equal(r.told, 0);
        r.decoded = length;
        recording_finish(t);
        transcriber_free(t);
        recording_equal(&whole, &r);
    }
}

/* Lanes go while their windows are in work, wait, or are listened to. */
TEST_SETUP(test_remove, setup)
{
    make_recordings(77);
    for (uint32_t round = 0; round < 12; round++) {
        struct transcriber *t = make(1 + round % 5, 1);
        struct lane *lane[LANES];
        bool progress;
        struct err e;

        for (int i = 0; i < LANES; i++) {
            recording_rewind(&together[i]);
            lane[i] = recording_add(t, &together[i], NULL);
        }
        for (uint32_t i = 0; i <= 3 * round; i++)
            assert_ok(transcriber_step(t, &progress, &e), e);
        for (int i = (int)round % 2; i < LANES; i += 2)
            if (!together[i].told) {
                transcriber_remove(t, lane[i]);
                together[i].told = -1;
            }
        recording_finish(t);
        transcriber_free(t);
        for (int i = 0; i < LANES; i++)
            if (together[i].told >= 0)
                recording_equal(&alone[i], &together[i]);
    }
}

/* Memory runs out while windows are encoded, decoded, aligned and parked. */
TEST_SETUP(test_lack_of_memory, setup)
{
    params.word_timestamps = true;
    params.language_detection_threshold = 1;
    make_recordings(5);
    for (uint32_t round = 0; round < 16; round++) {
        struct transcriber *t;
        bool progress;
        struct err e;

        fake.windows_max = fake.step_max = fake.encode_max = fake.align_fails = 0;
        t = make(8, 4);
        for (int i = 0; i < LANES; i++) {
            recording_rewind(&together[i]);
            recording_add(t, &together[i], NULL);
        }
        for (uint32_t i = 0; i < 5 * round; i++)
            assert_ok(transcriber_step(t, &progress, &e), e);
        fake.windows_max = round % 4;
        fake.step_max = round & 4 ? 2 : 0;
        fake.encode_max = round & 8 ? 3 : 0;
        fake.align_fails = fake.align_calls + 1 + round;
        recording_finish(t);
        assert_true(transcriber_lack(t)->code == ERR_VRAM || round % 4 == 0);
        transcriber_free(t);
        for (int i = 0; i < LANES; i++)
            recording_equal(&alone[i], &together[i]);
    }
}

/* ---- failures */

TEST_SETUP(test_broken_source, setup)
{
    static struct recording bad, good;
    struct transcriber *t = make(3, 1);

    good = (struct recording){.parts = {{SECONDS(70), 1}}};
    bad = (struct recording){.parts = {{SECONDS(95), 1}}, .fails_at = SECONDS(80)};
    recording_rewind(&good);
    recording_rewind(&bad);
    recording_add(t, &bad, NULL);
    recording_add(t, &good, NULL);
    recording_finish(t);
    assert_int_equal(bad.told, 1);
    assert_int_equal(bad.code, ERR_IO);
    assert_int_equal(good.told, 1);
    assert_int_equal(good.code, 0);
    assert_true(good.segments > 2);
    transcriber_free(t);
}

TEST_SETUP(test_broken_model, setup)
{
    static struct recording bad, good;
    struct transcriber *t = make(3, 1);

    fake.scripts[3].broken = true;
    good = (struct recording){.parts = {{SECONDS(70), 1}}};
    bad = (struct recording){.parts = {{SECONDS(65), 1}, {SECONDS(65), 3}}};
    recording_rewind(&good);
    recording_rewind(&bad);
    recording_add(t, &bad, NULL);
    recording_add(t, &good, NULL);
    recording_finish(t);
    assert_int_equal(bad.told, 1);
    assert_int_equal(bad.code, ERR_MODEL);
    assert_int_equal(good.code, 0);
    assert_int_equal(good.told, 1);
    transcriber_free(t);
}

TEST_SETUP(test_lost_device, setup)
{
    struct recording r = {.parts = {{SECONDS(70), 1}}};
    struct transcriber *t = make(1, 1);
    bool progress;
    struct err e;
    int rc;

    recording_rewind(&r);
    recording_add(t, &r, NULL);
    fake_ear.fails_at = 9;
    while (!(rc = transcriber_step(t, &progress, &e)))
        assert_true(progress);
    assert_int_equal(rc, ERR_DEVICE);
    assert_int_equal(r.told, 0);
    transcriber_free(t);
}

static int open_all(void **state)
{
    log_set_sink(test_no_log, NULL);
    return nano_open(state);
}

TEST_MAIN(open_all, nano_close)
