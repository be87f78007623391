/* From tokens to segments and the next window's begin. */
#include "tests/common/test.h"

#include "workers/stages/transcribe/decode/spans.h"
#include "base/number.h"
#include "workers/text/tokenizer/vocabulary.h"

#define TS 1000
#define T(seconds) (TS + (int32_t)((seconds)*50 + 0.5))
#define LEN(...) (sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static const struct vocabulary_ids times = {.timestamp_begin = TS, .timestamp_ms = 20};

static const char *shown(const struct span *s, size_t n, const int32_t *tokens)
{
    static char out[1024];
    size_t at = 0;

    out[0] = 0;
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(out + at, sizeof(out) - at, "[%g-%g:", (double)s[i].start / 16000,
                               (double)s[i].end / 16000);
        for (size_t k = 0; k < s[i].count; k++)
            if (tokens[s[i].first + k] < TS)
                at += (size_t)snprintf(out + at, sizeof(out) - at, " %d", tokens[s[i].first + k]);
        at += (size_t)snprintf(out + at, sizeof(out) - at, "]");
    }
    return out;
}

static void splits(double window, bool whole, const char *spans, double next, const int32_t *tokens,
                   size_t n)
{
    struct span out[64];
    struct split split = {99, -1, false};

    spans_split(tokens, n, &times, (int64_t)(window * 16000), whole, out, &split);
    assert_string_equal(shown(out, split.count, tokens), spans);
    assert_int_equal(split.advance, (int64_t)(next * 16000));
}

#define SPLITS(window, spans, next, ...) \
    splits(window, false, spans, next, (const int32_t[]){__VA_ARGS__}, LEN(__VA_ARGS__))
#define SPLITS_WHOLE(window, spans, ...) \
    splits(window, true, spans, window, (const int32_t[]){__VA_ARGS__}, LEN(__VA_ARGS__))

TEST(test_table)
{
    /* Pairs, then a single timestamp: the window is done. */
    SPLITS(30, "[0-2: 1 2][2.5-4: 3]", 30, T(0), 1, 2, T(2), T(2.5), 3, T(4));
    /* Pairs to the end of the tokens: on from the last end. */
    SPLITS(30, "[0-2: 1][2-29: 2]", 29, T(0), 1, T(2), T(2), 2, T(29), T(29));
    /* An unfinished segment: heard again from the end of the one before. */
    SPLITS(30, "[1-2: 1]", 2, T(1), 1, T(2), T(2.5), 2, 3);
    /* One segment with and without end. */
    SPLITS(30, "[0.46-8.7: 1 2]", 30, T(0.46), 1, 2, T(8.7));
    SPLITS(20, "[0.46-20: 1 2]", 20, T(0.46), 1, 2);
    SPLITS(20, "[0-20: 1 2]", 20, 1, 2);
    SPLITS(20, "[0-3: 1 2]", 20, 1, 2, T(3));
    /* Silence: a start and nothing else; its span has no words. */
    SPLITS(12, "[0.32-12:]", 12, T(0.32));
    /* A pair at the very front says only where to go on. */
    SPLITS(30, "", 5, T(5), T(5), 1);
}

TEST(test_padding)
{
    SPLITS(3, "[0-3: 1]", 3, T(0), 1, T(7));
    SPLITS(3, "[0-2: 1][2.5-3: 2]", 3, T(0), 1, T(2), T(2.5), 2, T(9), T(9));
    SPLITS(3, "[0-3: 1 2]", 3, T(0), 1, T(2), T(5), 2, T(9));
    SPLITS(3, "[0-3: 1 2 3]", 3, T(0), 1, T(2), T(5), 2, T(9), T(9), 3, T(10), T(10));
    SPLITS(3, "", 3, T(5), 1, T(6));
    SPLITS(3, "", 3, T(5), 1, T(6), T(6), 2, T(8), T(8));
    SPLITS(3, "", 3, T(5), 1);
}

TEST(test_no_standstill)
{
    SPLITS(30, "", 30, T(0), T(0));
    SPLITS(30, "", 30, T(0), T(0), 1, 2);
    splits(30, false, "", 30, NULL, 0);
    splits(30, true, "", 30, NULL, 0);
}

/* No other window hears the end again. */
TEST(test_whole)
{
    SPLITS_WHOLE(30, "[0-2: 1 2][2.5-4: 3]", T(0), 1, 2, T(2), T(2.5), 3, T(4));
    SPLITS_WHOLE(30, "[0-2: 1][2-29: 2][29-30:]", T(0), 1, T(2), T(2), 2, T(29), T(29));
    SPLITS_WHOLE(30, "[1-2: 1][2.5-30: 2 3]", T(1), 1, T(2), T(2.5), 2, 3);
    SPLITS_WHOLE(30, "[5-30: 1]", T(5), T(5), 1);
    SPLITS_WHOLE(3, "[0-3: 1 2]", T(0), 1, T(2), T(5), 2);
    SPLITS_WHOLE(20, "[0.46-20: 1 2]", T(0.46), 1, 2);
}

/* Any tokens: spans within the window, in order of tokens, and a step forward. */
TEST(test_random)
{
    uint64_t at = 0;

    for (int round = 0; round < 20000; round++) {
        int32_t tokens[40];
        size_t n = (size_t)(number_uniform(5, at++) * 40), last = 0;
        int64_t window = 1 + (int64_t)(number_uniform(5, at++) * 480000);
        bool whole = round % 2;
        struct split split;
        struct span out[40];

        for (size_t i = 0; i < n; i++)
            tokens[i] = number_uniform(5, at++) < 0.5
                            ? (int32_t)(number_uniform(5, at++) * 100)
                            : TS + (int32_t)(number_uniform(5, at++) * 1501);
        spans_split(tokens, n, &times, window, whole, out, &split);
        assert_true(split.count <= n);
        assert_true(split.advance >= 1 && split.advance <= window);
        assert_true(!whole || split.advance == window);
        for (size_t i = 0; i < split.count; i++) {
            assert_true(out[i].start >= 0 && out[i].start < out[i].end && out[i].end <= window);
            assert_true(out[i].count > 0 && out[i].first >= last);
            last = out[i].first + out[i].count;
            assert_true(last <= n);
        }
    }
}

TEST_MAIN(NULL, NULL)
