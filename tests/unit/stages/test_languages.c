/* Lanes whose language may change (multilingual): windows that are sure, windows that are asked
 * stretch by stretch, and where they are parted. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "tests/common/nano.h"
#include "tests/unit/stages/fake_silero.h"
#include "tests/unit/stages/fake_whisper.h"
#include "tests/unit/stages/recording.h"

#define SLOTS 6

static struct transcribe_params params;

/* Script i is heard to speak `language`, so sure. */
static void speaks(int i, int32_t language, double prob)
{
    fake.scripts[i].language = language;
    fake.scripts[i].rival = prob < 1 ? EN + ES - language : 0;
    fake.scripts[i].rival_prob = 1 - prob;
}

/* 0: English, unsure; 1: Spanish, sure; 2: English, sure; 3: English, unsure; 4: Spanish, unsure.
 * English ones say "farmer", Spanish ones "tuesday", to the end of their windows. */
static int setup(void **state)
{
    (void)state;
    recording_reset();
    recording_packed(&params);
    params.multilingual = true;
    SAY(0, T(0), FARMER, T(30));
    SAY(1, T(0), TUESDAY, T(30));
    SAY(2, T(0), FARMER, T(30));
    SAY(3, T(0), FARMER, T(30));
    SAY(4, T(0), TUESDAY, T(30));
    speaks(0, EN, 0.6);
    speaks(1, ES, 1);
    speaks(2, EN, 1);
    speaks(3, EN, 0.6);
    speaks(4, ES, 0.6);
    return 0;
}

static void transcribe_with(struct recording *r, uint32_t slots)
{
    struct transcriber *t;
    struct err e;

    recording_rewind(r);
    assert_ok(transcriber_new(fake_whisper(nano), fake_silero(), &params, slots, 1, &t, &e), e);
    recording_add(t, r, NULL);
    recording_finish(t);
    transcriber_free(t);
    assert_int_equal(r->told, 1);
    assert_int_equal(r->code, 0);
}

static void transcribe(struct recording *r)
{
    static struct recording again;

    transcribe_with(r, 1);
    again = *r;
    for (uint32_t slots = 2; slots <= SLOTS; slots++) {
        transcribe_with(&again, slots);
        recording_equal(r, &again);
    }
}

/* Stretches of these scripts, so many seconds long each, with pauses between them. */
static struct recording stretches(const char *scripts, double seconds)
{
    struct recording r = {0};

    for (size_t i = 0; scripts[i]; i++) {
        r.parts[2 * i] = (struct part){SECONDS(seconds), scripts[i] - '0'};
        r.parts[2 * i + 1] = (struct part){SECONDS(3), SILENCE};
    }
    return r;
}

/* "en farmer;es tuesday;" */
static const char *spoken(const struct recording *r)
{
    static char text[4096];
    size_t at = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < r->segments && at < sizeof(text); i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s %s;", r->segment[i].language,
                               r->segment[i].text);
    return text;
}

static const struct {
    const char *scripts;
    uint32_t windows; /* a window that is parted, and its pieces */
    const char *spoken;
    const char *language;
} cases[] = {
    {"01", 3, "en farmer;es tuesday;", "es"}, /* as many: who was surer */
    {"41", 1, "es tuesday;", "es"},           /* they agree: one window */
    {"03", 1, "en farmer;", "en"},
    {"010", 4, "en farmer;es tuesday;en farmer;", "en"},
    {"0011", 3, "en farmer;es tuesday;", "es"},
    {"040", 1, "en farmer;", "en"}, /* an unsure word between two */
    {"21", 1, "en farmer;", "en"},  /* who is sure is not asked further */
    {"4", 1, "es tuesday;", "es"},  /* one stretch, likelier than not */
};

TEST_SETUP(test_parted, setup)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct recording r;

        r = stretches(cases[i].scripts, 5);
        transcribe(&r);
        if (r.windows != cases[i].windows || strcmp(spoken(&r), cases[i].spoken) != 0)
            fail_msg("%s: %u windows, %s", cases[i].scripts, r.windows, spoken(&r));
        assert_string_equal(r.language, cases[i].language);
        assert_int_equal(r.account.missing_ms + r.account.dropped_ms, 0);
        assert_true(r.account.speech_ms > 4900 * (int64_t)strlen(cases[i].scripts));
    }
}

/* The pieces meet in the pause. */
TEST_SETUP(test_where, setup)
{
    static struct recording r;

    r = stretches("01", 5);
    transcribe(&r);
    assert_int_equal(r.segments, 2);
    assert_int_equal(r.segment[0].start_ms, 0);
    assert_true(llabs(r.segment[0].end_ms - 5400) <= 64); /* with 0.4 s of padding */
    assert_true(llabs(r.segment[1].start_ms - 7600) <= 64);
    assert_true(r.segment[1].end_ms > 12900);
}

/* Without a pause a long stretch is halved where voice activity hears least. */
TEST_SETUP(test_long_stretch, setup)
{
    static struct recording r;

    r = (struct recording){.parts = {{SECONDS(9.5), 0}, {SECONDS(10.5), 1}}};
    transcribe(&r);
    assert_string_equal(spoken(&r), "en farmer;es tuesday;");
    assert_int_equal(r.segment[1].start_ms, 9984); /* a step begins there */
    assert_int_equal(r.windows, 3);
}

/* Many windows, sure and unsure, in lanes that are decoded together. */
TEST_SETUP(test_many, setup)
{
    static const char *const scripts[] = {"01010",      "2211002211", "4444",
                                          "0412304123", "1",          "44011"};
    static struct recording alone[COUNT(scripts)], together[COUNT(scripts)];

    for (size_t i = 0; i < COUNT(scripts); i++) {
        alone[i] = stretches(scripts[i], 4 + (double)i);
        transcribe_with(&alone[i], 1);
        assert_true(alone[i].segments > 0);
    }
    for (uint32_t slots = 1; slots <= SLOTS; slots++) {
        struct transcriber *t;
        struct err e;

        assert_ok(transcriber_new(fake_whisper(nano), fake_silero(), &params, slots, 1, &t, &e), e);
        for (size_t i = 0; i < COUNT(scripts); i++) {
            together[i] = alone[i];
            recording_rewind(&together[i]);
            recording_add(t, &together[i], NULL);
        }
        recording_finish(t);
        transcriber_free(t);
        for (size_t i = 0; i < COUNT(scripts); i++)
            recording_equal(&alone[i], &together[i]);
    }
}

/* Who speaks which languages is known: a list of them changes nothing where it has all. */
TEST_SETUP(test_list, setup)
{
    static struct recording r, listed;

    for (int multilingual = 0; multilingual < 2; multilingual++) {
        params.multilingual = multilingual;
        params.language[0] = 0;
        r = stretches("010", 5);
        transcribe(&r);
        strcpy(params.language, "en,es");
        listed = r;
        transcribe(&listed);
        recording_equal(&r, &listed);
        assert_string_equal(spoken(&r),
                            multilingual ? "en farmer;es tuesday;en farmer;" : spoken(&listed));
    }
}

static int open_all(void **state)
{
    log_set_sink(test_no_log, NULL);
    return nano_open(state);
}

TEST_MAIN(open_all, nano_close)
