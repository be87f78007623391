/* Which language a lane speaks, and what its windows' text comes after: conditions, prompts and
 * hotwords, as the model is fed them. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "tests/common/nano.h"
#include "tests/unit/stages/fake_silero.h"
#include "tests/unit/stages/fake_whisper.h"
#include "tests/unit/stages/recording.h"
#include "workers/stages/transcribe/decode/language.h"

static struct transcribe_params params;

static int setup(void **state)
{
    (void)state;
    recording_reset();
    recording_packed(&params);
    return 0;
}

static void without_voice(void) { params.vad_model[0] = params.vad_hash[0] = 0; }

static struct transcriber *make(uint32_t slots)
{
    struct transcriber *t = NULL;
    struct err e;

    assert_ok(transcriber_new(fake_whisper(nano), params.vad_model[0] ? fake_silero() : NULL,
                              &params, slots, 1, &t, &e),
              e);
    return t;
}

static void transcribe(struct recording *r, uint32_t slots, const char *language)
{
    struct transcriber *t = make(slots);

    recording_rewind(r);
    fake.prompt_count = 0;
    recording_add(t, r, language);
    recording_finish(t);
    transcriber_free(t);
    assert_int_equal(r->told, 1);
    assert_int_equal(r->code, 0);
}

/* Script i is heard to speak `language`, so sure, and says a word, from its window's begin to its
 * end. */
static void speaks(int i, int32_t language, double prob)
{
    SAY(i, T(0), FARMER, T(30));
    fake.scripts[i].language = language;
    fake.scripts[i].rival = prob < 1 ? EN + ES - language : 0;
    fake.scripts[i].rival_prob = 1 - prob;
}

/* Windows of 25 s, one of each of these scripts; two do not fit one. */
static struct recording windows_of(const char *scripts)
{
    struct recording r = {0};

    for (size_t i = 0; scripts[i]; i++) {
        r.parts[2 * i] = (struct part){SECONDS(25), scripts[i] - '0'};
        r.parts[2 * i + 1] = (struct part){SECONDS(3), SILENCE};
    }
    return r;
}

/* ---- languages */

/* 0: surely English; 1: surely Spanish; 2: 60 % Spanish; 3: 70 % English; 4: 90 % English; 5:
 * nobody speaks. */
static void script_languages(void)
{
    speaks(0, EN, 1);
    speaks(1, ES, 1);
    speaks(2, ES, 0.6);
    speaks(3, EN, 0.7);
    speaks(4, EN, 0.9);
    speaks(5, EN, 1);
    fake.scripts[5].no_speech = 0.995;
}

static const struct {
    const char *windows;
    uint32_t segments;
    float threshold;
    const char *language;
    float prob; /* mean of those that decided */
} cases[] = {
    {"1", 4, 0.5f, "es", 1},
    {"10000", 4, 0.5f, "es", 1}, /* sure at once: no others are asked */
    {"2000", 4, 0.5f, "es", 0.6f},
    {"2000", 4, 0.65f, "en", 1},     /* the second is sure */
    {"2232", 4, 0.95f, "es", 0.6f},  /* three of four */
    {"22333", 4, 0.95f, "en", 0.7f}, /* two and two: who was surer */
    {"22333", 5, 0.95f, "en", 0.7f},
    {"22233333", 3, 0.95f, "es", 0.6f}, /* three are asked */
    {"322", 1, 0.95f, "en", 0.7f},
    {"2332", 9, 0.95f, "en", 0.7f}, /* the recording ends first */
    {"22", 4, 1.0f, "es", 0.6f},
    {"55215", 4, 0.95f, "es", 1}, /* silence is not asked */
    {"5255", 4, 0.95f, "es", 0.6f},
    {"555", 4, 0.5f, "", 0},
    {"", 4, 0.5f, "", 0},
    {"4322", 2, 0.9f, "en", 0.9f},
};

