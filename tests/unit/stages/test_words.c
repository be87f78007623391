/* Words of tokens, their times, and what segments make of them, by hand; tests/parity/words holds
 * them against openai-whisper. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/number.h"
#include "gpu/backend.h"
#include "tests/common/nomem.h"
#include "workers/stages/transcribe/outcome/words.h"

#define HALF -0.6931471805599453 /* ln 1/2 */

/* ---- a vocabulary of a few tokens; ids in order */

enum { DA, GO, S, STOP, QUOTE, BLANK, COMMA, PAREN, C1, C2, C3, DOTS, CONTROL, EOT };

#define ADDED(content, id) "{\"id\":" #id ",\"content\":\"" content "\"}"

static struct vocabulary *vocabulary(const char *generation)
{
    /* Ġ is a blank; ä ½ ł are the letters of the bytes E4 BD A0 (你), ĉ of a tab. */
    static const char tokenizer[] = "{\"added_tokens\":[" ADDED("<|endoftext|>", 13) "," ADDED(
        "<|startoftranscript|>",
        14) "," ADDED("<|en|>",
                      15) "," ADDED("<|transcribe|>",
                                    16) "," ADDED("<|notimestamps|>",
                                                  17) "],\"model\":{\"vocab\":{\"\\u0120da\":0,"
                                                      "\"\\u0120go\":1,\"s\":2,\".\":3,"
                                                      "\"\\u0120\\\"\":4,\"\\u0120\":5,\",\":6,"
                                                      "\"\\u0120(\":7,\"\\u00e4\":8,\"\\u00bd\":9,"
                                                      "\"\\u0142\":10,\"...\":11,\"\\u0109\":12},"
                                                      "\"merges\":[]}}";
    struct vocabulary_source s = {.tokenizer = tokenizer,
                                  .tokenizer_len = sizeof(tokenizer) - 1,
                                  .generation = generation,
                                  .generation_len = generation ? strlen(generation) : 0};
    struct vocabulary *v = NULL;
    struct err e;

    assert_ok(vocabulary_parse(&s, &v, &e), e);
    return v;
}

static struct vocabulary *vocab;

/* "[text first+count]..." */
static const char *shown(const struct words *w)
{
    static char out[2048];
    size_t at = 0;

    out[0] = 0;
    for (uint32_t i = 0; i < w->count; i++)
        at += (size_t)snprintf(out + at, sizeof(out) - at, "[%s %u+%u]", w->words[i].text,
                               w->words[i].first, w->words[i].count);
    return out;
}

#define LEN(...) (sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))
#define SPLITS(language, split, merged, ...) \
    splits(language, split, merged, (const int32_t[]){__VA_ARGS__}, LEN(__VA_ARGS__))

static void splits(const char *language, const char *split, const char *merged,
                   const int32_t *tokens, size_t n)
{
    struct words w;
    struct err e;

    assert_ok(words_split(vocab, language, tokens, (uint32_t)n, &w, &e), e);
    assert_string_equal(shown(&w), split);
    assert_ok(words_merge_punctuation(&w, &e), e);
    assert_string_equal(shown(&w), merged);
    words_free(&w);
    assert_null(w.words);
}

