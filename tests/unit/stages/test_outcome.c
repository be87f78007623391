/* A window's segments in the recording: their times ascend whatever the window's own say. */
#include "tests/common/test.h"

#include <stdlib.h>

#include "base/err.h"
#include "tests/common/nano.h"
#include "workers/models/asr_model.h"
#include "workers/stages/transcribe/outcome/coverage.h"
#include "workers/stages/transcribe/outcome/outcome.h"
#include "workers/stages/transcribe/lane.h"

#define EN 642
#define SECONDS(x) ((int64_t)((x)*16000))

static struct transcribe_params params;
static struct asr_model model = {.window_samples = 480000, .language = "en"};
static struct draft drafts[4];
static struct word words[8];

static void draft(uint32_t i, double from, double to, uint32_t first, uint32_t n)
{
    static char texts[4][8] = {"one", "two", "three", "four"};

    drafts[i] = (struct draft){.span = {SECONDS(from), SECONDS(to), 0, 0},
                               .text = texts[i],
                               .first_word = first,
                               .words = n,
                               .start = (float)from,
                               .end = (float)to};
    if (n) {
        drafts[i].start = words[first].start;
        drafts[i].end = words[first + n - 1].end;
    }
}

static void word(uint32_t i, double from, double to)
{
    static char texts[8][8];

    snprintf(texts[i], sizeof(texts[i]), " w%u", i);
    words[i] = (struct word){
        .text = texts[i], .start = (float)from, .end = (float)to, .probability = 0.9f};
}

static void yield(uint32_t n, uint32_t word_count, struct yield *ret)
{
    struct lane_policy policy = {.params = &params, .model = &model};
    struct lane lane = {.policy = &policy};
    struct lane_window w = {.lane = &lane, .at = SECONDS(100), .samples = SECONDS(30)};
    struct decoding_result r = {.language = EN, .attempts = 1, .avg_logprob = -0.1f};
    struct outcome o = {
        .drafts = drafts, .count = n, .words = {.words = words, .count = word_count}};
    struct err e;
    int64_t last = 100000;

    *ret = (struct yield){0};
    assert_ok(outcome_yield(&o, &w, &r, ret, &e), e);
    assert_int_equal(ret->count, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct result_segment *s = &ret->segments[i];

        assert_true(s->start_ms >= last && s->end_ms >= s->start_ms && s->end_ms <= 130000);
        last = s->start_ms;
        for (uint32_t k = 0; k < s->word_count; k++) {
            assert_true(s->words[k].end_ms >= s->words[k].start_ms);
            assert_true(k == 0 || s->words[k].start_ms >= s->words[k - 1].start_ms);
        }
    }
}

TEST(test_plain)
{
    struct yield y;

    draft(0, 0, 2.5, 0, 0);
    draft(1, 2.5, 30, 0, 0);
    yield(2, 0, &y);
    assert_int_equal(y.segments[0].start_ms, 100000);
    assert_int_equal(y.segments[0].end_ms, 102500);
    assert_int_equal(y.segments[1].start_ms, 102500);
    assert_int_equal(y.segments[1].end_ms, 130000);
    yield_free(&y);
}

/* The words of the first one went on for longer than its timestamps; the next ones have none. */
TEST(test_without_words)
{
    struct yield y;

    word(0, 0.5, 1);
    word(1, 6, 6.5);
    word(2, 7, 7.5);
    draft(0, 0, 2, 0, 2);
    draft(1, 2, 4, 0, 0);
    draft(2, 3, 5, 0, 0);
    draft(3, 5, 8, 2, 1);
    yield(4, 3, &y);
    assert_int_equal(y.segments[0].start_ms, 100500);
    assert_int_equal(y.segments[0].end_ms, 106500);
    assert_int_equal(y.segments[1].start_ms, 106000);
    assert_int_equal(y.segments[1].end_ms, 106000);
    assert_int_equal(y.segments[2].start_ms, 106000);
    assert_int_equal(y.segments[3].start_ms, 107000);
    yield_free(&y);
}

