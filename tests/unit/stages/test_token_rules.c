/* The token rules against an independent reading of openai-whisper's, on random rows; and the
 * choice of a token, greedy and drawn. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/number.h"
#include "workers/stages/token_rules.h"
#include "workers/text/vocabulary.h"

#define VOCAB 2200 /* wider than the vocabulary's 2151, as padded models are */
#define EOT 640
#define NOT 649
#define TS 650
#define TS_END 2150

static struct vocabulary *vocab;
static struct token_rules *rules;
static uint64_t counter;

static double uniform(void) { return number_uniform(11, counter++); }

static void random_row(float *logits, double spread)
{
    for (int i = 0; i < VOCAB; i++)
        logits[i] = (float)(spread * (uniform() - 0.5));
}

/* ---- the rules once more, as they read in openai-whisper/whisper/decoding.py */

static void expect_mask(const int32_t *seq, size_t n, float *l)
{
    bool last = n >= 1 && seq[n - 1] >= TS, penultimate = n < 2 || seq[n - 2] >= TS;
    int32_t previous = -1;

    for (int i = EOT + 1; i < TS; i++) /* SuppressTokens: the specials */
        l[i] = -INFINITY;
    for (int i = TS_END + 1; i < VOCAB; i++)
        l[i] = -INFINITY;
    if (n == 0) /* SuppressBlank */
        l[220] = l[EOT] = -INFINITY;
    if (last)
        for (int i = 0; i < VOCAB; i++)
            if (penultimate ? i >= TS : i < EOT)
                l[i] = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (seq[i] >= TS)
            previous = seq[i];
    if (previous >= 0)
        for (int i = TS; i < (last && !penultimate ? previous : previous + 1); i++)
            l[i] = -INFINITY;
    if (n == 0)
        for (int i = 0; i < VOCAB; i++)
            if (i < TS || i > TS + 50)
                l[i] = -INFINITY;
}

static double log_sum(const float *l, int from, int to)
{
    double max = -INFINITY, sum = 0;

    for (int i = from; i < to; i++)
        max = (double)l[i] > max ? (double)l[i] : max;
    if (isinf(max))
        return -INFINITY;
    for (int i = from; i < to; i++)
        sum += exp((double)l[i] - max);
    return max + log(sum);
}

static void expect_mass(float *l)
{
    double time = log_sum(l, TS, VOCAB), text = -INFINITY;

    for (int i = 0; i < TS; i++)
        text = (double)l[i] > text ? (double)l[i] : text;
    if (time > text)
        for (int i = 0; i < TS; i++)
            l[i] = -INFINITY;
}

static struct token_choice expect_choice(const float *l)
{
    struct token_choice c = {-1, 0};

    for (int i = 0; i < VOCAB; i++)
        if (isfinite(l[i]) && (c.token < 0 || l[i] > l[c.token]))
            c.token = i;
    if (c.token >= 0)
        c.logprob = (double)l[c.token] - log_sum(l, 0, VOCAB);
    return c;
}

/* A sequence that the rules themselves could have led to, of text and pairs of timestamps. */
static size_t random_sequence(int32_t *seq)
{
    size_t n = 0, want = (size_t)(uniform() * 12);
    int32_t at = TS + (int32_t)(uniform() * 50);

    while (n < want) {
        seq[n++] = at;
        for (size_t words = 1 + (size_t)(uniform() * 4); n < want && words; words--)
            seq[n++] = (int32_t)(uniform() * EOT);
        at += 1 + (int32_t)(uniform() * 200);
        if (n < want && at < TS_END)
            seq[n++] = at;
        if (at > TS_END)
            at = TS_END;
    }
    return n;
}

static void test_against_reading(void **state)
{
    static float got[VOCAB], want[VOCAB];
    int32_t seq[32];
    int texts = 0, times = 0;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        size_t n = random_sequence(seq);
        struct token_choice a, b;

        random_row(got, round % 3 == 0 ? 4 : 40);
        memcpy(want, got, sizeof(got));
        token_rules_mask(rules, seq, n, got);
        expect_mask(seq, n, want);
        assert_memory_equal(got, want, sizeof(got));
        expect_mass(want);
        a = token_rules_choose(rules, got, 0, 0);
        b = expect_choice(want);
        assert_int_equal(a.token, b.token);
        assert_true(a.token < 0 || fabs(a.logprob - b.logprob) < 1e-9);
        texts += a.token >= 0 && a.token < TS;
        times += a.token >= TS;
    }
    assert_true(texts > 300);
    assert_true(times > 300);
}

/* ---- corners */

static void flat(float *l, float value)
{
    for (int i = 0; i < VOCAB; i++)
        l[i] = value;
}

static void test_ties(void **state)
{
    static float l[VOCAB];

    (void)state;
    flat(l, -INFINITY);
    l[30] = l[17] = l[99] = 1.5f;
    assert_int_equal(token_rules_choose(rules, l, 0, 0).token, 17);
    flat(l, -INFINITY);
    l[5] = l[TS + 3] = 2; /* equal mass: text, as only a larger one forces a timestamp */
    assert_int_equal(token_rules_choose(rules, l, 0, 0).token, 5);
    l[TS + 4] = -5;
    assert_int_equal(token_rules_choose(rules, l, 0, 0).token, TS + 3);
}

