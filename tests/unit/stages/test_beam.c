/* Beam search by itself: what lives on where, what is finished, what wins. */
#include "tests/common/test.h"

#include <math.h>

#include "base/number.h"
#include "gpu/backend.h"
#include "workers/stages/transcribe/decode/beam.h"

#define EOT 9
#define ROOM 8
#define SIZE_MAX_HERE 8

struct bench {
    struct beam b;
    int32_t tokens[SIZE_MAX_HERE * ROOM], best[ROOM];
    float logprobs[SIZE_MAX_HERE * ROOM], best_logprobs[ROOM];
    struct asr_move moves[SIZE_MAX_HERE];
    uint32_t move_count;
    bool ended;
    struct err e;
};

static void begin(struct bench *x, struct beam_rule rule)
{
    memset(x, 0, sizeof(*x));
    beam_begin(&x->b, rule, (struct token_run){x->tokens, x->logprobs},
               (struct token_run){x->best, x->best_logprobs}, ROOM);
}

static const struct beam_rule two = {2, 2, ROOM, EOT, -1};

/* top: 3 candidates for each live hypothesis. */
static int feed(struct bench *x, const struct candidate *top)
{
    return beam_feed(&x->b, top, 3, x->moves, &x->move_count, &x->ended, &x->e);
}

/* Each token's own log probability moved with it: of a hypothesis that has not ended they add up.
 */
static void adds_up(const float *logprobs, uint32_t count, double logprob)
{
    double sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += (double)logprobs[i];
    assert_true(fabs(sum - logprob) < 1e-5);
}

static void holds(const struct bench *x, uint32_t i, uint32_t branch, double logprob,
                  const char *tokens)
{
    const int32_t *row = x->tokens + (size_t)branch * ROOM;

    assert_int_equal(x->b.live[i].branch, branch);
    assert_true(fabs(x->b.live[i].logprob - logprob) < 1e-12);
    assert_int_equal(x->b.count, strlen(tokens));
    for (uint32_t k = 0; k < x->b.count; k++)
        assert_int_equal(row[k], tokens[k] - '0');
    adds_up(x->logprobs + (size_t)branch * ROOM, x->b.count, logprob);
}

static void wins(const struct bench *x, double logprob, const char *tokens)
{
    assert_true(x->ended);
    assert_int_equal(x->move_count, 0);
    assert_int_equal(x->b.best_count, strlen(tokens));
    assert_true(fabs(x->b.best_logprob - logprob) < 1e-12);
    for (uint32_t k = 0; k < x->b.best_count; k++)
        assert_int_equal(x->best[k], tokens[k] - '0');
}

TEST(test_branches)
{
    static const struct candidate first[] = {{1, 0, -1}, {2, 0, -2}, {3, 0, -3}};
    static const struct candidate second[] = {{1, 0, -0.1}, {2, 0, -0.2}, {3, 0, -5},
                                              {4, 0, -3},   {5, 0, -4},   {6, 0, -5}};
    static const struct candidate third[] = {{1, 0, -3},   {2, 0, -4},   {3, 0, -5},
                                             {4, 0, -0.1}, {5, 0, -0.3}, {6, 0, -5}};
    struct bench x;

    begin(&x, two);
    assert_int_equal(x.b.live_count, 1);
    assert_ok(feed(&x, first), x.e);
    assert_int_equal(x.move_count, 1); /* the second hypothesis goes on from the first's cache */
    assert_int_equal(x.moves[0].from, 0);
    assert_int_equal(x.moves[0].to, 1);
    holds(&x, 0, 0, -1, "1");
    holds(&x, 1, 1, -2, "2");
    assert_ok(feed(&x, second), x.e); /* both children are the first's */
    assert_int_equal(x.move_count, 1);
    assert_int_equal(x.moves[0].to, 1);
    holds(&x, 0, 0, -1.1, "11");
    holds(&x, 1, 1, -1.2, "12");
    assert_ok(feed(&x, third), x.e); /* both are the second's: it keeps its branch */
    assert_int_equal(x.move_count, 1);
    assert_int_equal(x.moves[0].from, 1);
    assert_int_equal(x.moves[0].to, 0);
    holds(&x, 0, 1, -1.3, "124");
    holds(&x, 1, 0, -1.5, "125");
    assert_false(x.ended);
}