static void run_case(size_t i, uint32_t slots)
{
    struct recording r = windows_of(cases[i].windows);
    size_t silent = 0;

    params.language_detection_segments = cases[i].segments;
    params.language_detection_threshold = cases[i].threshold;
    transcribe(&r, slots, NULL);
    if (strcmp(r.language, cases[i].language) != 0 ||
        !(fabsf(r.language_prob - cases[i].prob) < 1e-3f))
        fail_msg("%s with %u slots: %s %f", cases[i].windows, slots, r.language,
                 (double)r.language_prob);
    for (const char *w = cases[i].windows; *w; w++)
        silent += *w == '5';
    /* In silence halves and quarters are heard, too. */
    assert_int_equal(r.windows, strlen(cases[i].windows) + 6 * silent);
    assert_int_equal(r.segments, strlen(cases[i].windows));
    assert_int_equal(recording_texts(&r), r.segments - silent);
    for (uint32_t k = 0; k < r.segments; k++)
        assert_string_equal(r.segment[k].language, r.segment[k].text[0] ? cases[i].language : "");
}

TEST_SETUP(test_asked, setup)
{
    script_languages();
    for (size_t i = 0; i < COUNT(cases); i++)
        for (uint32_t slots = 1; slots <= 6; slots++)
            run_case(i, slots);
}

/* Many lanes whose windows wait for each other, with one slot and with few. */
TEST_SETUP(test_parked, setup)
{
    script_languages();
    params.language_detection_segments = 7;
    params.language_detection_threshold = 0.95f;
    for (uint32_t slots = 1; slots <= 4; slots++) {
        static struct recording r[6];
        struct transcriber *t = make(slots);

        for (int i = 0; i < 6; i++) {
            r[i] = windows_of(i % 2 ? "2223333" : "22222223333");
            recording_rewind(&r[i]);
            recording_add(t, &r[i], NULL);
        }
        recording_finish(t);
        transcriber_free(t);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(r[i].told, 1);
            assert_string_equal(r[i].language, i % 2 ? "en" : "es");
        }
    }
}

/* The audio goes no further while windows wait for others: the lane holds them, and goes on. */
TEST_SETUP(test_parked_without_audio, setup)
{
    static struct recording r;
    struct transcriber *t;

    script_languages();
    params.language_detection_threshold = 0.95f;
    t = make(2);
    r = windows_of("2233333");
    recording_rewind(&r);
    r.decoded = SECONDS(60);
    recording_add(t, &r, NULL);
    recording_finish(t); /* there is nothing to do */
    assert_int_equal(r.told, 0);
    r.decoded = recording_length(&r);
    recording_finish(t);
    assert_int_equal(r.told, 1);
    assert_string_equal(r.language, "en");
    transcriber_free(t);
}

TEST_SETUP(test_given, setup)
{
    struct recording r = windows_of("2512");

    script_languages();
    params.language_detection_threshold = 0.95f;
    transcribe(&r, 2, "en");
    assert_string_equal(r.language, "en");
    assert_true(r.language_prob == 1);
    assert_int_equal(recording_texts(&r), 3);
    for (uint32_t i = 0; i < r.segments; i++)
        assert_string_equal(r.segment[i].language, r.segment[i].text[0] ? "en" : "");
    strcpy(params.language, "es");
    transcribe(&r, 2, NULL);
    assert_string_equal(r.language, "es");
    transcribe(&r, 2, "en"); /* a lane's own goes before */
    assert_string_equal(r.language, "en");
}

TEST_SETUP(test_multilingual, setup)
{
    struct recording r = windows_of("1021501");

    script_languages();
    params.multilingual = true;
    for (int voice = 1; voice >= 0; voice--) {
        if (!voice)
            without_voice();
        transcribe(&r, 2, NULL);
        assert_string_equal(r.language, "es");
        assert_string_equal(r.segment[0].language, "es");
        assert_string_equal(r.segment[1].language, "en");
        assert_string_equal(r.segment[2].language, "es");
        if (voice)
            assert_true(fabsf(r.language_prob - 3.6f / 4) < 1e-3f);
    }
}

