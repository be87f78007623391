/* Lanes whose text is there: it comes back as it was, with times of its words, and nothing is
 * decoded, whatever the slots, the order of arrival and the lack of memory; and texts that a
 * catalog of anybody's may hold. */
#include "tests/common/test.h"

#include <stdbool.h>

#include "base/err.h"
#include "tests/common/nano.h"
#include "tests/unit/stages/fake_silero.h"
#include "tests/unit/stages/fake_whisper.h"
#include "tests/unit/stages/recording.h"

#define MOST 64
#define LANES 6

static struct transcribe_params params;
static int64_t beside_ms; /* so far from their segment words may be heard */

static int setup(void **state)
{
    (void)state;
    recording_reset();
    beside_ms = 520;
    SAY(0, T(0), TUESDAY, T(2)); /* what it would say, were it asked */
    transcribe_params_default(&params);
    params.word_timestamps = true;
    return 0;
}

/* ---- texts */

struct text {
    struct result_segment list[MOST];
    struct result_known_text told;
};

static struct text *text_of(struct text *t)
{
    *t = (struct text){.told = {.language = "en",
                                .language_prob = 0.75f,
                                .account = {.speech_ms = 20000, .dropped_ms = 1000}}};
    t->told.segments = t->list;
    return t;
}

static struct result_segment *say(struct text *t, double start, double end, const char *words)
{
    struct result_segment *s = &t->list[t->told.segment_count++];

    assert_true(t->told.segment_count <= MOST);
    *s = (struct result_segment){.start_ms = (int64_t)(start * 1000),
                                 .end_ms = (int64_t)(end * 1000),
                                 .text = words,
                                 .language = "en",
                                 .avg_logprob = -0.5f,
                                 .compression_ratio = 1.25f,
                                 .temperature = 0.5f,
                                 .attempts = 3,
                                 .speech_prob = 0.875f,
                                 .reason = "unsure"};
    return s;
}

static void speak(struct recording *r, double seconds)
{
    *r = (struct recording){.parts = {{SECONDS(seconds), 0}}};
    recording_rewind(r);
}

/* ---- running */

static void check_words(const struct result_segment *s)
{
    char joined[1024] = "";
    int64_t last = s->start_ms - beside_ms;

    for (uint32_t i = 0; i < s->word_count; i++) {
        const struct result_word *w = &s->words[i];

        assert_true(w->start_ms >= last && w->end_ms >= w->start_ms);
        assert_true(w->end_ms <= s->end_ms + beside_ms);
        assert_true(strlen(joined) + strlen(w->text) < sizeof(joined));
        strcat(joined, w->text);
        last = w->start_ms;
    }
    if (s->word_count)
        assert_string_equal(joined + strspn(joined, " "), s->text);
}

/* As recording_take, of texts that need not lie within the recording. */
static void keep(void *arg, const struct lane_result *result, const struct err *err)
{
    struct recording *r = arg;

    r->told++;
    if (err) {
        r->code = err->code;
        return;
    }
    snprintf(r->language, sizeof(r->language), "%s", result->language);
    r->language_prob = result->language_prob;
    r->windows = result->windows;
    r->segments = result->segment_count;
    r->end = result->end_sample - r->from;
    r->account = result->account;
    assert_int_equal(r->end, recording_length(r));
    for (uint32_t i = 0; i < r->segments; i++) {
        const struct result_segment *s = &result->segments[i];
        struct kept_segment *k = &r->segment[i];

        check_words(s);
        *k = (struct kept_segment){.start_ms = s->start_ms,
                                   .end_ms = s->end_ms,
                                   .speech_prob = s->speech_prob,
                                   .avg_logprob = s->avg_logprob,
                                   .temperature = s->temperature,
                                   .attempts = s->attempts,
                                   .words = s->word_count,
                                   .dropped = s->dropped};
        snprintf(k->text, sizeof(k->text), "%s", s->text);
        snprintf(k->reason, sizeof(k->reason), "%s", s->reason);
        snprintf(k->language, sizeof(k->language), "%s", s->language);
    }
}

static struct transcriber *make(uint32_t slots, uint32_t windows)
{
    struct transcriber *t = NULL;
    struct err e;

    assert_ok(transcriber_new(fake_whisper(nano), params.vad_model[0] ? fake_silero() : NULL,
                              &params, slots, windows, &t, &e),
              e);
    return t;
}

static void add_source(struct transcriber *t, struct recording *r, const struct text *text,
                       uint32_t source)
{
    struct lane *lane;
    struct err e;

    assert_ok(transcriber_add_known_text(t, r->from, &text->told, source, recording_source(r), keep,
                                         r, &lane, &e),
              e);
}

static void add(struct transcriber *t, struct recording *r, const struct text *text)
{
    add_source(t, r, text, 0);
}

