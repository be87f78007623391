/* Candidates for a beam search, tokens that are given, and texts without timestamps: against plain
 * loops over the logits that an independent reading of the rules leaves. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/number.h"
#include "tests/ops/ops.h"
#include "tests/ops/reference_choose.h"

#define ROWS 9
#define MOST BACKEND_MAX_TOP

static struct backend *be;
static struct rules *rules;
static struct tensor logits; /* [ROWS][VOCAB] */
static struct choice_ask *asks;
static struct choice *choices;
static struct candidate *candidates; /* [ROWS][MOST] */
static double close_enough;          /* of log probabilities: see test_choose.c */
static uint64_t counter;

static double uniform(void) { return number_uniform(12, counter++); }

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

static struct tensor put_rows(const float *l, size_t n)
{
    struct tensor t = logits;
    struct err e;

    t.rows = (int64_t)n;
    assert_ok(be->ops->write(be, t.data, l, n * VOCAB * sizeof(*l), &e), e);
    return t;
}

/* The k likeliest of n rows as they are. */
static void top(const float *l, size_t n, uint32_t k, struct candidate *ret)
{
    struct tensor t = put_rows(l, n);
    struct err e;

    assert_ok(be->ops->top(be, t, k, candidates, &e), e);
    assert_ok(be->ops->read(be, ret, candidates, n * k * sizeof(*ret), &e), e);
}

static void choose(const float *l, const struct choice_ask *ask, struct choice *ret, size_t n)
{
    struct tensor t = put_rows(l, n);
    struct err e;

    assert_ok(be->ops->write(be, asks, ask, n * sizeof(*ask), &e), e);
    assert_ok(be->ops->choose(be, rules, t, asks, choices, &e), e);
    assert_ok(be->ops->read(be, ret, choices, n * sizeof(*ret), &e), e);
}

/* By picking the largest that is left, the lowest id of equals. */
static void check_top(const float *l, uint32_t k, const struct candidate *got)
{
    double sum = reference_log_sum(l, 0, VOCAB);
    bool taken[VOCAB] = {false};

    for (uint32_t i = 0; i < k; i++) {
        int best = -1;

        for (int id = 0; id < VOCAB; id++)
            if (!taken[id] && l[id] > -INFINITY && (best < 0 || l[id] > l[best]))
                best = id;
        assert_int_equal(got[i].token, best);
        if (best < 0) {
            assert_true(isinf(got[i].logprob) && got[i].logprob < 0);
            continue;
        }
        taken[best] = true;
        assert_true(fabs(got[i].logprob - ((double)l[best] - sum)) < close_enough);
    }
}

TEST(likeliest)
{
    static const uint32_t ks[] = {1, 2, 5, 6, 32, 33};
    static float l[ROWS * VOCAB];
    struct candidate got[ROWS * MOST];

    for (int round = 0; round < test_share(36); round++) {
        uint32_t k = ks[round % 6];
        size_t n = 1 + (size_t)round % ROWS;

        for (size_t i = 0; i < n; i++) {
            random_row(l + i * VOCAB, i % 2 ? 30 : 3);
            for (int j = 0; i % 3 == 1 && j < 300; j++)
                l[i * VOCAB + (size_t)(uniform() * VOCAB)] = j % 2 ? NAN : -INFINITY;
            for (int j = 0; i % 3 == 2 && j < VOCAB; j++) /* many equals */
                l[i * VOCAB + (size_t)j] = roundf(l[i * VOCAB + (size_t)j]);
        }
        top(l, n, k, got);
        for (size_t i = 0; i < n; i++)
            check_top(l + i * VOCAB, k, got + i * k);
    }
}

/* In rising and in falling order, all equal, fewer than asked for, and none. */
TEST(corners)
{
    static float l[VOCAB];
    struct candidate got[MOST];

    for (int i = 0; i < VOCAB; i++)
        l[i] = (float)i / 100;
    top(l, 1, MOST, got);
    check_top(l, MOST, got);
    for (int i = 0; i < VOCAB; i++)
        l[i] = -(float)i / 100;
    top(l, 1, MOST, got);
    check_top(l, MOST, got);
    flat(l, -7);
    top(l, 1, MOST, got);
    check_top(l, MOST, got);
    flat(l, -INFINITY);
    l[VOCAB - 1] = l[4] = -2e4f;
    l[9] = NAN;
    top(l, 1, 5, got);
    check_top(l, 5, got);
    assert_int_equal(got[1].token, VOCAB - 1);
    assert_int_equal(got[2].token, -1);
    for (int bad = 0; bad < 3; bad++) { /* rows that are not usable */
        flat(l, bad == 0 ? NAN : -INFINITY);
        l[3] = bad == 2 ? INFINITY : l[3];
        l[5] = bad == 2 ? 1 : l[5];
        top(l, 1, 2, got);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(got[i].token, -1);
            assert_true(isinf(got[i].logprob) && got[i].logprob < 0);
        }
    }
}