/* Hand cases of the rule itself. */
TEST_SETUP(test_rule, setup)
{
    struct language_tally t = {0};
    struct language_rule rule = {3, 0.8f};
    int32_t language = -1;
    float prob = -1;

    assert_false(language_most(&t, &language, &prob));
    assert_int_equal(language, -1);
    assert_false(language_ask(&t, &rule, 5, 0.79f, &language, &prob));
    assert_false(language_ask(&t, &rule, 6, 0.5f, &language, &prob));
    assert_int_equal(language, -1);
    assert_true(language_ask(&t, &rule, 6, 0.3f, &language, &prob));
    assert_int_equal(language, 6);
    assert_true(fabsf(prob - 0.4f) < 1e-6f);
    t = (struct language_tally){0};
    assert_true(language_ask(&t, &rule, 9, 0.8f, &language, &prob));
    assert_int_equal(language, 9);
    t = (struct language_tally){0};
    language_add(&t, 1, 0.5f); /* as many, and as sure: the first */
    language_add(&t, 2, 0.5f);
    assert_true(language_most(&t, &language, &prob));
    assert_int_equal(language, 1);
    for (int32_t i = 0; i < 2 * LANGUAGE_TALLY; i++) /* more than there are */
        language_add(&t, 100 + i, 0.1f);
    language_add(&t, 2, 0.5f);
    assert_true(language_most(&t, &language, &prob));
    assert_int_equal(language, 2);
}

/* ---- what comes before the text */

/* "1 2 3;;4;" for the windows' conditions. */
static const char *conditions(void)
{
    static char text[16384];
    size_t at = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < fake.prompt_count; i++) {
        for (uint32_t k = 0; k < fake.prompts[i].count; k++)
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%d", k ? " " : "",
                                   fake.prompts[i].tokens[k]);
        at += (size_t)snprintf(text + at, sizeof(text) - at, ";");
    }
    return text;
}

/* Three windows, the second with another text. */
static void script_texts(void)
{
    SAY(0, T(0), FARMER, T(10), T(12), TUESDAY, T(30));
    SAY(1, T(1), TUESDAY, T(4), T(4), TUESDAY, T(30));
}

static struct recording three(void)
{
    return (struct recording){
        .parts = {{SECONDS(30), 0}, {SECONDS(30), 1}, {SECONDS(30), 0}, {SECONDS(2), 1}}};
}

TEST_SETUP(test_condition, setup)
{
    struct recording r = three();

    without_voice();
    script_texts();
    transcribe(&r, 2, "en");
    assert_string_equal(conditions(), ";;;;");
    params.condition_on_previous_text = true;
    transcribe(&r, 2, "en");
    assert_string_equal(conditions(), ";650 261 275 396 1150 1250 620 2150;"
                                      "650 261 275 396 1150 1250 620 2150 700 620 850 850 620 2150;"
                                      "650 261 275 396 1150 1250 620 2150 700 620 850 850 620 2150 "
                                      "650 261 275 396 1150 1250 620 2150;");
    /* Nothing that was got at a high temperature is believed. */
    SAY(1, T(1), FARMER, TUESDAY, T(30));
    fake.scripts[1].attempt[0].unsure = true;
    SAY_AT(1, 1, T(1), TUESDAY, T(30));
    params.prompt_reset_on_temperature = 0.2f;
    transcribe(&r, 2, "en");
    assert_true(r.segment[2].temperature == 0.2f);
    assert_non_null(strstr(conditions(), "700 620 2150;650 261")); /* 0.2 is not above 0.2 */
    params.prompt_reset_on_temperature = 0.1f;
    transcribe(&r, 2, "en");
    assert_string_equal(conditions(), ";650 261 275 396 1150 1250 620 2150;;"
                                      "650 261 275 396 1150 1250 620 2150;");
}

/* Silence between two texts: the one before it is the condition still. */
TEST_SETUP(test_condition_over_silence, setup)
{
    struct recording r = three();

    without_voice();
    script_texts();
    r.parts[1].script = 2;
    fake.scripts[2].no_speech = 0.995;
    SAY(2, T(0), TUESDAY, T(30));
    params.condition_on_previous_text = true;
    transcribe(&r, 2, "en");
    assert_int_equal(r.windows, 4);
    assert_non_null(strstr(conditions(), ";650 261 275 396 1150 1250 620 2150;"));
    assert_null(strstr(conditions(), "650 620 2150"));
}