static void time_words(struct recording *r, const struct text *text)
{
    struct transcriber *t = make(1, 1);

    add(t, r, text);
    recording_finish(t);
    transcriber_free(t);
    assert_int_equal(r->told, 1);
    assert_int_equal(r->code, 0);
}

/* All that it was told, byte for byte; what must have words has them. */
static void check_same(const struct recording *r, const struct text *text, const char *words)
{
    assert_int_equal(r->segments, text->told.segment_count);
    for (uint32_t i = 0; i < r->segments; i++) {
        const struct kept_segment *k = &r->segment[i];
        const struct result_segment *s = &text->list[i];

        assert_string_equal(k->text, s->text);
        assert_string_equal(k->reason, s->reason);
        assert_string_equal(k->language, s->language);
        assert_memory_equal(&k->speech_prob, &s->speech_prob, sizeof(float));
        assert_memory_equal(&k->avg_logprob, &s->avg_logprob, sizeof(float));
        assert_memory_equal(&k->temperature, &s->temperature, sizeof(float));
        assert_int_equal(k->attempts, s->attempts);
        assert_int_equal(k->dropped, s->dropped);
        if ((k->words > 0) != (words[i] == 0x31))
            fail_msg("segment %u, \"%s\", has %u words", i, k->text, k->words);
        if (k->words)
            assert_true(labs(k->start_ms - s->start_ms) <= beside_ms && k->end_ms >= k->start_ms &&
                        k->end_ms <= s->end_ms + beside_ms);
        else
            assert_true(k->start_ms == s->start_ms && k->end_ms == s->end_ms);
    }
    assert_int_equal(fake.step_calls, 0);
}

/* ---- what comes back */

TEST_SETUP(test_nothing_is_decoded, setup)
{
    static struct recording r;
    static struct text text;

    text_of(&text);
    say(&text, 1, 3, "the farmer is here.");
    say(&text, 3.5, 7, "it is tuesday, he says.");
    say(&text, 40, 42, "\xC3\xA9t\xC3\xA9 and winter");
    speak(&r, 60);
    time_words(&r, &text);
    check_same(&r, &text, "111");
    assert_int_equal(r.segment[0].words, 4);
    assert_int_equal(r.segment[1].words, 5);
    assert_int_equal(r.windows, 2);
    assert_int_equal(fake.windows_encoded, 2);
    assert_int_equal(fake.align_calls, 2);
    assert_string_equal(r.language, "en");
    assert_true(r.language_prob == 0.75f);
    assert_int_equal(r.account.speech_ms, 20000);
    assert_int_equal(r.account.dropped_ms, 1000);
    assert_int_equal(r.most_held <= SECONDS(31), true);
}

TEST_SETUP(test_nobody_spoke, setup)
{
    static struct recording r;
    static struct text text;

    text_of(&text)->told.language = "";
    text.told.account = (struct result_account){.speech_ms = -1};
    speak(&r, 100);
    time_words(&r, &text);
    assert_int_equal(r.segments, 0);
    assert_string_equal(r.language, "");
    assert_int_equal(r.account.speech_ms, -1);
    assert_int_equal(fake.windows_encoded, 0);
    assert_int_equal(r.released, SECONDS(100));
}

/* Of several sources each lane has its own segments, and one the shard's account. */
TEST_SETUP(test_sources, setup)
{
    static struct recording first, second;
    static struct text text;
    struct transcriber *t = make(2, 1);

    text_of(&text)->told.account.missing_ms = 0;
    say(&text, 1, 3, "the farmer is here.")->source = 1;
    say(&text, 2, 4, "it is tuesday.")->source = 2;
    say(&text, 5, 6, "yes.")->source = 2;
    speak(&first, 10);
    speak(&second, 10);
    add_source(t, &first, &text, 1);
    add_source(t, &second, &text, 2);
    recording_finish(t);
    transcriber_free(t);
    assert_int_equal(first.segments, 1);
    assert_int_equal(second.segments, 2);
    assert_string_equal(second.segment[1].text, "yes.");
    assert_int_equal(first.account.speech_ms, 20000);
    assert_int_equal(second.account.speech_ms, 0);
}

TEST_SETUP(test_wants_times, setup)
{
    static struct recording r;
    static struct text text;
    struct transcriber *t;
    struct lane *lane;
    struct err e;

    params.word_timestamps = false;
    t = make(1, 1);
    assert_int_equal(transcriber_add_known_text(t, 0, &text_of(&text)->told, 0,
                                                recording_source(&r), keep, &r, &lane, &e),
                     ERR_USAGE);
    transcriber_free(t);
}

/* ---- texts of anybody's */

static char *long_text(size_t bytes)
{
    char *text = malloc(bytes + 1);

    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++)
        text[i] = "farmer "[i % 7];
    text[bytes] = 0;
    return text;
}