/* words_fit has found the outer words too far off: the segment has its own time. */
TEST(test_own_time)
{
    struct yield y;

    word(0, 4.7, 5.2);
    word(1, 6, 7.3);
    draft(0, 5, 7, 0, 2);
    drafts[0].start = 5;
    drafts[0].end = 7;
    yield(1, 2, &y);
    assert_int_equal(y.segments[0].start_ms, 105000);
    assert_int_equal(y.segments[0].end_ms, 107000);
    assert_int_equal(y.segments[0].words[0].start_ms, 104700);
    yield_free(&y);
    drafts[0].start = words[0].start;
    drafts[0].end = words[1].end;
    yield(1, 2, &y);
    assert_int_equal(y.segments[0].start_ms, 104700);
    assert_int_equal(y.segments[0].end_ms, 107300);
    yield_free(&y);
    drafts[0].end = 40; /* nothing beyond the window */
    yield(1, 2, &y);
    assert_int_equal(y.segments[0].end_ms, 130000);
    yield_free(&y);
}

/* How sure each segment is, is its own: of the tokens that are read, not of its times or of its
 * neighbour's in the window. */
TEST(test_sureness)
{
    const int32_t time = vocabulary_ids(nano)->timestamp_begin;
    const int32_t tokens[] = {time, 300, 301, time + 50, time + 50, 302, time + 99};
    const float logprobs[] = {-8, -0.25f, -0.75f, -8, -8, -2, -8};
    struct lane_policy policy = {.params = &params, .model = &model};
    struct lane lane = {.policy = &policy};
    struct lane_window w = {.lane = &lane, .samples = SECONDS(30)};
    struct decoding_result r = {.language = EN,
                                .tokens = tokens,
                                .logprobs = logprobs,
                                .count = 7,
                                .attempts = 1,
                                .avg_logprob = -1.2f};
    struct outcome o = {.drafts = drafts, .count = 2};
    struct yield y = {0};
    struct err e;

    draft(0, 0, 1, 0, 0);
    draft(1, 1, 1.98, 0, 0);
    drafts[0].span.count = 4;
    drafts[1].span.first = 4;
    drafts[1].span.count = 3;
    assert_ok(outcome_yield(&o, &w, &r, &y, &e), e);
    assert_true(y.segments[0].avg_logprob == -0.5f && y.segments[1].avg_logprob == -2);
    /* What is to be thought of them is still said by the window, which was judged as one. */
    assert_string_equal(y.segments[0].reason, "too unlikely");
    yield_free(&y);
}

/* ---- pauses that voice activity left out: [100, 110) [160, 166) and [166.1, 170) s of the
 * recording, then [300, 302); in the window they begin at 0, 10, 16 and 19.9 s. */

static struct pack packed;
static float voice[1000];

static void pack(double from, double to)
{
    struct speech_span span = {SECONDS(from), SECONDS(to), 0.9f};
    struct err e;

    assert_ok(pack_add(&packed, &span, &e), e);
}

static void yield_packed(uint32_t n, uint32_t word_count, const struct decoding_result *r,
                         struct yield *ret)
{
    struct lane_policy policy = {.params = &params, .model = &model, .packed = true};
    struct lane lane = {.policy = &policy};
    struct lane_window w = {.lane = &lane, .at = SECONDS(100), .voice = voice};
    struct outcome o = {
        .drafts = drafts, .count = n, .words = {.words = words, .count = word_count}};
    struct err e;

    packed = (struct pack){0};
    pack(100, 110);
    pack(160, 166);
    pack(166.1, 170);
    pack(300, 302);
    w.pack = packed;
    w.samples = packed.samples;
    *ret = (struct yield){0};
    assert_ok(outcome_yield(&o, &w, r, ret, &e), e);
    pack_free(&packed);
    for (uint32_t i = 0; i < ret->count; i++) {
        assert_true(ret->segments[i].start_ms <= ret->segments[i].end_ms);
        assert_true(i == 0 || ret->segments[i].start_ms >= ret->segments[i - 1].start_ms);
    }
}

static const struct decoding_result good = {.language = EN, .attempts = 1, .avg_logprob = -0.1f};

static void speak(double from, double to, float prob)
{
    for (size_t i = 0; i < sizeof(voice) / sizeof(voice[0]); i++)
        if ((double)i * 0.032 >= from && (double)i * 0.032 < to)
            voice[i] = prob;
}

static void is_segment(const struct yield *y, uint32_t i, int64_t start_ms, int64_t end_ms,
                       const char *text)
{
    assert_true(i < y->count);
    assert_string_equal(y->segments[i].text, text);
    assert_int_equal(y->segments[i].start_ms, start_ms);
    assert_int_equal(y->segments[i].end_ms, end_ms);
}