/* What choose leaves: the rules have masked what may not follow, the timestamps' mass the text. */
TEST(after_choose)
{
    static float l[VOCAB], want[VOCAB];
    const int32_t seq[] = {TS, 20, 30, TS + 9, TS + 9, 40};
    int forced = 0, rounds = test_share(60);
    struct candidate got[6];
    struct err e;

    for (int round = 0; round < rounds; round++) {
        struct choice_ask ask = reference_ask(seq, (size_t)round % 7);
        struct tensor t = logits;
        struct choice c;
        double margin;

        random_row(l, 20);
        for (int i = 0; round % 3 == 0 && i < TS; i++)
            l[i] -= 5;
        memcpy(want, l, sizeof(want));
        reference_mask(seq, (size_t)round % 7, want);
        reference_mass(want, &margin);
        if (margin < 1e-6)
            continue;
        forced += round % 7 != 0 && isinf(want[40]) && isinf(want[41]) && isfinite(want[TS_END]);
        choose(l, &ask, &c, 1);
        t.rows = 1;
        assert_ok(be->ops->top(be, t, 6, candidates, &e), e);
        assert_ok(be->ops->read(be, got, candidates, sizeof(got), &e), e);
        check_top(want, 6, got);
        assert_int_equal(got[0].token, c.token);
        assert_true(fabs(got[0].logprob - c.logprob) < close_enough);
    }
    assert_true(forced > rounds / 10);
}

TEST(given)
{
    static float l[ROWS * VOCAB];
    static const int32_t tokens[ROWS] = {0, EOT - 1, 7, 220, 33, EOT, TS + 5, -1, 12};
    struct choice_ask ask[ROWS];
    struct choice c[ROWS];

    for (size_t i = 0; i < ROWS; i++) {
        random_row(l + i * VOCAB, 30);
        ask[i] = (struct choice_ask){
            .count = 3, .last = tokens[i], .before = TS, .last_time = TS, .what = CHOOSE_GIVEN};
        l[i * VOCAB + EOT] = l[i * VOCAB + TS] = 40; /* what comes after the text does not count */
    }
    l[8 * VOCAB + 12] = NAN;
    choose(l, ask, c, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        const float *row = l + i * VOCAB;
        bool text = tokens[i] >= 0 && tokens[i] < EOT;

        assert_int_equal(c[i].token, text ? tokens[i] : -1);
        assert_int_equal(c[i].usable, 1);
        if (!text || i == 8)
            assert_true(isinf(c[i].logprob) && c[i].logprob < 0);
        else
            assert_true(fabs(c[i].logprob - ((double)row[tokens[i]] -
                                             reference_log_sum(row, 0, EOT))) < close_enough);
    }
    flat(l, -INFINITY);
    l[EOT] = 1;
    ask[0].last = 5;
    choose(l, ask, c, 1);
    assert_int_equal(c[0].token, -1);
    l[3] = INFINITY;
    choose(l, ask, c, 1);
    assert_int_equal(c[0].token, -1);
    assert_int_equal(c[0].usable, 0);
}

/* No timestamp, however likely and however few words there are; the other rules hold. */
TEST(without_times)
{
    static float l[VOCAB], want[VOCAB];
    const int32_t seq[] = {20, 30, 40, 50};

    for (int round = 0; round < test_share(40); round++) {
        size_t n = (size_t)round % 5;
        struct choice_ask ask = reference_ask(seq, n);
        struct choice c;
        int best = 0;

        random_row(l, 20);
        for (int i = TS; i <= TS_END; i++)
            l[i] += 15;
        l[220] = round % 2 ? 30 : l[220]; /* a blank may not come first */
        memcpy(want, l, sizeof(want));
        want[7] = want[300] = -INFINITY;
        for (int i = EOT + 1; i < VOCAB; i++)
            want[i] = -INFINITY;
        if (n == 0)
            want[220] = want[EOT] = -INFINITY;
        for (int i = 0; i < VOCAB; i++)
            best = want[i] > want[best] ? i : best;
        ask.what |= CHOOSE_NO_TIMES;
        ask.temperature = round % 4 == 3 ? 1 : 0;
        ask.uniform = uniform();
        choose(l, &ask, &c, 1);
        assert_true(c.token >= 0 && isfinite(want[c.token]));
        if (ask.temperature == 0)
            assert_int_equal(c.token, best);
        assert_true(fabs(c.logprob - ((double)want[c.token] - reference_log_sum(want, 0, VOCAB))) <
                    close_enough);
    }
}

TEST(refusals)
{
    struct tensor t = logits;
    struct err e;

    assert_int_equal(be->ops->top(be, t, 0, candidates, &e), ERR_DEVICE);
    assert_int_equal(be->ops->top(be, t, MOST + 1, candidates, &e), ERR_DEVICE);
    t.rows = 0;
    assert_int_equal(be->ops->top(be, t, 1, candidates, &e), ERR_DEVICE);
    t = logits;
    t.type = DTYPE_BF16;
    assert_int_equal(be->ops->top(be, t, 1, candidates, &e), ERR_DEVICE);
}

static int open_all(void **state)
{
    const size_t bytes[] = {ROWS * VOCAB * sizeof(float), ROWS * sizeof(*asks),
                            ROWS * sizeof(*choices), ROWS * MOST * sizeof(*candidates)};
    struct err e = {0};
    void *p[4] = {NULL};
    int rc = test_backend_open(&be, &e);

    (void)state;
    if (rc == 0)
        rc = be->ops->rules_new(be, &reference_rules, &rules, &e);
    for (int i = 0; rc == 0 && i < 4; i++)
        rc = be->ops->alloc(be, bytes[i], &p[i], &e);
    if (rc != 0) {
        print_error("%s\n", e.msg);
        return rc;
    }
    logits = tensor_of(DTYPE_F32, p[0], ROWS, VOCAB);
    asks = p[1];
    choices = p[2];
    candidates = p[3];
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
    be->ops->release(be, candidates);
    left = be->allocated;
    backend_close(be);
    return left > 64u << 20;
}

TEST_MAIN(open_all, close_all)