/* Each goes on by itself: nothing is copied, although the order changes. */
TEST(test_no_copies)
{
    static const struct candidate first[] = {{1, 0, -1}, {2, 0, -2}, {3, 0, -3}};
    static const struct candidate second[] = {{1, 0, -5}, {2, 0, -6}, {3, 0, -7},
                                              {4, 0, -1}, {5, 0, -9}, {6, 0, -9}};
    struct bench x;

    begin(&x, two);
    assert_ok(feed(&x, first), x.e);
    assert_ok(feed(&x, second), x.e);
    assert_int_equal(x.move_count, 0);
    holds(&x, 0, 1, -3, "24");
    holds(&x, 1, 0, -6, "11");
}

/* An end counts only while beams are still to be found; `enough` of them end the search. */
TEST(test_finished)
{
    static const struct candidate first[] = {{1, 0, -1}, {2, 0, -2}, {EOT, 0, -3}};
    static const struct candidate second[] = {{EOT, 0, -0.5}, {1, 0, -1},  {2, 0, -7},
                                              {EOT, 0, -0.2}, {4, 0, -30}, {5, 0, -40}};
    static const struct candidate third[] = {{EOT, 0, -0.4}, {1, 0, -6}, {2, 0, -7},
                                             {EOT, 0, -0.1}, {4, 0, -5}, {5, 0, -40}};
    struct bench x;

    begin(&x, two);
    assert_ok(feed(&x, first), x.e);
    assert_int_equal(x.b.finished, 0); /* two beams were found before it */
    assert_ok(feed(&x, second), x.e);
    assert_int_equal(x.b.finished, 2); /* at -1.5 and -2.2 */
    wins(&x, -1.5, "1");
    begin(&x, (struct beam_rule){2, 4, ROOM, EOT, -1}); /* patience 2 */
    assert_ok(feed(&x, first), x.e);
    assert_ok(feed(&x, second), x.e);
    assert_false(x.ended);
    holds(&x, 0, 0, -2, "11");
    assert_ok(feed(&x, third), x.e);
    wins(&x, -2.4, "11"); /* -1.2 a token */
}

/* What wins depends on how lengths are compared. */
TEST(test_length_penalty)
{
    static const struct {
        float penalty;
        const char *wins;
    } cases[] = {{-1, "11"}, {0, "1"}, {1, "1"}};
    static const struct candidate first[] = {{1, 0, -1}, {2, 0, -8}, {3, 0, -9}};
    static const struct candidate second[] = {{EOT, 0, -0.5}, {1, 0, -0.6}, {2, 0, -7},
                                              {3, 0, -9},     {4, 0, -30},  {5, 0, -40}};
    static const struct candidate third[] = {{EOT, 0, -0.4}, {1, 0, -6}, {2, 0, -7},
                                             {4, 0, -9},     {5, 0, -9}, {6, 0, -40}};
    struct bench x;

    for (size_t i = 0; i < 3; i++) {
        begin(&x, (struct beam_rule){2, 2, ROOM, EOT, cases[i].penalty});
        assert_ok(feed(&x, first), x.e);
        assert_ok(feed(&x, second), x.e);
        assert_ok(feed(&x, third), x.e);
        wins(&x, cases[i].penalty < 0 ? -2 : -1.5, cases[i].wins);
    }
    assert_true(beam_score(-3, 7, -1) == -3.0 / 7);
    assert_true(beam_score(-3, 7, 0) == -3);
    assert_true(beam_score(-3, 7, 1) == -1.5);
    assert_true(fabs(beam_score(-3, 7, 0.6f) + 3 / pow(2, 0.6)) < 1e-6);
    assert_true(beam_score(-3, 0, -1) == -3); /* nothing but an end */
}

/* At the limit the likeliest live hypotheses count as finished until there are `size`. */
TEST(test_limit)
{
    static const struct candidate first[] = {{1, 0, -1}, {2, 0, -2}, {3, 0, -3}};
    static const struct candidate second[] = {{EOT, 0, -5},   {1, 0, -0.5}, {2, 0, -6},
                                              {EOT, 0, -0.1}, {4, 0, -0.6}, {5, 0, -7}};
    struct bench x;

    begin(&x, (struct beam_rule){2, 2, 2, EOT, -1});
    assert_ok(feed(&x, first), x.e);
    assert_ok(feed(&x, second), x.e);
    assert_int_equal(x.b.finished, 2);
    wins(&x, -1.5, "11"); /* -0.75 a token, against -2.1 of the finished one */
    begin(&x, (struct beam_rule){2, 1, ROOM, EOT, -1}); /* patience 0.5: one end is enough */
    assert_ok(feed(&x, first), x.e);
    assert_ok(feed(&x, second), x.e);
    wins(&x, -1.5, "11");
}