/* Parted where the words say; a tenth of a second left out is no pause. */
TEST(test_pauses_by_words)
{
    char text[] = "w0 w1 w2 w3 w4, said slowly";
    struct yield y;

    speak(0, 32, 1);
    word(0, 8, 8.5);
    word(1, 9, 10.2); /* most of it before the pause */
    word(2, 10.4, 11);
    word(3, 15.5, 16.5);
    word(4, 20.2, 20.6);
    draft(0, 8, 20.8, 0, 5);
    drafts[0].text = text;
    yield_packed(1, 5, &good, &y);
    assert_int_equal(y.count, 3);
    is_segment(&y, 0, 108000, 110000, "w0 w1");
    is_segment(&y, 1, 160400, 166600, "w2 w3");
    is_segment(&y, 2, 300300, 300700, "w4");
    assert_int_equal(y.segments[0].word_count, 2);
    assert_int_equal(y.segments[1].word_count, 2);
    assert_string_equal(y.segments[1].words[0].text, " w2");
    assert_string_equal(y.segments[2].words[0].text, " w4");
    assert_string_equal(y.segments[0].reason, ""); /* not slow: nobody heard the pause */
    yield_free(&y);

    word(4, 20.2, 20.2); /* without a duration: up to where the segment ends */
    draft(0, 8, 20.8, 0, 5);
    drafts[0].text = text;
    yield_packed(1, 5, &good, &y);
    is_segment(&y, 2, 300300, 300900, "w4");
    yield_free(&y);
}

/* Its words are on one side alone, and its own time on both. */
TEST(test_pauses_own_time)
{
    struct yield y;

    speak(0, 32, 1);
    word(0, 10.5, 11);
    word(1, 11, 12);
    draft(0, 9, 20.5, 0, 2);
    drafts[0].start = 9;
    drafts[0].end = 20.5f;
    yield_packed(1, 2, &good, &y);
    assert_int_equal(y.count, 1);
    is_segment(&y, 0, 160000, 170000, "one");
    yield_free(&y);
}

/* By how long somebody speaks on either side, at the end of a sentence where one is near. */
TEST(test_pauses_by_voice)
{
    char text[] = "the first one. the second one is longer than that";
    struct yield y;

    speak(0, 32, 0);
    speak(8, 9.5, 1);
    speak(10.3, 13.5, 1);
    draft(0, 8, 14, 0, 0);
    drafts[0].text = text;
    draft(1, 14, 15, 0, 0);
    yield_packed(2, 0, &good, &y);
    assert_int_equal(y.count, 3);
    is_segment(&y, 0, 108000, 110000, "the first one.");
    is_segment(&y, 1, 160000, 164000, "the second one is longer than that");
    is_segment(&y, 2, 164000, 165000, "two");
    assert_true(y.segments[0].speech_prob > 0.6f && y.segments[0].speech_prob < 0.9f);
    yield_free(&y);

    strcpy(text, "\u521d\u3081\u307e\u3057\u3066\u4eca\u65e5\u306f"); /* no blank to cut at */
    speak(0, 32, 1);
    draft(0, 9, 11, 0, 0);
    drafts[0].text = text;
    yield_packed(1, 0, &good, &y);
    assert_int_equal(y.count, 2);
    is_segment(&y, 0, 109000, 110000, "\u521d\u3081\u307e\u3057");
    is_segment(&y, 1, 160000, 161000, "\u3066\u4eca\u65e5\u306f");
    yield_free(&y);

    strcpy(text, "alone"); /* nobody speaks but behind the pause, or the text cannot be cut */
    speak(0, 10, 0);
    yield_packed(1, 0, &good, &y);
    assert_int_equal(y.count, 1);
    is_segment(&y, 0, 160000, 161000, "alone");
    yield_free(&y);
    speak(0, 32, 0);
    yield_packed(1, 0, &good, &y);
    assert_int_equal(y.count, 1);
    assert_true(y.segments[0].end_ms - y.segments[0].start_ms <= 1000);
    yield_free(&y);
}

/* What is left out is kept as it was judged. */
TEST(test_pauses_dropped)
{
    struct decoding_result bad = good;
    struct yield y;

    bad.no_speech_prob = 0.9f;
    speak(0, 32, 0.01f);
    draft(0, 9, 11, 0, 0);
    yield_packed(1, 0, &bad, &y);
    assert_int_equal(y.count, 1);
    assert_true(y.segments[0].dropped);
    is_segment(&y, 0, 109000, 161000, "one");
    yield_free(&y);
}

/* ---- speech and text */

