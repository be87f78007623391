/* The driver over a model that plays scripts: windows, fallback, silence, language, waiting,
 * refusals. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "tests/common/nano.h"
#include "tests/unit/stages/fake_whisper.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/transcribe/lane.h"
#include "workers/stages/transcribe/transcribe.h"

#define EN 642
#define ES 643
#define T(seconds) (650 + (int32_t)((seconds)*50 + 0.5))
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define SECONDS(x) ((int64_t)((x)*16000))

/* ---- a recording and what comes out of it */

struct part {
    int64_t samples;
    int script; /* -1: digital silence */
};

struct recording {
    struct part parts[8];
    int64_t from;     /* position of the first sample */
    int64_t decoded;  /* samples that can be read; beyond: wait */
    int64_t released; /* what the lane has given back */
    bool fails;
    /* the result */
    int told;
    int code;
    char message[500];
    char text[8192]; /* "[start-end text]" per segment, milliseconds; "[!..." where it is dropped */
    char language[16];
    float language_prob;
    float temperature[16], no_speech[16];
    uint32_t attempts[16];
    int64_t speech_ms;
    uint32_t windows, segments;
    int64_t end;
};

static int64_t length(const struct recording *r)
{
    int64_t n = 0;

    for (size_t i = 0; i < COUNT(r->parts); i++)
        n += r->parts[i].samples;
    return n;
}

static float sample(const struct recording *r, int64_t at)
{
    for (size_t i = 0; i < COUNT(r->parts); i++) {
        if (at < r->parts[i].samples)
            return r->parts[i].script < 0 ? 0 : fake_audio((uint32_t)r->parts[i].script);
        at -= r->parts[i].samples;
    }
    return 0;
}

static int64_t read_audio(void *arg, int64_t at, size_t n, float *out)
{
    struct recording *r = arg;
    int64_t rel = at - r->from, left = length(r) - rel;

    assert_true(rel >= r->released);
    assert_true(rel <= length(r));
    if (r->fails)
        return -7;
    if (left > (int64_t)n)
        left = (int64_t)n;
    if (rel + left > r->decoded ||
        (rel + left == r->decoded && r->decoded < length(r) && left < (int64_t)n))
        return -1;
    for (int64_t i = 0; i < left; i++)
        out[i] = sample(r, rel + i);
    return left;
}

static void release_audio(void *arg, int64_t at)
{
    struct recording *r = arg;

    assert_true(at - r->from >= r->released);
    r->released = at - r->from;
}

static void take(void *arg, const struct lane_result *result, const struct err *err)
{
    struct recording *r = arg;

    r->told++;
    if (err) {
        assert_null(result);
        r->code = err->code;
        snprintf(r->message, sizeof(r->message), "%s", err->msg);
        return;
    }
    snprintf(r->language, sizeof(r->language), "%s", result->language);
    r->language_prob = result->language_prob;
    r->windows = result->windows;
    r->segments = result->segment_count;
    r->end = result->end_sample;
    r->speech_ms = result->account.speech_ms;
    for (uint32_t i = 0; i < result->segment_count; i++) {
        const struct result_segment *s = &result->segments[i];
        size_t at = strlen(r->text);

        snprintf(r->text + at, sizeof(r->text) - at, "[%s%lld-%lld %s]", s->dropped ? "!" : "",
                 (long long)s->start_ms, (long long)s->end_ms, s->text);
        if (i < 16) {
            r->temperature[i] = s->temperature;
            r->no_speech[i] = s->no_speech_prob;
            r->attempts[i] = s->attempts;
        }
    }
}

static struct recording recording(int script, double seconds)
{
    struct recording r = {.parts = {{SECONDS(seconds), script}}};

    r.decoded = length(&r);
    return r;
}

static struct transcriber *make(uint32_t slots)
{
    struct transcribe_params p;
    struct transcriber *t = NULL;
    struct err e;

    transcribe_params_default(&p);
    assert_ok(transcriber_new(fake_whisper(nano), NULL, &p, slots, 0, &t, &e), e);
    return t;
}

static struct lane *add(struct transcriber *t, struct recording *r)
{
    struct lane_source source = {.read = read_audio, .release = release_audio, .arg = r};
    struct lane *lane;
    struct err e;