TEST(test_split)
{
    struct words w;
    struct err e;

    SPLITS("en", "[ da 0+1][ gos 1+2][. 3+1]", "[ da 0+1][ gos. 1+3]", DA, GO, S, STOP);
    SPLITS("en", "[s 0+1]", "[s 0+1]", S);
    SPLITS("en", "[ \" 0+1][ da 1+1][, 2+1]", "[ \" da, 0+3]", QUOTE, DA, COMMA);
    SPLITS("en", "[ \" 0+1][ ( 1+1][ da 2+1]", "[ \" ( da 0+3]", QUOTE, PAREN, DA);
    /* More than the list has in one piece is part of the word before. */
    SPLITS("en", "[ da... 0+2]", "[ da... 0+2]", DA, DOTS);
    SPLITS("en", "[. 0+1][, 1+1]", "[., 0+2]", STOP, COMMA);
    /* What opens and has nothing behind it stays. */
    SPLITS("en", "[ da 0+1][ ( 1+1]", "[ da 0+1][ ( 1+1]", DA, PAREN);
    /* A blank alone goes to the word behind it, and nothing is appended to a blank. */
    SPLITS("en", "[  0+1][ da 1+1]", "[  da 0+2]", BLANK, DA);
    SPLITS("en", "[ da 0+1][  1+1][. 2+1]", "[ da 0+1][ . 1+2]", DA, BLANK, STOP);
    SPLITS("en", "[\t 0+1]", "[\t 0+1]", CONTROL);
    /* A character of three tokens. */
    SPLITS("en", "[ da你 0+4]", "[ da你 0+4]", DA, C1, C2, C3);
    SPLITS("zh", "[ da 0+1][你 1+3][你 4+3][. 7+1]", "[ da 0+1][你 1+3][你. 4+4]", DA, C1, C2, C3,
           C1, C2, C3, STOP);
    SPLITS("yue", "[你 0+3][s 3+1]", "[你 0+3][s 3+1]", C1, C2, C3, S);
    /* Cut at the end, at the begin, in the middle: nothing is lost. */
    SPLITS("zh", "[你 0+3][\uFFFD 3+2]", "[你 0+3][\uFFFD 3+2]", C1, C2, C3, C1, C2);
    SPLITS("zh", "[\uFFFD\uFFFD 0+2][s 2+1]", "[\uFFFD\uFFFD 0+2][s 2+1]", C2, C3, S);
    SPLITS("zh", "[\uFFFD 0+1][\uFFFD 1+2][s 3+1]", "[\uFFFD 0+1][\uFFFD 1+2][s 3+1]", C1, C1, C2,
           S);
    /* Ids that are no text (hostile: none should come) have none. */
    SPLITS("zh", "[ 0+1][ da 1+1][ 2+1]", "[ 0+1][ da 1+2]", EOT, DA, -5);
    assert_ok(words_split(vocab, "en", NULL, 0, &w, &e), e);
    assert_int_equal(w.count, 0);
    assert_ok(words_merge_punctuation(&w, &e), e);
    words_free(&w);
}

/* Any tokens: words without gaps, whose texts joined are the whole's. */
TEST(test_split_random)
{
    static const char *const languages[] = {"en", "zh"};
    uint64_t at = 0;

    for (int round = 0; round < 5000; round++) {
        int32_t tokens[24];
        uint32_t n = (uint32_t)(number_uniform(9, at++) * 24), next = 0;
        char joined[512] = "", *whole;
        struct words w;
        struct err e;

        for (uint32_t i = 0; i < n; i++)
            tokens[i] = (int32_t)(number_uniform(9, at++) * EOT);
        assert_ok(words_split(vocab, languages[round % 2], tokens, n, &w, &e), e);
        if (round % 4 > 1)
            assert_ok(words_merge_punctuation(&w, &e), e);
        for (uint32_t i = 0; i < w.count; i++) {
            assert_int_equal(w.words[i].first, next);
            assert_true(w.words[i].count > 0);
            next += w.words[i].count;
            strcat(joined, w.words[i].text);
        }
        assert_int_equal(next, n);
        assert_ok(vocabulary_decode(vocab, tokens, n, &whole, &e), e);
        assert_string_equal(joined, whole);
        free(whole);
        words_free(&w);
    }
}

/* ---- paths */

static struct backend *be;

/* The operation, by costs. */
static void find_path(const float *cost, uint32_t n, uint32_t m, uint32_t *ret)
{
    const struct align_window window = {n, m, 0, n};
    float *value = malloc((size_t)n * m * sizeof(*value)),
          *work = malloc((size_t)n * m * sizeof(*work));
    struct err e;

    assert_true(value && work);
    for (size_t i = 0; i < (size_t)n * m; i++)
        value[i] = -cost[i];
    assert_ok(be->ops->warp(be, tensor_of(DTYPE_F32, value, n, m), &window, 1, NULL,
                            tensor_of(DTYPE_F32, work, n, m), ret, &e),
              e);
    free(value);
    free(work);
}

static void path(uint32_t n, uint32_t m, const float *cost, const uint32_t *want)
{
    uint32_t have[8];

    find_path(cost, n, m, have);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(have[i], want[i]);
}

TEST(test_dtw)
{
    static const float two[] = {0, 0, 1, 1, 1, 1, 0, 0}, nan[] = {NAN, NAN, NAN, NAN, NAN, NAN},
                       far[] = {3e38f, 3e38f, 3e38f, 3e38f, 3e38f, 3e38f},
                       inf[] = {-INFINITY, INFINITY, -INFINITY, INFINITY, NAN, INFINITY};
    uint32_t have[3];

    path(1, 1, two, (const uint32_t[]){0});
    path(1, 4, two, (const uint32_t[]){0});
    path(4, 1, two, (const uint32_t[]){0, 0, 0, 0});
    path(2, 4, two, (const uint32_t[]){0, 2});
    /* No numbers: any path, within the matrix. */
    for (int i = 0; i < 3; i++) {
        const float *bad = i == 0 ? nan : i == 1 ? far : inf;

        find_path(bad, 3, 2, have);
        assert_true(have[0] == 0 && have[1] <= have[2] && have[2] < 2);
        find_path(bad, 2, 3, have);
        assert_true(have[0] == 0 && have[1] < 3);
    }
}

