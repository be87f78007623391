/* Error counts against a plain table of all cells, and by hand. */
#include "tests/common/test.h"

#include <math.h>

#include "tools/score/score.h"

static struct score words(const char *reference, const char *hypothesis)
{
    struct score s = {0};
    struct err err = {0};

    assert_ok(score_words(reference, hypothesis, &s, &err), err);
    return s;
}

static void is(struct score s, unsigned n, unsigned m, unsigned sub, unsigned del, unsigned ins)
{
    assert_int_equal(s.reference, n);
    assert_int_equal(s.hypothesis, m);
    assert_int_equal(s.substitutions, sub);
    assert_int_equal(s.deletions, del);
    assert_int_equal(s.insertions, ins);
}

TEST(counts_by_hand)
{
    struct score s;
    struct err err = {0};

    is(words("the cat sat", "the cat sat"), 3, 3, 0, 0, 0);
    is(words("the cat sat", "the dog sat"), 3, 3, 1, 0, 0);
    is(words("the cat sat", "the sat"), 3, 2, 0, 1, 0);
    is(words("the cat sat", "the black cat sat"), 3, 4, 0, 0, 1);
    is(words("a b c d", "b c d e"), 4, 4, 0, 1, 1);
    /* Three errors each way: the one where "cat" is right. */
    is(words("the old cat sat", "the cat sits now"), 4, 4, 1, 1, 1);
    is(words("", "a b"), 0, 2, 0, 0, 2);
    is(words("a b", " \n "), 2, 0, 0, 2, 0);
    is(words("", ""), 0, 0, 0, 0, 0);
    is(words(" a\t\xC3\xA9\xC2\xA0"
             "b\n",
             "a \xC3\xA9 b"),
       3, 3, 0, 0, 0);
    assert_ok(score_characters(" na\xC3\xAFve  cat", "naive cats ", &s, &err), err);
    is(s, 9, 10, 1, 0, 1);
}

TEST(rates)
{
    struct score sum = {0}, s = words("a b c d", "a x c");

    assert_true(fabs(score_rate(&s) - 0.5) < 1e-12);
    assert_true(isnan(score_rate(&sum)));
    score_add(&sum, &s);
    s = words("e", "e e e");
    score_add(&sum, &s);
    assert_int_equal(score_errors(&sum), 4);
    assert_true(fabs(score_rate(&sum) - 0.8) < 1e-12);
}

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* The textbook's: every cell of the table. */
static size_t distance(const uint32_t *a, size_t n, const uint32_t *b, size_t m)
{
    size_t *t = malloc((n + 1) * (m + 1) * sizeof(*t)), ret;

    assert_non_null(t);
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            size_t best = i + j;

            if (i > 0 && t[(i - 1) * (m + 1) + j] + 1 < best)
                best = t[(i - 1) * (m + 1) + j] + 1;
            if (j > 0 && t[i * (m + 1) + j - 1] + 1 < best)
                best = t[i * (m + 1) + j - 1] + 1;
            if (i > 0 && j > 0 && t[(i - 1) * (m + 1) + j - 1] + (a[i - 1] != b[j - 1]) < best)
                best = t[(i - 1) * (m + 1) + j - 1] + (a[i - 1] != b[j - 1]);
            t[i * (m + 1) + j] = best;
        }
    ret = t[n * (m + 1) + m];
    free(t);
    return ret;
}

/* Few kinds of units make many ties; long texts with few errors leave the first band unfilled, and
 * those without anything in common fill the widest. */
TEST(distances_are_least)
{
    uint32_t a[600], b[600], seed = 7;

    for (int round = 0; round < 600; round++) {
        size_t n = draw(&seed) % (round % 10 == 0 ? 600 : 40), m = 0, want;
        uint32_t kinds = 1 + draw(&seed) % 30, damage = draw(&seed) % 100;
        struct score s = {0};
        struct err err = {0};

        for (size_t i = 0; i < n; i++) {
            uint32_t fate = draw(&seed) % 100;

            a[i] = draw(&seed) % kinds;
            if (fate >= damage)
                b[m++] = a[i];
            else if (fate % 3 != 0)
                b[m++] = draw(&seed) % (kinds + 3);
        }
        want = distance(a, n, b, m);
        assert_ok(score_units(a, n, b, m, &s, &err), err);
        assert_int_equal(score_errors(&s), want);
        assert_int_equal(s.reference - s.deletions, s.hypothesis - s.insertions);
        assert_true(s.substitutions + s.deletions <= n);
    }
}