    assert_ok(transcriber_add(t, r->from, NULL, 7, source, take, r, &lane, &e), e);
    return lane;
}

/* Until nothing more can be done; fails when that takes absurdly long. */
static void finish(struct transcriber *t)
{
    bool progress = true;
    struct err e;

    for (int i = 0; progress; i++) {
        assert_true(i < 100000);
        assert_ok(transcriber_step(t, &progress, &e), e);
    }
}

static void transcribe(struct recording *r)
{
    struct transcriber *t = make(2);

    add(t, r);
    finish(t);
    transcriber_free(t);
    assert_int_equal(r->told, 1);
}

static int setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof(fake));
    fake.device_fails_at = -1;
    for (int i = 0; i < FAKE_SCRIPTS; i++)
        fake.scripts[i] = (struct fake_script){.language = EN, .no_speech = 0.01, .attempts = 1};
    return 0;
}

/* Script i says these tokens (the first attempt when there are several). */
#define SAY(i, ...)                                           \
    do {                                                      \
        static const int32_t say_tokens[] = {__VA_ARGS__};    \
        fake.scripts[i].attempt[0].tokens = say_tokens;       \
        fake.scripts[i].attempt[0].count = COUNT(say_tokens); \
    } while (0)
#define SAY_LATER(i, k, ...)                                  \
    do {                                                      \
        static const int32_t say_tokens[] = {__VA_ARGS__};    \
        fake.scripts[i].attempt[k].tokens = say_tokens;       \
        fake.scripts[i].attempt[k].count = COUNT(say_tokens); \
        fake.scripts[i].attempts = (k) + 1;                   \
    } while (0)
#define FARMER 261, 275, 396 /* " farmer" */
#define TUESDAY 620          /* " tuesday" */

/* ---- windows */

static bool goes_ahead(void) { return getenv("NIGHTSHIFT_FAKE_AHEAD") != NULL; }

TEST_SETUP(test_one_window, setup)
{
    struct recording r = recording(0, 6);

    SAY(0, T(0.46), FARMER, T(1.8), T(2.46), TUESDAY, 13, T(5.54));
    r.from = SECONDS(100);
    transcribe(&r);
    assert_string_equal(r.text, "[100460-101800 farmer][102460-105540 tuesday.]");
    assert_string_equal(r.language, "en");
    assert_true(r.language_prob > 0.99f);
    assert_int_equal(r.windows, 1);
    assert_int_equal(r.end, SECONDS(106));
    assert_int_equal(r.released, SECONDS(6));
    assert_int_equal(r.speech_ms, -1); /* nobody listened for voice */
    assert_true(r.temperature[0] == 0);
}

/* An unfinished segment is heard again from the last end. */
TEST_SETUP(test_seek, setup)
{
    struct recording r = {.parts = {{SECONDS(10), 0}, {SECONDS(35), 1}}};

    r.decoded = length(&r);
    SAY(0, T(0), FARMER, T(10), T(12), TUESDAY);
    SAY(1, T(1), TUESDAY, T(4));
    transcribe(&r);
    assert_string_equal(r.text, "[0-10000 farmer][11000-14000 tuesday][41000-44000 tuesday]");
    assert_int_equal(r.windows, 3);
    assert_int_equal(r.end, SECONDS(45));
}

/* Nothing past the recording's end, whatever the model claims to hear in the padding. */
TEST_SETUP(test_end, setup)
{
    struct recording r = recording(0, 2);

    SAY(0, T(0.5), FARMER, T(3), T(3), TUESDAY, T(4), T(4));
    transcribe(&r);
    assert_string_equal(r.text, "[500-2000 farmer tuesday]");
    assert_int_equal(r.end, SECONDS(2));
}

TEST_SETUP(test_lengths, setup)
{
    static const int64_t lengths[] = {0, 1, 1599, 1600, 479999, 480000, 480001, 481600};
    static const uint32_t windows[] = {0, 0, 0, 1, 1, 1, 1, 2};

    SAY(0, T(0), FARMER, T(0.04));
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct recording r = {.parts = {{lengths[i], 0}}, .decoded = lengths[i]};

        transcribe(&r);
        assert_int_equal(r.end, lengths[i]);
        assert_int_equal(r.windows, windows[i]);
        assert_int_equal(r.segments, windows[i]);
    }
}