/* Against all paths there are. */
static double cheapest(const float *cost, uint32_t n, uint32_t m, uint32_t i, uint32_t j)
{
    double best = INFINITY;

    if (i == n - 1 && j == m - 1)
        return (double)cost[i * m + j];
    if (i + 1 < n)
        best = fmin(best, cheapest(cost, n, m, i + 1, j));
    if (j + 1 < m)
        best = fmin(best, cheapest(cost, n, m, i, j + 1));
    if (i + 1 < n && j + 1 < m)
        best = fmin(best, cheapest(cost, n, m, i + 1, j + 1));
    return best + (double)cost[i * m + j];
}

/* The cheapest path that enters each row where `first` says: through all columns of a row, from
 * its first to the next row's first or the one before. */
static double cost_of(const float *cost, uint32_t n, uint32_t m, const uint32_t *first)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t last = i + 1 < n ? first[i + 1] : m - 1;

        /* The step to the next row is diagonal or straight up, whichever is cheaper. */
        for (uint32_t j = first[i]; j < last; j++)
            sum += (double)cost[i * m + j];
        if (i + 1 == n || first[i + 1] == first[i])
            sum += (double)cost[i * m + last];
        else
            sum += fmin(0.0, (double)cost[i * m + last]);
    }
    return sum;
}

TEST(test_dtw_best)
{
    uint64_t at = 0;

    for (int round = 0; round < 2000; round++) {
        uint32_t n = 1 + (uint32_t)(number_uniform(3, at++) * 5), first[5];
        uint32_t m = 1 + (uint32_t)(number_uniform(3, at++) * 6);
        float cost[30];

        for (uint32_t i = 0; i < n * m; i++)
            cost[i] = (float)(number_uniform(3, at++) - 0.5);
        find_path(cost, n, m, first);
        assert_true(fabs(cost_of(cost, n, m, first) - cheapest(cost, n, m, 0, 0)) < 1e-5);
    }
}

/* ---- all of it */

/* Each token begins at a frame, and the end at the last one of begins. */
static void align(const int32_t *tokens, uint32_t n, const uint32_t *begins, struct words *ret)
{
    double logprob[16] = {0};
    struct err e;

    for (uint32_t i = 0; i < n; i++)
        logprob[i] = i % 2 ? HALF : 0.0;
    assert_ok(words_align(vocab, "en", tokens, n, begins, logprob, 50, ret, &e), e);
}

static void word_is(const struct word *w, float start, float end, float probability)
{
    assert_true(fabsf(w->start - start) < 1e-4f);
    assert_true(fabsf(w->end - end) < 1e-4f);
    assert_true(fabsf(w->probability - probability) < 1e-4f);
}

TEST(test_align)
{
    static const int32_t tokens[] = {DA, GO, S, DA, GO};
    static const uint32_t begins[] = {0, 10, 20, 25, 35, 50};
    struct words w;

    align(tokens, 5, begins, &w);
    assert_string_equal(shown(&w), "[ da 0+1][ gos 1+2][ da 3+1][ go 4+1]");
    word_is(&w.words[0], 0.0f, 0.2f, 1.0f);
    word_is(&w.words[1], 0.2f, 0.5f, 0.75f);
    word_is(&w.words[2], 0.5f, 0.7f, 0.5f);
    word_is(&w.words[3], 0.7f, 1.0f, 1.0f);
    assert_true(fabsf(w.median - 0.25f) < 1e-4f);
    words_free(&w);
}

/* The full stop that lasts through a pause, and the word behind it, are cut to two medians. */
TEST(test_align_sentences)
{
    static const int32_t tokens[] = {DA, GO, STOP, DA, GO, DA};
    static const uint32_t stop_long[] = {0, 5, 10, 50, 55, 60, 65};
    static const uint32_t word_long[] = {0, 5, 10, 15, 60, 65, 70};
    struct words w;

    align(tokens, 6, stop_long, &w);
    assert_string_equal(shown(&w), "[ da 0+1][ go. 1+2][ da 3+1][ go 4+1][ da 5+1]");
    word_is(&w.words[1], 0.1f, 0.2f, 0.5f); /* as before the full stop was merged */
    word_is(&w.words[2], 1.0f, 1.1f, 0.5f);
    words_free(&w);
    align(tokens, 6, word_long, &w);
    word_is(&w.words[2], 1.0f, 1.2f, 0.5f);
    words_free(&w);
}