/* Of equals the child of the likelier parent, then the candidate before. */
TEST(test_ties)
{
    static const struct candidate first[] = {{1, 0, -1}, {2, 0, -1}, {3, 0, -1}};
    static const struct candidate second[] = {{5, 0, -1}, {6, 0, -1}, {7, 0, -1},
                                              {1, 0, -1}, {2, 0, -1}, {3, 0, -1}};
    struct bench x;

    begin(&x, two);
    assert_ok(feed(&x, first), x.e);
    holds(&x, 0, 0, -1, "1");
    holds(&x, 1, 1, -1, "2");
    assert_ok(feed(&x, second), x.e);
    holds(&x, 0, 0, -2, "15");
    holds(&x, 1, 1, -2, "16");
}

/* Candidates that are none: fewer hypotheses live on, and at last none. */
TEST(test_too_few)
{
    const double no = -INFINITY, nan = (double)NAN;
    const struct candidate one[] = {{1, 0, -1}, {2, 0, no}, {-1, 0, -1}};
    const struct candidate three[] = {{1, 0, nan}, {2, 0, -1}, {3, 0, -2}};
    const struct candidate none[] = {{-1, 0, no}, {-1, 0, no}, {-1, 0, no},
                                     {-1, 0, no}, {-1, 0, no}, {-1, 0, no}};
    const struct candidate end[] = {{-1, 0, no},  {-1, 0, no}, {-1, 0, no},
                                    {EOT, 0, -1}, {-1, 0, no}, {-1, 0, no}};
    struct bench x;

    begin(&x, two);
    assert_ok(feed(&x, one), x.e);
    assert_int_equal(x.b.live_count, 1);
    assert_int_equal(x.move_count, 0);
    assert_ok(feed(&x, three), x.e);
    assert_int_equal(x.b.live_count, 2);
    holds(&x, 0, 0, -2, "12");
    holds(&x, 1, 1, -3, "13");
    assert_ok(feed(&x, end), x.e); /* nothing lives: what is finished is the result */
    wins(&x, -4, "13");
    begin(&x, two);
    assert_int_equal(feed(&x, none), ERR_MODEL);
    assert_non_null(strstr(x.e.msg, "leave no token"));
}

/* No branch is both copied from and to, none twice to; all of the live ones are different, and what
 * a branch holds is its parent's and one more. */
static void random_step(struct bench *x, uint64_t *rng, uint32_t stride)
{
    struct candidate top[SIZE_MAX_HERE * (SIZE_MAX_HERE + 1)];
    int32_t caches[SIZE_MAX_HERE][ROOM];
    uint32_t before = x->b.count, sources = 0, targets = 0, live = 0;

    for (uint32_t i = 0; i < x->b.live_count * stride; i++)
        top[i] = (struct candidate){(int32_t)(number_uniform(1, (*rng)++) * 9), 0,
                                    -number_uniform(2, (*rng)++)};
    memcpy(caches, x->tokens, sizeof(caches));
    assert_ok(beam_feed(&x->b, top, stride, x->moves, &x->move_count, &x->ended, &x->e), x->e);
    for (uint32_t i = 0; i < x->move_count; i++) {
        assert_int_equal(targets & 1u << x->moves[i].to, 0);
        sources |= 1u << x->moves[i].from;
        targets |= 1u << x->moves[i].to;
        memcpy(caches[x->moves[i].to], caches[x->moves[i].from], sizeof(caches[0]));
    }
    assert_int_equal(sources & targets, 0);
    for (uint32_t i = 0; i < x->b.live_count && !x->ended; i++) {
        uint32_t branch = x->b.live[i].branch;

        assert_true(branch < x->b.rule.size);
        assert_int_equal(live & 1u << branch, 0);
        live |= 1u << branch;
        assert_memory_equal(caches[branch], x->tokens + (size_t)branch * ROOM,
                            before * sizeof(int32_t));
        adds_up(x->logprobs + (size_t)branch * ROOM, x->b.count, x->b.live[i].logprob);
        assert_true(i == 0 || x->b.live[i - 1].logprob >= x->b.live[i].logprob);
    }
}

TEST(test_random_moves)
{
    uint64_t rng = 0;
    struct bench x;

    for (uint32_t n = 0; n < 2000; n++) {
        uint32_t size = 2 + n % (SIZE_MAX_HERE - 1);

        begin(&x, (struct beam_rule){size, size, ROOM, -2, -1});
        while (!x.ended)
            random_step(&x, &rng, size + 1);
        assert_int_equal(x.b.best_count, ROOM);
    }
}

TEST_MAIN(NULL, NULL)
