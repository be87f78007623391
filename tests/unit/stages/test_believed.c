/* What is not believed leads nobody on: a text that is dropped, a window that nobody speaks in; and
 * what is not heard at first is heard again. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "tests/common/nano.h"
#include "tests/unit/stages/fake_silero.h"
#include "tests/unit/stages/fake_whisper.h"
#include "tests/unit/stages/recording.h"

static struct transcribe_params params;

static int setup(void **state)
{
    (void)state;
    recording_reset();
    recording_packed(&params);
    return 0;
}

static void without_voice(void) { params.vad_model[0] = params.vad_hash[0] = 0; }

/* Script i says this text from `from` to `to` seconds. */
static void say(int i, const char *text, double from, double to)
{
    static int32_t tokens[FAKE_SCRIPTS][128];
    int32_t *ids;
    size_t n;
    struct err e;

    assert_ok(vocabulary_encode(nano, text, &ids, &n, &e), e);
    assert_true(n + 2 <= COUNT(tokens[i]));
    tokens[i][0] = T(from);
    memcpy(tokens[i] + 1, ids, n * sizeof(*ids));
    tokens[i][n + 1] = T(to);
    free(ids);
    fake.scripts[i].attempt[0] = (struct fake_attempt){tokens[i], (uint32_t)n + 2, false, false};
}

static void transcribe(struct recording *r, uint32_t slots)
{
    struct transcriber *t;
    struct err e;

    recording_rewind(r);
    fake.prompt_count = 0;
    assert_ok(transcriber_new(fake_whisper(nano), params.vad_model[0] ? fake_silero() : NULL,
                              &params, slots, 1, &t, &e),
              e);
    recording_add(t, r, NULL);
    recording_finish(t);
    transcriber_free(t);
    assert_int_equal(r->told, 1);
    assert_int_equal(r->code, 0);
}

/* Three windows: what is invented, in Spanish, then speech, in English, twice. */
static struct recording invention(void)
{
    say(0, " Thanks for watching!", 0, 30);
    fake.scripts[0].language = ES;
    fake.scripts[0].no_speech = 0.7;
    say(1, " farmer", 0, 30);
    return (struct recording){.parts = {{SECONDS(30), 0}, {SECONDS(30), 1}, {SECONDS(30), 1}}};
}

TEST_SETUP(test_dropped, setup)
{
    struct recording r = invention();

    without_voice();
    params.condition_on_previous_text = true;
    transcribe(&r, 1);
    assert_int_equal(r.segments, 3);
    assert_true(r.segment[0].dropped);
    assert_string_equal(r.segment[1].text, "farmer");
    assert_string_equal(r.segment[1].language, "en");
    assert_string_equal(r.language, "en");
    assert_int_equal(fake.prompts[1].count, 0); /* the second window goes on from nothing */
    assert_true(fake.prompts[2].count > 0);
}

/* Nothing else was said: nobody spoke. */
TEST_SETUP(test_dropped_alone, setup)
{
    struct recording r = invention();

    without_voice();
    r.parts[1].samples = r.parts[2].samples = 0;
    transcribe(&r, 1);
    assert_int_equal(r.segments, 1);
    assert_true(r.segment[0].dropped);
    assert_string_equal(r.language, "");
}

/* The initial prompt goes before the first text that is one. */
TEST_SETUP(test_dropped_before_prompt, setup)
{
    struct recording r = invention();

    without_voice();
    strcpy(params.initial_prompt, "farmer");
    transcribe(&r, 1);
    assert_int_equal(fake.prompts[0].count, 3);
    assert_int_equal(fake.prompts[1].count, 3);
    assert_int_equal(fake.prompts[2].count, 0);
}

/* Windows of 25 s, one of each script; two do not fit one. */
static struct recording windows_of(const char *scripts)
{
    struct recording r = {0};

    for (size_t i = 0; scripts[i]; i++) {
        r.parts[2 * i] = (struct part){SECONDS(25), scripts[i] - '0'};
        r.parts[2 * i + 1] = (struct part){SECONDS(3), SILENCE};
    }
    return r;
}

/* Behind a prompt nobody's window is heard before its language is known; it has no say in it. */
TEST_SETUP(test_mute, setup)
{
    static const struct {
        const char *windows, *language;
    } cases[] = {
        {"2111", "en"},          {"222221", "en"}, {"1222", "en"},
        {"2222222222221", "en"}, {"2222", ""},     {"2", ""},
    };

    say(1, " farmer", 0, 30);
    say(2, " farmer", 0, 30);
    fake.scripts[2].language = ES;
    fake.scripts[2].no_speech = 0.97;
    strcpy(params.hotwords, "tuesday");
    for (size_t i = 0; i < COUNT(cases); i++)
        for (uint32_t slots = 1; slots < 5; slots++) {
            static struct recording r;
            uint32_t mute = 0;

            r = windows_of(cases[i].windows);
            params.language_detection_segments = slots;
            transcribe(&r, slots);
            assert_string_equal(r.language, cases[i].language);
            for (uint32_t k = 0; k < r.segments; k++)
                assert_string_equal(r.segment[k].language, r.segment[k].text[0] ? "en" : "");
            for (const char *w = cases[i].windows; *w; w++)
                mute += *w == '2';
            /* These are heard again in halves, and in quarters. */
            assert_int_equal(r.windows, strlen(cases[i].windows) + (2 + 4) * mute);
            assert_int_equal(recording_texts(&r), strlen(cases[i].windows) - mute);
            assert_int_equal(r.segments, strlen(cases[i].windows));
        }
}