TEST(test_align_nothing)
{
    static const uint32_t begins[] = {0};
    struct words w;

    align(NULL, 0, begins, &w);
    assert_int_equal(w.count, 0);
    assert_true(w.median == 0.0f);
    words_free(&w);
}

/* More tokens than frames, and the longest window there is. */
TEST(test_align_bounds)
{
    enum { N = 440 };
    static int32_t tokens[N];
    static double logprob[N];
    static uint32_t first[N + 1];
    static const uint32_t widths[] = {1, 2, 1500};

    for (uint32_t i = 0; i < N; i++)
        tokens[i] = (int32_t)(number_uniform(4, i) * EOT);
    for (size_t k = 0; k < 3; k++) {
        uint32_t m = widths[k];
        float *cost = malloc((N + 1) * m * sizeof(*cost)), last = 0.0f;
        struct words w;
        struct err e;

        assert_non_null(cost);
        for (uint32_t i = 0; i < (N + 1) * m; i++)
            cost[i] = -(float)number_uniform(5, i);
        find_path(cost, N + 1, m, first);
        assert_ok(words_align(vocab, "en", tokens, N, first, logprob, 50, &w, &e), e);
        for (uint32_t i = 0; i < w.count; i++) {
            assert_true(w.words[i].start >= last && w.words[i].end >= w.words[i].start);
            assert_true(w.words[i].end <= (float)m / 50.0f);
            last = w.words[i].start;
        }
        words_free(&w);
        free(cost);
    }
}

/* ---- segments */

static void fit(struct word *w, uint32_t n, double last_speech, double window, float *start,
                float *end)
{
    words_fit(w, n, 0.2f, last_speech, window, start, end);
}

TEST(test_fit)
{
    float start, end;

    { /* near enough: the words' times */
        struct word w[] = {{.start = 1.0f, .end = 1.3f}, {.start = 1.3f, .end = 1.6f}};

        start = 1.2f, end = 1.9f;
        fit(w, 2, 0.9, 0.0, &start, &end);
        assert_true(start == 1.0f && end == 1.6f);
        word_is(&w[0], 1.0f, 1.3f, 0);
    }
    { /* far away: the segment's */
        struct word w[] = {{.start = 1.0f, .end = 1.9f}, {.start = 1.9f, .end = 3.0f}};

        start = 1.8f, end = 2.2f;
        fit(w, 2, 1.8, 0.0, &start, &end);
        word_is(&w[0], 1.7f, 1.9f, 0);
        word_is(&w[1], 1.9f, 2.2f, 0);
        assert_true(start == 1.8f && end == 2.2f);
    }
    { /* after a pause: twice the median at most */
        struct word w[] = {{.start = 1.0f, .end = 2.9f}, {.start = 2.9f, .end = 3.1f}};

        start = 1.0f, end = 3.1f;
        fit(w, 2, 0.0, 0.0, &start, &end);
        word_is(&w[0], 2.5f, 2.9f, 0);
        assert_true(fabsf(start - 2.5f) < 1e-4f);
    }
    { /* both long */
        struct word w[] = {{.start = 1.0f, .end = 1.2f}, {.start = 1.2f, .end = 3.0f}};

        start = 1.0f, end = 3.0f;
        fit(w, 2, -5.0, 60.0, &start, &end);
        word_is(&w[0], 2.2f, 2.6f, 0);
        word_is(&w[1], 2.6f, 3.0f, 0);
    }
    { /* one word, at the very begin of a recording */
        struct word w[] = {{.start = 0.0f, .end = 1.0f}};

        start = 0.0f, end = 1.0f;
        fit(w, 1, 0.0, 0.0, &start, &end);
        word_is(&w[0], 0.6f, 1.0f, 0);
    }
}

/* ---- memory */

static int align_whole(void *arg, struct err *err)
{
    static const int32_t tokens[] = {QUOTE, DA, GO, S, STOP};
    static const uint32_t first[6] = {0};
    static double logprob[5];
    struct words w = {0};
    int rc = words_align(vocab, "en", tokens, 5, first, logprob, 50, &w, err);

    (void)arg;
    assert_true(rc == 0 || !w.words);
    words_free(&w);
    return rc;
}

TEST(test_no_memory) { assert_true(nomem_each(align_whole, NULL) > 15); }

int main(void)
{
    int rc;

    struct err e;

    if (backend_open_host(1, &be, &e) != 0)
        return 1;
    vocab = vocabulary(NULL);
    rc = suite_run(NULL, NULL);
    vocabulary_free(vocab);
    backend_close(be);
    return rc;
}