/* The text of a window that is silent is not believed, whatever the mean of all its tokens is. */
TEST(test_silent)
{
    const struct decoding_result silent = {.language = EN,
                                           .attempts = 1,
                                           .silent = true,
                                           .no_speech_prob = 0.7f,
                                           .avg_logprob = -0.5f,
                                           .text_logprob = -1.5f};
    struct yield y;

    memset(voice, 0, sizeof(voice));
    speak(0, 22, 0.9f);
    draft(0, 0, 9, 0, 0);
    yield_packed(1, 0, &silent, &y);
    assert_int_equal(y.count, 1);
    is_segment(&y, 0, 100000, 109000, "one");
    assert_true(y.segments[0].dropped);
    assert_non_null(strstr(y.segments[0].reason, "no speech"));
    assert_non_null(strstr(y.segments[0].reason, "too unlikely"));
    yield_free(&y);
}

static struct coverage coverage; /* of the packed window */

/* A window of the packed one's audio from `offset` on has a text, dropped or not. */
static void cover(int64_t offset, double from, double to, bool dropped)
{
    struct lane_window w = {.offset = offset, .samples = SECONDS(21.9) - offset};
    struct outcome o = {.drafts = drafts, .count = 2};

    draft(0, from, to, 0, 0);
    drafts[0].dropped = dropped;
    draft(1, 0, 21.9, 0, 0);
    drafts[1].text = NULL; /* nothing was read here */
    outcome_cover(&o, &w, &coverage);
}

static void missing(uint32_t least, struct yield *ret)
{
    struct lane_policy policy = {.params = &params, .model = &model, .packed = true};
    struct lane lane = {.policy = &policy};
    struct lane_window w = {
        .lane = &lane, .at = SECONDS(100), .voice = voice, .coverage = &coverage};
    struct err e;

    packed = (struct pack){0};
    pack(100, 110);
    pack(160, 166);
    pack(166.1, 170);
    pack(300, 302);
    w.pack = packed;
    w.samples = packed.samples;
    *ret = (struct yield){0};
    assert_ok(outcome_missing(&w, least, ret, &e), e);
    pack_free(&packed);
    for (uint32_t i = 0; i < ret->count; i++) {
        assert_true(ret->segments[i].dropped);
        assert_string_equal(ret->segments[i].reason, RESULT_MISSING);
        assert_string_equal(ret->segments[i].language, "");
        assert_int_equal(ret->segments[i].word_count, 0);
        assert_true(ret->segments[i].speech_prob > 0.8f);
    }
}

/* What no text covers is told on each side of a pause; a tenth of a second left out is none. */
TEST(test_missing)
{
    struct yield y;

    memset(voice, 0, sizeof(voice));
    speak(0, 22, 0.9f);
    coverage_begin(&coverage, voice, SECONDS(21.9), 0.5f);
    missing(1, &y);
    assert_int_equal(y.count, 3);
    is_segment(&y, 0, 100000, 110000, "");
    is_segment(&y, 1, 160000, 170000, "");
    is_segment(&y, 2, 300000, 302000, "");
    yield_free(&y);
    cover(0, 0, 4, false);
    missing(1, &y);
    assert_int_equal(y.count, 3);
    is_segment(&y, 0, 104224, 110000, "");
    yield_free(&y);
    /* A piece: its second 1 is the window's 11th. */
    cover(SECONDS(10), 1, 11.9, true);
    missing(1, &y);
    assert_int_equal(y.count, 2);
    is_segment(&y, 0, 104224, 110000, "");
    assert_int_equal(y.segments[1].start_ms, 160000);
    assert_true(llabs(y.segments[1].end_ms - 160800) <= 32);
    yield_free(&y);
    missing(1000, &y);
    assert_int_equal(y.count, 0);
    yield_free(&y);
}

/* By their begin; what began together stays in order. */
TEST(test_sorted)
{
    static const struct {
        int64_t start_ms;
        const char *text;
    } all[] = {{5, "f"}, {1, "b"}, {3, "c"}, {3, "d"}, {0, "a"}, {4, "e"}, {5, "g"}};
    struct yield y = {0};
    struct err e;

    yield_sort(&y);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct result_segment s = {.start_ms = all[i].start_ms,
                                   .end_ms = all[i].start_ms,
                                   .text = all[i].text,
                                   .language = "",
                                   .reason = ""};

        assert_ok(yield_add(&y, &s, &e), e);
    }
    yield_sort(&y);
    for (uint32_t i = 0; i < y.count; i++)
        assert_int_equal(y.segments[i].text[0], 'a' + (int)i);
    yield_free(&y);
}

static int open_all(void **state)
{
    transcribe_params_default(&params);
    int rc = nano_open(state);

    model.vocab = nano;
    return rc;
}

TEST_MAIN(open_all, nano_close)