/* Windows that wait for the language count in the queue: a lane holds no more than it asks. */
TEST_SETUP(test_asked_have_room, setup)
{
    static struct recording r;

    say(1, " farmer", 0, 30);
    fake.scripts[1].rival = ES;
    fake.scripts[1].rival_prob = 0.4;
    params.language_detection_threshold = 0.95f;
    params.language_detection_segments = 16;
    for (uint32_t slots = 1; slots < 4; slots++) {
        r = windows_of("1111111111111111111");
        transcribe(&r, slots);
        assert_string_equal(r.language, "en");
        assert_int_equal(r.windows, 19);
        assert_true(r.most_held <= SECONDS(70)); /* of the source */
    }
}

/* The device lacks memory to hear: less is decoded at once, and the same comes out. */
TEST_SETUP(test_lack_while_listening, setup)
{
    static struct recording whole, again;
    struct transcriber *t;
    struct err e;

    say(1, " farmer", 0, 4);
    fake_ear.blocks = 2;
    whole = windows_of("11111");
    transcribe(&whole, 4);
    again = windows_of("11111");
    recording_rewind(&again);
    assert_ok(transcriber_new(fake_whisper(nano), fake_silero(), &params, 4, 1, &t, &e), e);
    recording_add(t, &again, NULL);
    fake_ear.lacks = 2;
    recording_finish(t);
    assert_int_equal(transcriber_slots(t), 1);
    assert_int_equal(transcriber_lack(t)->code, ERR_VRAM);
    transcriber_free(t);
    assert_int_equal(fake_ear.lacks, 0);
    recording_equal(&whole, &again);
}

/* Never enough: the engine hears of it. */
TEST_SETUP(test_lack_for_good, setup)
{
    static struct recording r;
    struct transcriber *t;
    bool progress;
    struct err e;
    int rc = 0;

    r = windows_of("1");
    recording_rewind(&r);
    assert_ok(transcriber_new(fake_whisper(nano), fake_silero(), &params, 4, 1, &t, &e), e);
    recording_add(t, &r, NULL);
    fake_ear.lacks = 1000;
    for (int i = 0; i < 10 && rc == 0; i++)
        rc = transcriber_step(t, &progress, &e);
    assert_int_equal(rc, ERR_VRAM);
    transcriber_free(t);
}

/* Sparse speech: while one window is decoded, free slots do not wait for a block at a time. */
TEST_SETUP(test_sparse, setup)
{
    static struct recording r[4];
    struct transcriber *t;
    struct err e;
    uint32_t most = 0;
    bool progress = true;

    say(1, " farmer", 0, 2);
    assert_ok(transcriber_new(fake_whisper(nano), fake_silero(), &params, 4, 1, &t, &e), e);
    for (int i = 0; i < 4; i++) {
        r[i] = (struct recording){
            .parts = {{SECONDS(2), 1}, {SECONDS(120 + 60 * i), SILENCE}, {SECONDS(2), 1}}};
        recording_rewind(&r[i]);
        recording_add(t, &r[i], "en");
    }
    while (progress) {
        uint32_t lanes, windows;
        int64_t samples;

        assert_ok(transcriber_step(t, &progress, &e), e);
        transcriber_stats(t, &lanes, &windows, &samples);
        most = windows > most ? windows : most;
    }
    transcriber_free(t);
    assert_true(most >= 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(r[i].told, 1);
}

/* The longest text that there is: each of its tokens has room beside what words are timed with. */
TEST_SETUP(test_longest_text_timed, setup)
{
    static int32_t token[1];
    static struct recording r;
    int32_t *ids;
    size_t n;
    struct err e;

    without_voice();
    params.word_timestamps = true;
    params.max_tokens = 448;
    params.temperature_count = 1;
    assert_ok(vocabulary_encode(nano, "a", &ids, &n, &e), e);
    assert_int_equal(n, 1);
    token[0] = ids[0];
    free(ids);
    fake.scripts[0].attempt[0] = (struct fake_attempt){token, 1, false, true};
    r = (struct recording){.parts = {{SECONDS(30), 0}}};
    transcribe(&r, 1); /* its words joined are its text */
    assert_int_equal(r.segments, 1);
    assert_int_equal(r.segment[0].words, 1);
}

static int open_all(void **state)
{
    log_set_sink(test_no_log, NULL);
    return nano_open(state);
}

TEST_MAIN(open_all, nano_close)
