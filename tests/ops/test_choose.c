/* The choice of tokens on a backend, against an independent reading of openai-whisper's rules on
 * random rows: greedy and drawn, corners, and what the first logits of a window say. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/number.h"
#include "tests/ops/ops.h"
#include "tests/ops/reference_choose.h"

#define ROWS 25 /* of a call */

static struct backend *be;
static struct rules *rules;
static struct tensor logits; /* [ROWS][VOCAB] */
static struct choice_ask *asks;
static struct choice *choices;
static double close_enough; /* of log probabilities: sums in another order, other exponentials */
static uint64_t counter;

static double uniform(void) { return number_uniform(11, counter++); }

/* n rows through the device. */
static void choose(const float *l, const struct choice_ask *ask, struct choice *ret, size_t n)
{
    struct tensor t = logits;
    struct err e;

    t.rows = (int64_t)n;
    assert_ok(be->ops->write(be, t.data, l, n * VOCAB * sizeof(*l), &e), e);
    assert_ok(be->ops->write(be, asks, ask, n * sizeof(*ask), &e), e);
    assert_ok(be->ops->choose(be, rules, t, asks, choices, &e), e);
    assert_ok(be->ops->read(be, ret, choices, n * sizeof(*ret), &e), e);
}

static void random_row(float *l, double spread)
{
    for (int i = 0; i < VOCAB; i++)
        l[i] = (float)(spread * (uniform() - 0.5));
}