/* A model that ends each window after 20 ms is moved on. */
TEST_SETUP(test_crawl, setup)
{
    struct recording r = recording(0, 30);

    SAY(0, T(0), FARMER, T(0.02), T(0.02), TUESDAY);
    transcribe(&r);
    assert_int_equal(r.end, SECONDS(30));
    assert_true(r.windows < 40);
    assert_true(r.segments > 20);
}

TEST_SETUP(test_endless, setup)
{
    struct recording r = recording(0, 5);
    static const int32_t loop[] = {TUESDAY};

    fake.scripts[0].attempt[0] = (struct fake_attempt){loop, 1, false, true};
    transcribe(&r); /* every temperature loops: the likeliest text, and an end */
    assert_int_equal(r.segments, 1);
    assert_int_equal(r.attempts[0], 6);
    assert_true(r.temperature[0] < 1.0f);
    assert_int_equal(r.end, SECONDS(5));
}

/* ---- fallback and silence */

TEST_SETUP(test_fallback_repetition, setup)
{
    struct recording r = recording(0, 5);

    SAY(0, T(0), TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY,
        TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, T(4));
    SAY_LATER(0, 1, T(0), FARMER, T(4));
    transcribe(&r);
    assert_string_equal(r.text, "[0-4000 farmer]");
    assert_true(r.temperature[0] == 0.2f);
    assert_int_equal(r.windows, 1);
    assert_int_equal(fake.windows_encoded, 1);
}

TEST_SETUP(test_fallback_unlikely, setup)
{
    struct recording r = recording(0, 5);

    SAY(0, T(0), FARMER, TUESDAY, T(4));
    fake.scripts[0].attempt[0].unsure = true;
    SAY_LATER(0, 1, T(0), FARMER, TUESDAY, T(4));
    fake.scripts[0].attempt[1].unsure = true;
    SAY_LATER(0, 2, T(0), TUESDAY, T(4));
    transcribe(&r);
    assert_string_equal(r.text, "[0-4000 tuesday]");
    assert_true(r.temperature[0] == 0.4f);
}