struct told {
    struct score s;
    char text[256];
};

static int on_step(void *arg, enum score_step step, struct score_word ref, struct score_word hyp)
{
    static const char signs[] = "=~-+";
    struct told *t = arg;
    size_t len = strlen(t->text);

    t->s.reference += step != SCORE_INSERTED;
    t->s.hypothesis += step != SCORE_DELETED;
    t->s.substitutions += step == SCORE_SUBSTITUTED;
    t->s.deletions += step == SCORE_DELETED;
    t->s.insertions += step == SCORE_INSERTED;
    snprintf(t->text + len, sizeof(t->text) - len, "%c%.*s/%.*s ", signs[step], (int)ref.len, ref.s,
             (int)hyp.len, hyp.s);
    return 0;
}

TEST(differences_in_order)
{
    struct told t = {0};
    struct err err = {0};

    assert_ok(score_diff("the old cat sat down", "the cat sits down now", on_step, &t, &err), err);
    assert_string_equal(t.text, "=the/the -old/ =cat/cat ~sat/sits =down/down +/now ");
    memset(&t, 0, sizeof(t));
    assert_ok(score_diff("", "a", on_step, &t, &err), err);
    assert_string_equal(t.text, "+/a ");
    memset(&t, 0, sizeof(t));
    assert_ok(score_diff("a b", "", on_step, &t, &err), err);
    assert_string_equal(t.text, "-a/ -b/ ");
}

/* What is shown is what is counted. */
TEST(differences_are_those_counted)
{
    uint32_t seed = 11;

    for (int round = 0; round < 300; round++) {
        char a[200] = "", b[200] = "";
        struct told t = {0};
        struct score s;
        struct err err = {0};
        unsigned n = draw(&seed) % 90, m = draw(&seed) % 90;

        for (unsigned i = 0; i < n; i++)
            snprintf(a + 2 * (size_t)i, 3, "%c ", 'a' + (int)(draw(&seed) % 5));
        for (unsigned i = 0; i < m; i++)
            snprintf(b + 2 * (size_t)i, 3, "%c ", 'a' + (int)(draw(&seed) % 5));
        s = words(a, b);
        assert_ok(score_diff(a, b, on_step, &t, &err), err);
        is(t.s, (unsigned)s.reference, (unsigned)s.hypothesis, (unsigned)s.substitutions,
           (unsigned)s.deletions, (unsigned)s.insertions);
    }
}

/* 200,000 words with one error in 2,000: the band keeps it to a moment, and to little memory. */
TEST(long_texts)
{
    size_t n = 200000;
    uint32_t *a = malloc(n * sizeof(*a)), *b = malloc(n * sizeof(*b)), seed = 3;
    struct score s = {0};
    struct err err = {0};

    assert_true(a && b);
    for (size_t i = 0; i < n; i++) {
        a[i] = draw(&seed) % 5000;
        b[i] = i % 2000 == 1000 ? 9999 : a[i];
    }
    assert_ok(score_units(a, n, b, n - 3, &s, &err), err);
    assert_int_equal(s.substitutions, 100);
    assert_int_equal(s.deletions, 3);
    assert_int_equal(s.insertions, 0);
    free(a);
    free(b);
}

/* What would take hours is refused at once; what only looks so is not. */
TEST(too_long_and_too_different)
{
    size_t n = (size_t)1 << 22;
    uint32_t *a = malloc(n * sizeof(*a)), *b = calloc(n / 2, sizeof(*b));
    struct score s = {0};
    struct err err = {0};

    assert_true(a && b);
    for (size_t i = 0; i < n; i++)
        a[i] = (uint32_t)i + 1;
    assert_int_equal(score_units(a, n, b, n / 2, &s, &err), ERR_LIMIT);
    assert_non_null(strstr(err.msg, "in parts"));
    assert_ok(score_units(a, n, b, 0, &s, &err), err);
    assert_int_equal(s.deletions, n);
    assert_ok(score_units(a, n, a, n, &s, &err), err);
    assert_int_equal(score_errors(&s), 0);
    free(a);
    free(b);
}

TEST_MAIN(NULL, NULL)
