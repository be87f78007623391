/* A window's segments in the recording: their times ascend whatever the window's own say. */
#include "tests/common/test.h"

#include <stdlib.h>

#include "base/err.h"
#include "tests/common/nano.h"
#include "workers/stages/transcribe/outcome/outcome.h"
#include "workers/stages/transcribe/yield.h"

#define EN 642
#define SECONDS(x) ((int64_t)((x)*16000))

static struct transcribe_params params;
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
    struct lane_policy policy = {.params = &params, .vocab = nano};
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
    struct lane_policy policy = {.params = &params, .vocab = nano};
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

static int open_all(void **state)
{
    transcribe_params_default(&params);
    return nano_open(state);
}

TEST_MAIN(open_all, nano_close)