TEST_SETUP(test_what_no_window_holds, setup)
{
    static struct recording r;
    static struct text text;
    char *tokens = long_text(250), *bytes = long_text(255);

    beside_ms = 30000; /* what is said at the same time is put in a row */
    text_of(&text);
    say(&text, 0, 0.1, "at once");
    say(&text, 0, 50, "longer than a window");
    say(&text, 1, 3, "the farmer.");
    say(&text, 1, 3, "the farmer."); /* twice in one place */
    say(&text, 2, 31, "over what comes.");
    say(&text, 4, 5, "dropped")->dropped = true;
    say(&text, 5, 6, "unknown tongue")->language = "xx";
    say(&text, 6, 7, "of its shard's language")->language = "";
    say(&text, 8, 9, tokens);
    say(&text, 10, 11, bytes);
    say(&text, 59, 70, "beyond the end");
    say(&text, 61, 62, "behind the end");
    say(&text, 1e12, 1e12 + 1, "for ever");
    speak(&r, 60);
    time_words(&r, &text);
    check_same(&r, &text, "1011100111100");
    assert_int_equal(r.end, SECONDS(60));
    free(tokens);
    free(bytes);
}

/* More than the decoder takes, and a whole book. */
TEST_SETUP(test_too_much_text, setup)
{
    static struct recording r;
    static struct text text;
    struct transcriber *t = make(1, 1);
    char *much = long_text(8000), *book = long_text(1 << 20);

    text_of(&text);
    say(&text, 1, 20, much);
    say(&text, 21, 29, "and the rest.");
    say(&text, 30, 40, book);
    speak(&r, 60);
    add(t, &r, &text);
    recording_finish(t);
    transcriber_free(t);
    assert_int_equal(r.code, 0);
    assert_int_equal(r.segments, 3);
    assert_int_equal(r.segment[0].words, 0);
    assert_true(r.segment[1].words == 3);
    assert_int_equal(r.segment[2].words, 0);
    assert_memory_equal(r.segment[2].text, book, sizeof(r.segment[2].text) - 1);
    assert_int_equal(fake.align_calls, 1);
    free(much);
    free(book);
}

/* Longer than what is decoded: sessions get room for it once it comes, and what was in work begins
 * again. */
TEST_SETUP(test_long_text, setup)
{
    static struct recording one, other, heard;
    static struct text text, dense;
    struct transcriber *t = make(3, 1);
    char letters[251]; /* a token each */
    struct err e;

    for (int i = 0; i < 250; i++)
        letters[i] = "xqzvkj"[i % 6];
    letters[250] = 0;
    beside_ms = 30000;
    text_of(&text);
    text_of(&dense);
    say(&text, 1, 3, "the farmer.");
    say(&dense, 1, 29, letters);
    say(&dense, 31, 33, "it is tuesday.");
    speak(&one, 10);
    speak(&other, 60);
    speak(&heard, 10);
    add(t, &one, &text);
    assert_ok(
        transcriber_add(t, 0, "en", 1, recording_source(&heard), recording_take, &heard, NULL, &e),
        e);
    for (int i = 0; i < 2; i++) {
        bool progress;

        assert_ok(transcriber_step(t, &progress, &e), e);
    }
    assert_int_equal(fake.long_sessions, 0);
    assert_int_equal(heard.told, 0);
    add(t, &other, &dense);
    recording_finish(t);
    assert_int_equal(transcriber_slots(t), 3);
    transcriber_free(t);
    assert_int_equal(fake.long_sessions, 1);
    fake.step_calls = 0; /* heard's */
    check_same(&one, &text, "1");
    check_same(&other, &dense, "11");
    assert_int_equal(heard.segments, 1);
}

/* It is slots that take more then: there are fewer, and the encoder takes as many windows as
 * before.
 */
TEST_SETUP(test_long_text_where_memory_is_short, setup)
{
    static struct recording r;
    static struct text text;
    struct transcriber *t;
    char letters[251];

    for (int i = 0; i < 250; i++)
        letters[i] = "xqzvkj"[i % 6];
    letters[250] = 0;
    beside_ms = 30000;
    text_of(&text);
    say(&text, 1, 29, letters);
    speak(&r, 30);
    fake.windows = 2;
    t = make(8, 2);
    fake.session_max = 5;
    add(t, &r, &text);
    recording_finish(t);
    assert_int_equal(transcriber_slots(t), 4);
    assert_int_equal(transcriber_windows(t), 2);
    assert_int_equal(transcriber_lack(t)->code, 0); /* so that it is not remembered */
    assert_non_null(strstr(transcriber_lack(t)->msg, "longer"));
    transcriber_free(t);
    check_same(&r, &text, "1");
}

/* ---- the same whatever happens around them */

static struct recording alone[LANES], together[LANES];
static struct text texts[LANES];