/* The last half of the positions less one, of a long text. */
TEST_SETUP(test_long_condition, setup)
{
    static int32_t tokens[220];
    struct recording r = three();

    without_voice();
    params.condition_on_previous_text = true;
    params.compression_ratio_threshold = 1000;
    for (int32_t i = 0; i < 220; i++)
        tokens[i] = i == 0 ? T(0) : i == 219 ? T(30) : 300 + i;
    fake.scripts[0].attempt[0] = fake.scripts[1].attempt[0] =
        (struct fake_attempt){tokens, 220, false, false};
    transcribe(&r, 1, "en");
    assert_int_equal(fake.prompts[1].count, 220);
    assert_int_equal(fake.prompts[2].count, 448 / 2 - 1);
    assert_int_equal(fake.prompts[2].tokens[222], T(30));
    assert_int_equal(fake.prompts[2].tokens[221], 300 + 218);
    assert_int_equal(fake.prompts[2].tokens[3], T(0));
}

/* initial: of the first window; hotwords: of all others, unless a text goes before. */
TEST_SETUP(test_prompts, setup)
{
    struct recording r = three();
    char farmer[] = "261 275 396;", tuesday[] = "620;";
    char want[256];

    without_voice();
    script_texts();
    strcpy(params.initial_prompt, " \t farmer \n");
    transcribe(&r, 2, "en");
    snprintf(want, sizeof(want), "%s;;;", farmer);
    assert_string_equal(conditions(), want);
    strcpy(params.hotwords, "tuesday");
    transcribe(&r, 2, "en");
    snprintf(want, sizeof(want), "%s%s%s%s", farmer, tuesday, tuesday, tuesday);
    assert_string_equal(conditions(), want);
    params.initial_prompt[0] = 0;
    transcribe(&r, 2, "en");
    snprintf(want, sizeof(want), "%s%s%s%s", tuesday, tuesday, tuesday, tuesday);
    assert_string_equal(conditions(), want);
    strcpy(params.initial_prompt, "farmer");
    params.condition_on_previous_text = true;
    transcribe(&r, 2, "en");
    assert_memory_equal(conditions(), "261 275 396;261 275 396 650 261 275 396 1150", 43);
    assert_null(strstr(conditions(), tuesday));
    params.initial_prompt[0] = 0;
    transcribe(&r, 2, "en");
    assert_memory_equal(conditions(), "620;650 261", 11);
    strcpy(params.hotwords, "   "); /* nothing at all */
    transcribe(&r, 2, "en");
    assert_memory_equal(conditions(), ";650 261", 8);
}

/* Windows that are packed: each has the prompt, and no text goes before. */
TEST_SETUP(test_packed_prompts, setup)
{
    SAY(0, T(0), FARMER, T(10), T(10), TUESDAY, T(30));
    SAY(1, T(0), TUESDAY, T(30));
    for (uint32_t slots = 1; slots < 4; slots++) {
        struct recording r = windows_of("0101");

        params.initial_prompt[0] = 0;
        strcpy(params.hotwords, "tuesday");
        transcribe(&r, slots, "en");
        assert_string_equal(conditions(), "620;620;620;620;");
        strcpy(params.initial_prompt, "farmer");
        transcribe(&r, slots, "en");
        assert_string_equal(conditions(), "261 275 396;261 275 396;261 275 396;261 275 396;");
    }
}

/* A condition cannot go with windows that are cut by voice. */
TEST_SETUP(test_packed_condition, setup)
{
    struct transcriber *t = NULL;
    struct err e;

    params.condition_on_previous_text = true;
    assert_int_equal(transcriber_new(fake_whisper(nano), fake_silero(), &params, 1, 1, &t, &e),
                     ERR_USAGE);
    params.condition_on_previous_text = false;
    assert_int_equal(transcriber_new(fake_whisper(nano), NULL, &params, 1, 1, &t, &e), ERR_USAGE);
    without_voice();
    assert_int_equal(transcriber_new(fake_whisper(nano), fake_silero(), &params, 1, 1, &t, &e),
                     ERR_USAGE);
}

static int open_all(void **state)
{
    log_set_sink(test_no_log, NULL);
    return nano_open(state);
}

TEST_MAIN(open_all, nano_close)