TEST_SETUP(test_silence, setup)
{
    static const struct {
        double no_speech;
        bool unsure;
        const char *text;
    } cases[] = {
        {0.70, true, "[!0-4000 farmer]"}, /* perhaps silence, and an unlikely text */
        {0.70, false, "[0-4000 farmer]"}, /* perhaps silence, but a likely text */
        {0.99, false, ""},                /* silence beyond doubt */
        {0.50, false, "[0-4000 farmer]"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct recording r = recording(0, 5);

        setup(state);
        SAY(0, T(0), FARMER, T(4));
        fake.scripts[0].no_speech = cases[i].no_speech;
        fake.scripts[0].attempt[0].unsure = cases[i].unsure;
        transcribe(&r);
        assert_string_equal(r.text, cases[i].text);
        assert_string_equal(r.language,
                            strchr(cases[i].text, '!') || !cases[i].text[0] ? "" : "en");
        assert_int_equal(r.end, SECONDS(5));
        if (r.segments)
            assert_true(fabsf(r.no_speech[0] - (float)cases[i].no_speech) < 0.01f);
    }
    assert_true(fake.step_calls > 0);
}

/* Ten hours of digital silence cost nothing: the model is not asked. */
TEST_SETUP(test_digital_silence, setup)
{
    struct recording r = recording(-1, 90);
    int64_t samples;
    uint32_t lanes, windows;
    struct transcriber *t = make(1);

    r.parts[1] = (struct part){SECONDS(3), 0};
    r.decoded = length(&r);
    SAY(0, T(0), FARMER, T(2));
    add(t, &r);
    finish(t);
    assert_int_equal(fake.windows_encoded, 1);
    assert_string_equal(r.text, "[90000-92000 farmer]");
    transcriber_stats(t, &lanes, &windows, &samples);
    assert_int_equal(lanes, 0);
    assert_int_equal(windows, 0);
    assert_int_equal(samples, SECONDS(93));
    transcriber_free(t);
}

/* ---- language */

TEST_SETUP(test_language, setup)
{
    struct recording r = {.parts = {{SECONDS(30), 0}, {SECONDS(30), 1}, {SECONDS(5), 2}}};
    struct transcriber *t;
    struct lane_source source = {.read = read_audio, .release = release_audio, .arg = &r};
    struct lane *lane;
    struct err e;

    r.decoded = length(&r);
    /* Noise that looks English, then Spanish speech, then speech that looks English. */
    fake.scripts[0].no_speech = 0.8;
    SAY(0, T(0));
    fake.scripts[1].language = ES;
    SAY(1, T(0), FARMER, T(29));
    SAY(2, T(0), FARMER, T(2));
    transcribe(&r);
    assert_string_equal(r.language, "es");

    r = recording(1, 5);
    t = make(1);
    assert_ok(transcriber_add(t, 0, "en", 7, source, take, &r, &lane, &e), e);
    finish(t);
    assert_string_equal(r.language, "en");
    assert_true(r.language_prob == 1);
    assert_int_equal(transcriber_add(t, 0, "de", 7, source, take, &r, &lane, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "'de'"));
    transcriber_free(t);
}

/* Of several it is detected, as of all; the model must know each of them. */
TEST_SETUP(test_several_languages, setup)
{
    struct recording r = recording(0, 5);
    struct lane_source source = {.read = read_audio, .release = release_audio, .arg = &r};
    struct transcribe_params p;
    struct transcriber *t;
    struct lane *lane;
    struct err e;

    transcribe_params_default(&p);
    strcpy(p.language, "en,es");
    fake.scripts[0].language = ES;
    SAY(0, T(0), FARMER, T(4));
    assert_ok(transcriber_new(fake_whisper(nano), NULL, &p, 1, 0, &t, &e), e);
    r.decoded = length(&r);
    assert_ok(transcriber_add(t, 0, "", 7, source, take, &r, &lane, &e), e);
    assert_int_equal(lane->language, -1);
    finish(t);
    assert_string_equal(r.language, "es");
    transcriber_free(t);
    strcpy(p.language, "de,en");
    assert_int_equal(transcriber_new(fake_whisper(nano), NULL, &p, 1, 0, &t, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "'de'"));
}

/* ---- many lanes */

TEST_SETUP(test_waiting, setup)
{
    struct recording slow = recording(0, 40), fast = recording(1, 4);
    struct transcriber *t = make(1);
    bool progress;
    struct err e;

    SAY(0, T(0), FARMER, T(20));
    SAY(1, T(0), TUESDAY, T(3));
    slow.decoded = SECONDS(10);
    add(t, &slow);
    add(t, &fast);
    finish(t);
    assert_int_equal(fast.told, 1);
    assert_int_equal(slow.told, 0);
    assert_ok(transcriber_step(t, &progress, &e), e);
    assert_false(progress);
    slow.decoded = SECONDS(30); /* the first window, not the second */
    finish(t);
    assert_int_equal(slow.told, 0);
    assert_int_equal(slow.released, SECONDS(30));
    slow.decoded = SECONDS(40);
    finish(t);
    assert_string_equal(slow.text, "[0-20000 farmer][30000-40000 farmer]");
    transcriber_free(t);
}

/* Twelve lanes; the same results for every number of slots and every refusal of memory. */
static void run_twelve(uint32_t slots, struct recording *r)
{
    struct transcriber *t = make(slots);
    struct recording fresh[12];

    for (int i = 0; i < 12; i++) {
        fresh[i] = recording(i % 4, 5 + 11.37 * i);
        fresh[i].from = SECONDS(1000) * i;
    }
    for (int i = 0; i < 12; i++)
        add(t, &fresh[slots % 2 ? i : 11 - i]);
    finish(t);
    transcriber_free(t);
    memcpy(r, fresh, sizeof(fresh));
}

static void script_four(void)
{
    SAY(0, T(0.5), FARMER, T(1.8), T(2), TUESDAY, T(4.5), T(4.5), FARMER);
    SAY(1, T(0), TUESDAY, T(20), T(21), FARMER, TUESDAY, T(29));
    SAY(2, T(0), FARMER, TUESDAY, FARMER, T(4));
    fake.scripts[2].attempt[0].unsure = true; /* drawn at every temperature */
    SAY(3, T(0), TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY,
        TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, T(4));
    SAY_LATER(3, 1, T(1), FARMER, T(8), T(9), TUESDAY, T(14));
}

TEST_SETUP(test_batching, setup)
{
    static const struct {
        uint32_t slots, session_max, encode_max, step_max;
    } cases[] = {{2, 0, 0, 0},  {5, 0, 0, 0},  {12, 0, 0, 0}, {64, 0, 0, 0},
                 {16, 3, 0, 0}, {16, 0, 2, 0}, {16, 0, 1, 3}, {16, 5, 3, 2}};
    static struct recording first[12], again[12];

    script_four();
    run_twelve(1, first);
    for (size_t i = 0; i < COUNT(cases); i++) {
        fake.session_max = cases[i].session_max;
        fake.encode_max = cases[i].encode_max;
        fake.step_max = cases[i].step_max;
        run_twelve(cases[i].slots, again);
        assert_memory_equal(first, again, sizeof(first));
    }
    assert_int_equal(first[11].told, 1);
    assert_int_equal(first[2].attempts[0], 6);
    assert_true(fake.largest_step > 4);
}

/* On a device that encodes beside its steps: the same, however late windows are there, and whatever
 * memory is refused meanwhile; the others are stepped, and nobody waits while there are any. */
TEST_SETUP(test_encoding_beside, setup)
{
    static const struct {
        uint32_t slots, asks, encode_max, step_max;
    } cases[] = {{1, 2, 0, 0},  {2, 3, 0, 0},  {5, 40, 0, 0},
                 {12, 7, 0, 0}, {16, 5, 2, 0}, {8, 9, 0, 3}};
    static struct recording first[12], again[12];
    uint32_t alone;

    script_four();
    run_twelve(1, first);
    alone = fake.step_calls;
    for (size_t i = 0; i < COUNT(cases); i++) {
        fake.encode_asks = cases[i].asks;
        fake.encode_max = cases[i].encode_max;
        fake.step_max = cases[i].step_max;
        fake.encode_waits = fake.encode_calls = fake.step_calls = fake.most_waves = 0;
        run_twelve(cases[i].slots, again);
        assert_memory_equal(first, again, sizeof(first));
        if (cases[i].slots == 1)
            /* Nothing else to do; but for a row that was begun ahead, and is nobody's. */
            assert_true(goes_ahead() ? fake.encode_waits <= fake.encode_calls
                                     : fake.encode_waits == fake.encode_calls);
        else
            assert_true(fake.encode_waits < fake.encode_calls);
        /* The next windows set off while those before them are on their way. */
        assert_int_equal(fake.most_waves, cases[i].slots == 1 ? 1 : ASR_WAVES);
        assert_true(fake.step_calls <= alone);
    }
}

/* What was in flight begins again with less at once: first in the encoder, then in slots. */
TEST_SETUP(test_lack_of_memory, setup)
{
    struct recording alone[12], r[12];
    struct transcriber *t;

    script_four();
    run_twelve(1, alone);
    fake.windows = 8;
    t = make(16);
    assert_int_equal(transcriber_windows(t), 8);
    assert_int_equal(transcriber_lack(t)->code, 0);
    for (int i = 0; i < 12; i++) {
        r[i] = recording(i % 4, 5 + 11.37 * i);
        r[i].from = SECONDS(1000) * i;
    }
    for (int i = 0; i < 12; i++)
        add(t, &r[i]);
    for (int i = 0; i < 9; i++) { /* windows are half decoded */
        bool progress;
        struct err e;

        assert_ok(transcriber_step(t, &progress, &e), e);
    }
    assert_int_equal(transcriber_windows(t), 8);
    fake.windows_max = 2;
    while (transcriber_windows(t) == 8) {
        bool progress;
        struct err e;

        assert_ok(transcriber_step(t, &progress, &e), e);
        assert_true(progress);
    }
    assert_int_equal(transcriber_windows(t), 4);
    assert_int_equal(transcriber_slots(t), 16);
    fake.step_max = 3;
    finish(t);
    assert_int_equal(transcriber_windows(t), 1);
    assert_int_equal(transcriber_slots(t), 2);
    assert_int_equal(transcriber_lack(t)->code, ERR_VRAM);
    assert_non_null(strstr(transcriber_lack(t)->msg, "no room"));
    for (int i = 0; i < 12; i++) {
        assert_int_equal(r[i].told, 1);
        assert_string_equal(r[i].text, alone[i].text);
    }
    transcriber_free(t);
}

/* Not even one window at once: the error is the caller's affair, and the transcriber can be freed.
 */
TEST_SETUP(test_no_memory_at_all, setup)
{
    struct recording r = recording(0, 5);
    struct transcriber *t;
    bool progress;
    struct err e;
    int rc;

    SAY(0, T(0), FARMER, T(4));
    t = make(4);
    add(t, &r);
    fake.vram_gone = true;
    while ((rc = transcriber_step(t, &progress, &e)) == 0)
        assert_true(progress);
    assert_int_equal(rc, ERR_VRAM);
    assert_int_equal(r.told, 0);
    transcriber_free(t);
}

/* Forty recordings of different lengths through sixteen slots: how many calls the encoder got. */
static uint32_t run_forty(uint32_t windows, struct recording *r)
{
    struct transcriber *t;
    uint32_t before = fake.encode_calls, encoded = fake.windows_encoded;

    fake.windows = windows;
    t = make(16);
    for (int i = 0; i < 40; i++) {
        r[i] = recording(i % 4, 5 + 1.37 * i);
        add(t, &r[i]);
    }
    finish(t);
    transcriber_free(t);
    assert_true(fake.windows_encoded - encoded > 60);
    return fake.encode_calls - before;
}

/* Slots that become free one by one are refilled in pairs where the encoder takes many at once, and
 * nothing else changes. */
TEST_SETUP(test_pairs, setup)
{
    static struct recording alone[40], pairs[40];
    uint32_t calls[2];

    script_four();
    calls[0] = run_forty(1, alone);
    calls[1] = run_forty(16, pairs);
    assert_memory_equal(alone, pairs, sizeof(alone));
    for (int i = 0; i < 40; i++)
        assert_int_equal(alone[i].told, 1);
    assert_true(calls[1] < calls[0]);
}

TEST_SETUP(test_vram, setup)
{
    struct transcribe_params p;
    struct transcriber *t;
    struct recording r = recording(0, 5);
    bool progress;
    struct err e;

    SAY(0, T(0), FARMER, T(4));
    fake.session_max = 3;
    t = make(16);
    assert_int_equal(transcriber_slots(t), 2);
    fake.encode_max = 0;
    transcriber_free(t);
    /* Not even one. */
    fake.session_max = 0;
    t = make(2);
    add(t, &r);
    fake.step_max = 0;
    fake.device_fails_at = 2;
    while (!transcriber_step(t, &progress, &e))
        assert_true(progress);
    assert_int_equal(e.code, ERR_DEVICE);
    assert_int_equal(r.told, 0);
    transcriber_free(t);
    transcribe_params_default(&p);
    p.temperature_count = 0;
    assert_int_equal(transcriber_new(fake_whisper(nano), NULL, &p, 1, 0, &t, &e), ERR_USAGE);
}

static void count_beat(void *arg) { ++*(uint32_t *)arg; }

/* Nothing is heard of a slow device only for as long as a call takes: few windows in one. */
TEST_SETUP(test_beat, setup)
{
    struct recording r[5];
    struct transcriber *t = make(5);
    uint32_t beats = 0, before;
    bool progress;
    struct err e;

    SAY(0, T(0), FARMER, T(4));
    fake.encode_ms = 400;
    fake.largest_encode = 0;
    transcriber_on_beat(t, count_beat, &beats);
    for (int i = 0; i < 5; i++) {
        r[i] = recording(0, 5);
        add(t, &r[i]);
    }
    before = fake.encode_calls;
    assert_ok(transcriber_step(t, &progress, &e), e);
    assert_true(fake.largest_encode <= 2); /* a second's worth, and less on a slower machine */
    /* And the decoder's step, where its answers are waited for. */
    assert_int_equal(beats, fake.encode_calls - before + !goes_ahead());
    fake.encode_ms = 0;
    finish(t);
    assert_true(beats > 5);
    transcriber_free(t);
}

/* 9 samples more than 5000 ms: nothing may end at 5001, which is beyond the recording. */
TEST_SETUP(test_end_between_milliseconds, setup)
{
    struct recording r = recording(0, 5);
    struct transcriber *t = make(1);

    SAY(0, T(0), FARMER, T(7));
    r.parts[0].samples += 9;
    r.decoded += 9;
    add(t, &r);
    finish(t);
    assert_string_equal(r.text, "[0-5000 farmer]");
    transcriber_free(t);
}

TEST_SETUP(test_broken_lane, setup)
{
    struct recording bad = recording(0, 5), good = recording(1, 5), failing = recording(1, 5);
    struct transcriber *t = make(3);

    fake.scripts[0].broken = true;
    SAY(1, T(0), FARMER, T(4));
    failing.fails = true;
    add(t, &bad);
    add(t, &good);
    add(t, &failing);
    finish(t);
    transcriber_free(t);
    assert_int_equal(bad.code, ERR_MODEL);
    assert_non_null(strstr(bad.message, "not a number"));
    assert_string_equal(good.text, "[0-4000 farmer]");
    assert_int_equal(failing.code, ERR_IO);
}

TEST_SETUP(test_remove, setup)
{
    struct recording a = recording(0, 5), b = recording(0, 5), c = recording(0, 5);
    struct transcriber *t = make(1);
    struct lane *la, *lc;
    uint32_t lanes, windows;
    int64_t samples;
    bool progress;
    struct err e;

    SAY(0, T(0), FARMER, T(4));
    la = add(t, &a);
    add(t, &b);
    lc = add(t, &c);
    assert_ok(transcriber_step(t, &progress, &e), e);
    transcriber_stats(t, &lanes, &windows, &samples);
    assert_int_equal(lanes, 3);
    assert_int_equal(windows, 1);
    transcriber_remove(t, la); /* in a slot */
    transcriber_remove(t, lc); /* waiting */
    finish(t);
    assert_int_equal(a.told, 0);
    assert_int_equal(b.told, 1);
    assert_int_equal(c.told, 0);
    assert_string_equal(b.text, "[0-4000 farmer]");
    add(t, &a);
    transcriber_free(t); /* with a lane left */
    assert_int_equal(a.told, 0);
}

/* A slot whose window goes while it is encoded is free once the encoder is through with it. */
TEST_SETUP(test_remove_while_encoding, setup)
{
    struct recording a = recording(0, 5), b = recording(0, 5);
    struct transcriber *t = make(1);
    struct lane *la;
    bool progress;
    struct err e;

    SAY(0, T(0), FARMER, T(4));
    fake.encode_asks = 3;
    la = add(t, &a);
    assert_ok(transcriber_step(t, &progress, &e), e); /* waits for it */
    add(t, &b);
    transcriber_remove(t, la);
    finish(t);
    assert_int_equal(a.told, 0);
    assert_string_equal(b.text, "[0-4000 farmer]");
    transcriber_free(t);
    t = make(2);
    a = b = recording(0, 5);
    la = add(t, &a);
    assert_ok(transcriber_step(t, &progress, &e), e);
    add(t, &b);
    assert_ok(transcriber_step(t, &progress, &e), e); /* a is stepped, b on its way */
    transcriber_remove(t, la);
    finish(t);
    assert_string_equal(b.text, "[0-4000 farmer]");
    transcriber_free(t);
}

/* done may add the next lane. */
struct chain {
    struct transcriber *t;
    struct recording r[5];
    int next;
};

static void take_and_add(void *arg, const struct lane_result *result, const struct err *err)
{
    struct chain *c = arg;
    struct lane_source source = {
        .read = read_audio, .release = release_audio, .arg = &c->r[c->next]};
    struct err e;

    assert_null(err);
    assert_non_null(result);
    if (++c->next < 5) {
        source.arg = &c->r[c->next];
        assert_ok(transcriber_add(c->t, 0, "", 1, source, take_and_add, c, NULL, &e), e);
    }
}

TEST_SETUP(test_chain, setup)
{
    static struct chain c;
    struct lane_source source = {.read = read_audio, .release = release_audio, .arg = &c.r[0]};
    struct err e;

    SAY(0, T(0), FARMER, T(4));
    c = (struct chain){.t = make(2)};
    for (int i = 0; i < 5; i++)
        c.r[i] = recording(i == 2 ? -1 : 0, 5);
    assert_ok(transcriber_add(c.t, 0, "", 1, source, take_and_add, &c, NULL, &e), e);
    finish(c.t);
    assert_int_equal(c.next, 5);
    transcriber_free(c.t);
}

static int open_all(void **state)
{
    log_set_sink(test_no_log, NULL);
    return nano_open(state);
}

TEST_MAIN(open_all, nano_close)
