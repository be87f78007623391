/* Every allocation fails once, in turn, in a run of lanes with voice activity, words, beams,
 * prompts and languages to be heard: the call says ERR_NOMEM, and nothing is leaked
 * (AddressSanitizer's build sees to that). */
#include "tests/common/test.h"

#include <stdbool.h>

#include "base/err.h"
#include "tests/common/nano.h"
#include "tests/common/nomem.h"
#include "tests/unit/stages/fake_silero.h"
#include "tests/unit/stages/fake_whisper.h"
#include "tests/unit/stages/recording.h"

static struct transcribe_params params;
static struct recording first[2], again[2];

static int run(void *arg, struct err *err)
{
    struct recording *r = arg;
    struct transcriber *t = NULL;
    bool progress = true;
    int rc;

    rc = transcriber_new(fake_whisper(nano), params.vad_model[0] ? fake_silero() : NULL, &params, 2,
                         1, &t, err);
    for (int i = 0; !rc && i < 2; i++) {
        recording_rewind(&r[i]);
        rc = transcriber_add(t, r[i].from, NULL, 7, recording_source(&r[i]), recording_take, &r[i],
                             NULL, err);
    }
    while (!rc && progress)
        rc = transcriber_step(t, &progress, err);
    transcriber_free(t);
    return rc;
}

static void each_allocation(long at_least)
{
    struct err e = {0};

    assert_ok(run(first, &e), e);
    assert_true(first[0].segments > 1);
    assert_int_equal(first[0].segment[0].words > 0, params.word_timestamps);
    memcpy(again, first, sizeof(again));
    assert_true(nomem_each(run, again) >= at_least);
    for (int i = 0; i < 2; i++)
        recording_equal(&first[i], &again[i]);
}

static int setup(void **state)
{
    (void)state;
    recording_reset();
    recording_packed(&params);
    SAY(0, T(0.5), FARMER, T(1.8), T(2), TUESDAY, T(4.5), T(4.5), FARMER);
    SAY(1, T(0), FARMER, TUESDAY, FARMER, T(4));
    fake.scripts[1].attempt[0].unsure = true;
    fake.scripts[0].rival = ES; /* is parked until all was heard */
    fake.scripts[0].rival_prob = 0.3;
    params.language_detection_threshold = 0.9f;
    params.word_timestamps = true;
    params.beam_size = 2;
    params.best_of = 2;
    params.temperature_count = 2;
    strcpy(params.initial_prompt, "farmer");
    strcpy(params.hotwords, "tuesday");
    for (int i = 0; i < 2; i++)
        first[i] = (struct recording){
            .parts = {{SECONDS(20), i}, {SECONDS(3), SILENCE}, {SECONDS(15), 0}}};
    return 0;
}

TEST_SETUP(test_packed, setup) { each_allocation(100); }

TEST_SETUP(test_sequential, setup)
{
    params.vad_model[0] = params.vad_hash[0] = 0;
    params.condition_on_previous_text = true;
    params.hallucination_silence_threshold = 1;
    SAY(0, T(0.5), FARMER, T(1.8), T(2), TUESDAY, T(4.5));
    for (int i = 0; i < 2; i++)
        first[i] = (struct recording){.parts = {{SECONDS(5), i}, {SECONDS(30), 0}}};
    each_allocation(100);
}

/* A segment lasts over a pause, and is parted there: by words, and by voice. */
TEST_SETUP(test_parted, setup)
{
    SAY(0, T(0), FARMER, TUESDAY, FARMER, TUESDAY, FARMER, T(7));
    for (int words = 0; words < 2; words++) {
        params.word_timestamps = words;
        for (int i = 0; i < 2; i++)
            first[i] = (struct recording){
                .parts = {{SECONDS(1), 0}, {SECONDS(20), SILENCE}, {SECONDS(4), 0}}};
        each_allocation(60);
        assert_true(first[0].segment[0].end_ms < 2000);
        assert_true(first[0].segment[first[0].segments - 1].start_ms > 20000);
        if (words) /* which end before the voice does: the rest is heard again */
            continue;
        assert_int_equal(first[0].windows, 1);
        assert_int_equal(first[0].segments, 2);
    }
}

/* Speech without text is heard again; the second recording's stays without. */
TEST_SETUP(test_heard_again, setup)
{
    params.word_timestamps = false;
    params.beam_size = params.best_of = 1;
    SAY(0, T(0), FARMER, T(4));
    SAY(1, T(0));
    fake.scripts[1].attempt[0].unsure = false;
    first[1].parts[2].script = 1;
    each_allocation(60);
    assert_true(first[0].windows > 4 && first[1].windows > 4);
    assert_true(first[1].account.missing_ms > 30000);
}

/* A window in two languages is asked stretch by stretch, and parted. */
TEST_SETUP(test_languages, setup)
{
    params.word_timestamps = false;
    params.beam_size = params.best_of = 1;
    params.multilingual = true;
    SAY(0, T(0), FARMER, T(30));
    SAY(1, T(0), TUESDAY, T(30));
    fake.scripts[1].attempt[0].unsure = false;
    fake.scripts[1].language = ES;
    for (int i = 0; i < 2; i++)
        first[i] = (struct recording){
            .parts = {{SECONDS(10), 0}, {SECONDS(3), SILENCE}, {SECONDS(10), 1}}};
    each_allocation(60);
    assert_int_equal(first[0].segments, 2);
    assert_string_equal(first[0].segment[0].language, "en");
    assert_string_equal(first[0].segment[1].language, "es");
}

TEST_MAIN(nano_open, nano_close)