static void test_mass(void **state)
{
    static float l[VOCAB];
    struct token_choice c;

    (void)state;
    flat(l, -INFINITY);
    l[5] = 1;
    for (int i = 0; i < 100; i++) /* each unlikelier than the word, together likelier */
        l[TS + i] = -1;
    c = token_rules_choose(rules, l, 0, 0);
    assert_int_equal(c.token, TS);
    assert_true(fabs(c.logprob + log(100)) < 1e-12);
}

static void test_unusable(void **state)
{
    static float l[VOCAB];
    struct token_choice c;

    (void)state;
    flat(l, NAN);
    assert_false(token_logits_usable(rules, l));
    assert_int_equal(token_rules_choose(rules, l, 0, 0).token, -1);
    assert_int_equal(token_rules_choose(rules, l, 1, 0.5).token, -1);
    assert_true(token_no_speech(rules, l) == 0);
    l[7] = -3;
    assert_true(token_logits_usable(rules, l));
    c = token_rules_choose(rules, l, 0, 0);
    assert_int_equal(c.token, 7);
    assert_true(c.logprob == 0);
    assert_int_equal(token_rules_choose(rules, l, 1, 0.999).token, 7);
    l[8] = INFINITY;
    assert_false(token_logits_usable(rules, l));
    assert_int_equal(token_rules_choose(rules, l, 0, 0).token, -1);
    flat(l, -INFINITY);
    assert_false(token_logits_usable(rules, l));
    assert_int_equal(token_rules_choose(rules, l, 0, 0).token, -1);
    assert_int_equal(token_rules_choose(rules, l, 0.2, 0).token, -1);
}

/* Frequencies of drawn tokens against the softmax; the logprob stays that of temperature 1. */
static void test_drawing(void **state)
{
    static const double temperatures[] = {0.2, 0.6, 1.0};
    static float l[VOCAB];

    (void)state;
    flat(l, -INFINITY);
    l[10] = 1.0f;
    l[11] = 0.5f;
    l[12] = 0.0f;
    for (int t = 0; t < 3; t++) {
        double weight[3], sum = 0, plain = log(exp(1.0) + exp(0.5) + 1.0);
        int count[3] = {0};

        for (int i = 0; i < 3; i++)
            sum += weight[i] = exp((double)l[10 + i] / temperatures[t]);
        for (int i = 0; i < 30000; i++) {
            struct token_choice c = token_rules_choose(rules, l, temperatures[t], uniform());
            assert_in_range(c.token, 10, 12);
            assert_true(fabs(c.logprob - ((double)l[c.token] - plain)) < 1e-12);
            count[c.token - 10]++;
        }
        for (int i = 0; i < 3; i++)
            assert_true(fabs(count[i] / 30000.0 - weight[i] / sum) < 0.015);
    }
    assert_int_equal(token_rules_choose(rules, l, 1, 0).token, 10);
    assert_int_equal(token_rules_choose(rules, l, 1, 0x1.fffffffffffffp-1).token, 12);
}

static void test_start(void **state)
{
    static float l[VOCAB];
    double prob;

    (void)state;
    flat(l, -1000);
    l[648] = (float)log(0.25);
    l[642] = (float)log(0.5);
    l[643] = (float)log(0.25);
    assert_true(fabs(token_no_speech(rules, l) - 0.25) < 1e-7);
    assert_int_equal(token_language(rules, l, &prob), 642);
    assert_true(fabs(prob - 2.0 / 3) < 1e-7);
    l[643] = l[642];
    assert_int_equal(token_language(rules, l, &prob), 642);
    assert_true(prob == 0.5);
    l[0] = 2000;
    assert_true(token_no_speech(rules, l) == 0);
}

static void test_model_of_another_size(void **state)
{
    struct token_rules *r = NULL;
    struct err e;

    (void)state;
    assert_int_equal(token_rules_new(vocab, 2150, &r, &e), ERR_MODEL);
    assert_null(r);
    assert_ok(token_rules_new(vocab, 2151, &r, &e), e);
    token_rules_free(r);
}

/* ---- arithmetic */

static void test_exp(void **state)
{
    (void)state;
    assert_true(number_exp(0) == 1);
    assert_true(number_exp(-701) == 0);
    assert_true(number_exp(-INFINITY) == 0);
    assert_true(number_exp(NAN) == 0);
    for (int i = 0; i < 100000; i++) {
        double x = -700.0 * pow(uniform(), 3);
        assert_true(fabs(number_exp(x) / exp(x) - 1) < 4.5e-16);
    }
}

static void test_uniform(void **state)
{
    double sum = 0, square = 0;

    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        double u = number_uniform(3, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
        square += u * u;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 0.005);
    assert_true(fabs(square / 100000 - 1.0 / 3) < 0.005);
    /* Fixed for ever: catalogs made by one machine are continued by another. */
    assert_true(number_uniform(0, 0) == 0x1.4e0dba5e9a32fp-1);
    assert_true(number_uniform(1, 2) == 0x1.79b3b7692ce6p-1);
    assert_true(number_uniform(UINT64_MAX, 12345) == 0x1.5b64f38652263p-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_reading),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_mass),
        cmocka_unit_test(test_unusable),
        cmocka_unit_test(test_drawing),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_model_of_another_size),
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_uniform),
    };
    struct err e;
    int rc;

    if (vocabulary_load(test_source_path("workers/models/whisper-nano"), &vocab, &e) ||
        token_rules_new(vocab, VOCAB, &rules, &e)) {
        print_error("%s\n", e.msg);
        return 1;
    }
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    token_rules_free(rules);
    vocabulary_free(vocab);
    return rc;
}
