/* Words that are found again in what another model heard. */
#include "store/reading/match_words.h"
#include "tests/common/nomem.h"
#include "tests/common/test.h"

#define MOST 32

static struct match_word list[MOST];
static size_t count;

/* Words with a blank between, a second each. */
static struct word_matcher *heard(const char *text, enum match_kind kind)
{
    struct word_matcher *m = NULL;
    struct err e = {0};

    count = 0;
    for (const char *p = text; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");

        assert_true(count < MOST);
        list[count] = (struct match_word){p, n, (int64_t)count * 1000, (int64_t)count * 1000 + 900};
        count++;
        p += n;
    }
    assert_ok(match_make(list, count, kind, &m, &e), e);
    return m;
}

/* Where one alone is: "word+words", "" nowhere. */
static const char *found(const char *text, enum match_kind kind, const char *words,
                         int64_t start_ms)
{
    static char out[32];
    struct word_matcher *m = heard(text, kind);
    struct match_found f;
    struct err e = {0};

    assert_ok(match(m, &(struct match_wanted){words, "", "", start_ms}, 1, NULL, &f, &e), e);
    snprintf(out, sizeof(out), f.at.words ? "%zu+%zu" : "", f.at.word, f.at.words);
    match_free(m);
    return out;
}

TEST(what_is_the_same)
{
    static const struct {
        const char *heard, *words, *folded, *bare;
    } table[] = {
        {"one two three", "two", "1+1", "1+1"},
        {"one Two, three", "two", "1+1", "1+1"},
        {"one S\u00e1nchez.", "sanchez", "1+1", ""},
        {"one Sa\u0301nchez", "s\u00e1nchez", "1+1", "1+1"},
        {"one twenty-five", "twenty five", "", ""},
        {"one don\u2019t", "don't", "1+1", ""},
        {"one two three", "one two", "0+2", "0+2"},
        {"one \u2013 two", "one two", "0+3", "0+3"},
        {"one two", "one \u2013 two", "0+2", "0+2"},
        {"\u2013 one \u2013", "\u2013 one", "0+2", "0+2"},
        {"a \u2013 b", "\u2013", "1+1", "1+1"},
        {"a b", "\u2013", "", ""},
        {"a b", "", "", ""},
        {"", "a", "", ""},
        {"a \xff", "\xff", "1+1", "1+1"},
        {"a \u0e35", "\u0e35", "1+1", "1+1"}, /* a vowel sign is a word by itself */
        {"a \u0e35", "\u0e36", "", ""},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_string_equal(found(table[i].heard, MATCH_FOLDED, table[i].words, 500),
                            table[i].folded);
        assert_string_equal(found(table[i].heard, MATCH_BARE, table[i].words, 500), table[i].bare);
    }
}

TEST(how_far_away)
{
    assert_string_equal(found("a b a b a b", MATCH_FOLDED, "a", 2100), "2+1");
    assert_string_equal(found("a b a b a b", MATCH_FOLDED, "a", 3400), "4+1");
    assert_string_equal(found("a x x x x b", MATCH_FOLDED, "b", 3000), "5+1");
    assert_string_equal(found("a x x x x b", MATCH_FOLDED, "b", 2999), "");
    assert_string_equal(found("a x x x x b", MATCH_FOLDED, "a", 2001), "");
}

/* Each gets its own; none gets words that another one has. */
TEST(several_that_want_the_same)
{
    struct word_matcher *m = heard("the cat the dog the", MATCH_FOLDED);
    const struct match_wanted wanted[] = {
        {"the", "", "dog", 1000}, {"the", "", "cat", 1000}, {"the cat", "", "", 0},
        {"the", "dog", "", 4000}, {"the", "", "", 3000},
    };
    struct match_found f[5];
    bool taken[5] = {0};
    struct err e = {0};

    assert_ok(match(m, wanted, 5, taken, f, &e), e);
    assert_int_equal(f[2].at.word, 0);
    assert_int_equal(f[2].at.words, 2);
    assert_int_equal(f[3].at.word, 4);
    assert_int_equal(f[0].at.word, 2);
    assert_int_equal(f[1].at.words + f[4].at.words, 0);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(taken[i], i != 3);
    match_free(m);
}

/* A fifth of a second is no difference, but what stands around is. */
TEST(words_around)
{
    struct word_matcher *m = NULL;
    struct match_found f[2];
    struct err e = {0};
    const struct match_word near[] = {{"red", 3, 0, 90},     {"no", 2, 100, 190},
                                      {"blue", 4, 200, 290}, {"no", 2, 300, 390},
                                      {"sea", 3, 400, 490},  {"no", 2, 1100, 1190}};
    const struct match_wanted wanted[] = {{"no", "red", "blue", 290}, {"no", "so red", "", 1100}};

    assert_ok(match_make(near, 6, MATCH_FOLDED, &m, &e), e);
    assert_ok(match(m, wanted, 2, NULL, f, &e), e);
    assert_int_equal(f[0].at.word, 1);
    assert_int_equal(f[0].around, 2);
    assert_int_equal(f[1].at.word, 5);
    assert_true(match_better(&f[0], &f[1]) && !match_better(&f[1], &f[0]));
    assert_true(match_better(&f[0], &(struct match_found){0}));
    assert_false(match_better(&(struct match_found){0}, &(struct match_found){0}));
    match_free(m);
}

static int all_of_it(void *arg, struct err *err)
{
    const struct match_wanted wanted[] = {{"a \u00e9", "x", "y z", 0}, {"b", "", "", 900}};
    struct word_matcher *m = NULL;
    struct match_found f[2];
    bool taken[MOST] = {0};
    int rc;

    (void)arg;
    rc = match_make(list, count, MATCH_BARE, &m, err);
    if (rc == 0)
        rc = match(m, wanted, 2, taken, f, err);
    match_free(m);
    return rc;
}

TEST(memory_that_runs_out)
{
    match_free(heard("a \u00e9 b c d", MATCH_FOLDED));
    assert_true(nomem_each(all_of_it, NULL) > 15);
}

TEST_MAIN(NULL, NULL)