static void random_text(struct text *t, int64_t length_ms, uint64_t *seed)
{
    static const char *const words[] = {"the farmer.", "it is tuesday.", "yes", "a city, a bird"};
    int64_t at = random_below(seed, 5000);

    text_of(t);
    while (t->told.segment_count < MOST) {
        int64_t end = at + 300 + random_below(seed, 9000);
        struct result_segment *s;

        if (end > length_ms)
            return;
        s = say(t, (double)at / 1000, (double)end / 1000, words[random_below(seed, 4)]);
        s->language = random_below(seed, 8) ? "en" : "es";
        at = random_below(seed, 6) ? end + random_below(seed, 3000)
                                   : end + random_below(seed, 60000);
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

TEST_SETUP(test_batching, setup)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        uint64_t draw = seed;
        struct transcriber *t;

        for (int i = 0; i < LANES; i++) {
            speak(&alone[i], 20 + random_below(&draw, 200));
            together[i] = alone[i];
            random_text(&texts[i], recording_length(&alone[i]) / 16, &draw);
            time_words(&alone[i], &texts[i]);
        }
        fake.encode_max = seed % 3 ? 0 : 2;
        fake.encode_asks = seed % 4;
        t = make(1 + seed % 7, 1 + seed % 3);
        for (int i = 0; i < LANES; i++) {
            together[i].decoded = 0;
            add(t, &together[i], &texts[i]);
        }
        for (bool more = true; more;) {
            bool progress;
            struct err e;

            more = arrive(&draw);
            assert_ok(transcriber_step(t, &progress, &e), e);
        }
        recording_finish(t);
        transcriber_free(t);
        for (int i = 0; i < LANES; i++)
            recording_equal(&alone[i], &together[i]);
    }
    assert_int_equal(fake.step_calls, 0);
    assert_true(fake.align_calls > 100);
}

/* Beside lanes that are heard, with voice activity or without. */
static void run_beside(const char *vad)
{
    static struct recording r, heard;
    static struct text text;
    struct transcriber *t;

    if (vad)
        recording_packed(&params);
    params.word_timestamps = true;
    text_of(&text);
    say(&text, 1, 3, "the farmer is here.");
    say(&text, 33, 37, "yes.");
    speak(&r, 60);
    speak(&heard, 20);
    t = make(3, 1);
    recording_add(t, &heard, "en");
    add(t, &r, &text);
    recording_finish(t);
    transcriber_free(t);
    assert_int_equal(r.segments, 2);
    assert_true(r.segment[0].words == 4 && r.segment[1].words == 1);
    assert_true(heard.segments > 0 && strstr(recording_text(&heard), "tuesday"));
    assert_true(fake.step_calls > 0);
}

TEST_SETUP(test_beside_windows_that_follow, setup) { run_beside(NULL); }

TEST_SETUP(test_beside_speech, setup) { run_beside("silero-vad"); }

/* ---- what fails */

TEST_SETUP(test_no_memory_to_align, setup)
{
    static struct recording r;
    static struct text text;
    struct transcriber *t;

    text_of(&text);
    for (int i = 0; i < 6; i++)
        say(&text, 25 * i + 1, 25 * i + 20, "the farmer is here.");
    speak(&r, 150);
    fake.align_fails = 3;
    t = make(4, 2);
    add(t, &r, &text);
    recording_finish(t);
    assert_int_equal(transcriber_windows(t), 1);
    transcriber_free(t);
    check_same(&r, &text, "111111");
    assert_true(fake.windows_encoded > 6);
}

TEST_SETUP(test_source_fails, setup)
{
    static struct recording r;
    static struct text text;
    struct transcriber *t = make(2, 1);

    text_of(&text);
    say(&text, 1, 3, "the farmer is here.");
    say(&text, 41, 43, "the farmer is here.");
    speak(&r, 60);
    r.fails_at = SECONDS(42);
    add(t, &r, &text);
    recording_finish(t);
    transcriber_free(t);
    assert_int_equal(r.told, 1);
    assert_int_equal(r.code, ERR_IO);
}

TEST_SETUP(test_removed, setup)
{
    static struct recording r;
    static struct text text;
    struct transcriber *t = make(2, 1);
    struct lane *lane;
    bool progress;
    struct err e;

    text_of(&text);
    for (int i = 0; i < 6; i++)
        say(&text, 25 * i + 1, 25 * i + 20, "the farmer is here.");
    speak(&r, 150);
    assert_ok(
        transcriber_add_known_text(t, 0, &text.told, 0, recording_source(&r), keep, &r, &lane, &e),
        e);
    assert_ok(transcriber_step(t, &progress, &e), e);
    transcriber_remove(t, lane);
    recording_finish(t);
    transcriber_free(t);
    assert_int_equal(r.told, 0);
}

TEST_MAIN(nano_open, nano_close)