static void flat(float *l, float value)
{
    for (int i = 0; i < VOCAB; i++)
        l[i] = value;
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

static void check_greedy(const float *l, const struct choice *got)
{
    int32_t token = -1;

    for (int i = 0; i < VOCAB; i++)
        if (isfinite(l[i]) && (token < 0 || l[i] > l[token]))
            token = i;
    assert_int_equal(got->token, token);
    if (token >= 0)
        assert_true(fabs(got->logprob - ((double)l[token] - reference_log_sum(l, 0, VOCAB))) <
                    close_enough);
}

/* The drawn token is the one in whose share of the whole the uniform number lies. */
static void check_drawn(const float *l, const struct choice_ask *ask, const struct choice *got)
{
    double whole = 0, below = 0, max = -INFINITY, share;

    for (int i = 0; i < VOCAB; i++)
        max = (double)l[i] > max ? (double)l[i] : max;
    assert_true(got->token >= 0 && got->token < VOCAB && isfinite(l[got->token]));
    for (int i = 0; i < VOCAB; i++) {
        share = isnan(l[i]) ? 0 : exp(((double)l[i] - max) / (double)ask->temperature);
        below += i < got->token ? share : 0;
        whole += share;
    }
    share = exp(((double)l[got->token] - max) / (double)ask->temperature);
    assert_true(ask->uniform * whole >= below - 1e-6 * whole);
    assert_true(ask->uniform * whole <= below + share + 1e-6 * whole);
    assert_true(fabs(got->logprob - ((double)l[got->token] - reference_log_sum(l, 0, VOCAB))) <
                close_enough);
}

TEST(against_a_reading)
{
    static float got[ROWS * VOCAB], want[ROWS * VOCAB];
    struct choice_ask ask[ROWS];
    struct choice c[ROWS];
    int32_t seq[32];
    int texts = 0, times = 0, rounds = test_share(160);

    for (int round = 0; round < rounds; round++) {
        size_t rows = 1 + (size_t)round % ROWS;

        for (size_t i = 0; i < rows; i++) {
            size_t n = random_sequence(seq);

            random_row(got + i * VOCAB, i % 3 == 0 ? 4 : 40);
            for (int k = 0; i % 4 == 1 && k < 50; k++)
                got[i * VOCAB + (size_t)(uniform() * VOCAB)] = NAN;
            memcpy(want + i * VOCAB, got + i * VOCAB, VOCAB * sizeof(*got));
            reference_mask(seq, n, want + i * VOCAB);
            ask[i] = reference_ask(seq, n);
            ask[i].temperature = i % 2 ? 0 : (float)(0.2 * (double)(1 + i % 5));
            ask[i].uniform = uniform();
        }
        choose(got, ask, c, rows);
        for (size_t i = 0; i < rows; i++) {
            double margin;

            reference_mass(want + i * VOCAB, &margin);
            assert_int_equal(c[i].usable, 1);
            if (margin < 1e-6) /* either is right */
                continue;
            if (ask[i].temperature == 0)
                check_greedy(want + i * VOCAB, &c[i]);
            else
                check_drawn(want + i * VOCAB, &ask[i], &c[i]);
            texts += c[i].token >= 0 && c[i].token < TS;
            times += c[i].token >= TS;
        }
    }
    assert_true(texts > rounds * 5 / 4);
    assert_true(times > rounds * 5 / 4);
}

/* On a processor, whichever: the bits of a sum of base/number.h's exponentials in the ids' order.
 */
TEST(last_bits)
{
    static const double spreads[] = {0.1, 4, 40, 1500};
    static float l[VOCAB];

    for (int round = 0; strcmp(be->info.id, "cpu") == 0 && round < 600; round++) {
        struct choice_ask ask = {.last = -1, .before = -1, .last_time = -1, .what = CHOOSE_START};
        double max = -INFINITY, sum = 0;
        struct choice c;

        random_row(l, spreads[round / 2 % 4]);
        for (int k = 0; round % 3 == 1 && k < 50; k++)
            l[(int)(uniform() * VOCAB)] = k % 2 ? NAN : -INFINITY;
        l[NO_SPEECH] = (float)(spreads[round / 2 % 4] * 0.4);
        if (round % 2) { /* of two, whose last bits no others hide */
            flat(l, -INFINITY);
            l[NO_SPEECH] = 0;
            l[(int)(uniform() * NO_SPEECH)] = (float)(-0.7 * uniform());
        }
        for (int i = 0; i < VOCAB; i++)
            max = (double)l[i] > max ? (double)l[i] : max;
        for (int i = 0; i < VOCAB; i++)
            sum += number_exp((double)l[i] - max);
        choose(l, &ask, &c, 1);
        assert_true(c.no_speech == number_exp((double)l[NO_SPEECH] - max) / sum);
    }
}

/* One row in the middle of a segment: text, and the end of the segment, are allowed. */
static struct choice one(const float *l, float temperature, double u)
{
    const int32_t seq[] = {TS, 20};
    struct choice_ask ask = reference_ask(seq, 2);
    struct choice c;

    ask.temperature = temperature;
    ask.uniform = u;
    choose(l, &ask, &c, 1);
    return c;
}

TEST(ties)
{
    static float l[VOCAB];

    flat(l, -INFINITY);
    l[30] = l[17] = l[99] = 1.5f;
    assert_int_equal(one(l, 0, 0).token, 17);
    flat(l, -INFINITY);
    l[5] = l[TS + 3] = 2; /* equal mass: text, as only a larger one forces a timestamp */
    assert_int_equal(one(l, 0, 0).token, 5);
    l[TS + 4] = -5;
    assert_int_equal(one(l, 0, 0).token, TS + 3);
    l[5] = -INFINITY;
    l[TS + 4] = 2;
    assert_int_equal(one(l, 0, 0).token, TS + 3);
}

TEST(mass)
{
    static float l[VOCAB];
    struct choice c;

    flat(l, -INFINITY);
    l[5] = 1;
    for (int i = 1; i <= 100; i++) /* each unlikelier than the word, together likelier */
        l[TS + i] = -1;
    c = one(l, 0, 0);
    assert_int_equal(c.token, TS + 1);
    assert_true(fabs(c.logprob + log(100)) < close_enough);
}

TEST(unusable)
{
    static float l[VOCAB];
    struct choice c;

    flat(l, NAN);
    assert_int_equal(one(l, 0, 0).usable, 0);
    assert_int_equal(one(l, 0, 0).token, -1);
    assert_int_equal(one(l, 1, 0.5).token, -1);
    l[8] = -3;
    c = one(l, 0, 0);
    assert_int_equal(c.usable, 1);
    assert_int_equal(c.token, 8);
    assert_true(c.logprob == 0);
    assert_int_equal(one(l, 1, 0.999).token, 8);
    l[9] = INFINITY;
    assert_int_equal(one(l, 0, 0).usable, 0);
    assert_int_equal(one(l, 0, 0).token, -1);
    flat(l, -INFINITY);
    assert_int_equal(one(l, 0, 0).usable, 0);
    assert_int_equal(one(l, 0, 0).token, -1);
    assert_int_equal(one(l, 0.2f, 0).token, -1);
    l[7] = 1; /* usable, but nothing is allowed */
    assert_int_equal(one(l, 0, 0).usable, 1);
    assert_int_equal(one(l, 0, 0).token, -1);
}

/* Frequencies of drawn tokens against the softmax; the logprob stays that of temperature 1. */
TEST(drawing)
{
    static const float temperatures[] = {0.2f, 0.6f, 1.0f};
    static float l[VOCAB];
    int draws = test_share(2000);

    flat(l, -INFINITY);
    l[10] = 1.0f;
    l[11] = 0.5f;
    l[12] = 0.0f;
    for (int t = 0; t < 3; t++) {
        double weight[3], sum = 0, plain = log(exp(1.0) + exp(0.5) + 1.0);
        int count[3] = {0};

        for (int i = 0; i < 3; i++)
            sum += weight[i] = exp((double)l[10 + i] / (double)temperatures[t]);
        for (int i = 0; i < draws; i++) {
            struct choice c = one(l, temperatures[t], (i + 0.5) / draws);

            assert_in_range(c.token, 10, 12);
            assert_true(fabs(c.logprob - ((double)l[c.token] - plain)) < close_enough);
            count[c.token - 10]++;
        }
        for (int i = 0; i < 3; i++)
            assert_true(fabs((double)count[i] / draws - weight[i] / sum) < 2.0 / draws);
    }
    assert_int_equal(one(l, 1, 0).token, 10);
    assert_int_equal(one(l, 1, 0x1.fffffffffffffp-1).token, 12);
}

/* On a processor, whichever: what a sum of one after the other says, where the uniform number lies
 * within a bit of where one id's share ends, too. */
TEST(drawing_to_the_last_bit)
{
    static const double spreads[] = {0.1, 4, 40, 1500};
    static float l[VOCAB], allowed[VOCAB];
    const int32_t seq[] = {TS, 20};

    for (int round = 0; strcmp(be->info.id, "cpu") == 0 && round < 600; round++) {
        float temperature = (float)(0.2 * (1 + round % 5));
        double max = -INFINITY, whole = 0, sum = 0, u = uniform();
        int32_t until = (int32_t)(uniform() * EOT), want = -1;

        flat(l, -INFINITY);
        for (int i = 0; i <= EOT; i++)
            l[i] = (float)(spreads[round % 4] * (uniform() - 0.5));
        for (int k = 0; round % 3 == 1 && k < 50; k++)
            l[(int)(uniform() * EOT)] = k % 2 ? NAN : -INFINITY;
        memcpy(allowed, l, sizeof(l));
        reference_mask(seq, 2, allowed);
        for (int i = 0; i < VOCAB; i++)
            max = (double)allowed[i] > max ? (double)allowed[i] : max;
        for (int i = 0; i < VOCAB; i++) {
            whole += number_exp(((double)allowed[i] - max) / (double)temperature);
            sum = i == until ? whole : sum;
        }
        if (round % 7)
            u = nextafter(fmin(sum / whole, 0x1.fffffffffffffp-1), round % 2 ? 0 : 1);
        u = fmin(u, 0x1.fffffffffffffp-1);
        sum = 0;
        for (int i = 0; i < VOCAB && !(sum > u * whole); i++) {
            double w = number_exp(((double)allowed[i] - max) / (double)temperature);

            want = w > 0 ? i : want;
            sum += w;
        }
        assert_int_equal(one(l, temperature, u).token, want);
    }
}

static struct choice start(const float *l)
{
    const struct choice_ask ask = {.last = -1, .before = -1, .last_time = -1, .what = CHOOSE_START};
    struct choice c;

    choose(l, &ask, &c, 1);
    return c;
}

TEST(starts)
{
    static float l[VOCAB];
    struct choice c;

    flat(l, -1000);
    l[NO_SPEECH] = (float)log(0.25);
    l[642] = (float)log(0.5);
    l[643] = (float)log(0.25);
    c = start(l);
    assert_true(fabs(c.no_speech - 0.25) < 1e-6);
    assert_int_equal(c.language, 642);
    assert_true(fabs(c.language_prob - 2.0 / 3) < 1e-6);
    l[643] = l[642];
    c = start(l);
    assert_int_equal(c.language, 642);
    assert_true(c.language_prob == 0.5);
    l[642] = NAN;
    c = start(l);
    assert_int_equal(c.language, 643);
    assert_true(c.language_prob == 1);
    l[0] = 2000;
    assert_true(start(l).no_speech == 0);
    flat(l, NAN);
    c = start(l);
    assert_int_equal(c.usable, 0);
    assert_true(c.no_speech == 0);
}

/* An English-only model asks for both at once; a row that asks for nothing is left alone. */
TEST(both_and_none)
{
    static float l[2 * VOCAB];
    struct choice_ask ask[2] = {{.last = -1, .before = -1, .last_time = -1},
                                {.last = -1, .before = -1, .last_time = -1}};
    struct choice c[2];

    flat(l, NAN);
    flat(l + VOCAB, -50);
    l[VOCAB + NO_SPEECH] = 3;
    l[VOCAB + TS + 2] = 2;
    l[VOCAB + TS + 51] = 4; /* later than a first one may be */
    ask[1].what = CHOOSE_START | CHOOSE_TOKEN;
    choose(l, ask, c, 2);
    assert_int_equal(c[1].token, TS + 2);
    assert_true(fabs(c[1].no_speech - exp(3) / (exp(2) + exp(3) + exp(4))) < 1e-6);
}

TEST(rules_refused)
{
    const int32_t outside[] = {5, VOCAB};
    struct rules_spec spec = reference_rules;
    struct rules *r = NULL;
    struct err e;

    spec.never = outside;
    spec.never_count = 2;
    assert_int_equal(be->ops->rules_new(be, &spec, &r, &e), ERR_MODEL);
    spec = reference_rules;
    spec.timestamp_end = VOCAB;
    assert_int_equal(be->ops->rules_new(be, &spec, &r, &e), ERR_MODEL);
    spec = reference_rules;
    spec.no_speech = VOCAB;
    assert_int_equal(be->ops->rules_new(be, &spec, &r, &e), ERR_MODEL);
    assert_null(r);
    struct tensor narrow = logits;
    narrow.cols = VOCAB - 1;
    assert_int_equal(be->ops->choose(be, rules, narrow, asks, choices, &e), ERR_DEVICE);
    spec = reference_rules; /* an English-only model without a token for silence */
    spec.no_speech = -1;
    spec.language_count = 0;
    assert_ok(be->ops->rules_new(be, &spec, &r, &e), e);
    be->ops->rules_free(be, r);
}

static int open_all(void **state)
{
    struct err e = {0};
    void *p[3] = {NULL};
    int rc = test_backend_open(&be, &e);

    (void)state;
    if (rc == 0)
        rc = be->ops->rules_new(be, &reference_rules, &rules, &e);
    if (rc == 0)
        rc = be->ops->alloc(be, ROWS * VOCAB * sizeof(float), &p[0], &e);
    if (rc == 0)
        rc = be->ops->alloc(be, ROWS * sizeof(*asks), &p[1], &e);
    if (rc == 0)
        rc = be->ops->alloc(be, ROWS * sizeof(*choices), &p[2], &e);
    if (rc != 0) {
        print_error("%s\n", e.msg);
        return rc;
    }
    logits = tensor_of(DTYPE_F32, p[0], ROWS, VOCAB);
    asks = p[1];
    choices = p[2];
    close_enough = strcmp(be->info.id, "cpu") == 0 ? 1e-9 : 1e-6;
    return 0;
}

static int close_all(void **state)
{
    uint64_t left;

    (void)state;
    be->ops->rules_free(be, rules);
    be->ops->release(be, logits.data);
    be->ops->release(be, asks);
    be->ops->release(be, choices);
    left = be->allocated;
    backend_close(be);
    return left > 64u << 20;
}

TEST_MAIN(open_all, close_all)
