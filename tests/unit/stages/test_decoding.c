/* One window's course by hand: which rows it asks for, in which order, and how it ends. */
#include "tests/common/test.h"

#include "base/number.h"
#include "tests/unit/stages/decoding_bench.h"

static struct vocabulary *english, *multilingual;

TEST(test_multilingual)
{
    struct bench x;

    bench_open(&x, multilingual);
    bench_begin(&x, 1);
    bench_start(&x, FAKE_ES, -1); /* goes on with what was heard */
    assert_int_equal(decoding_state(x.d), DECODING_PROMPT);
    assert_int_equal(bench_row(&x, 0, 1, FAKE_ES).what, 0);
    bench_feed(&x, (struct choice){.token = -1});
    bench_step(&x, 2, FAKE_TRANSCRIBE, FAKE_TIMES, -0.25);
    bench_step(&x, 3, FAKE_TIMES, 300, -0.25);
    bench_step(&x, 4, 300, FAKE_EOT, -0.25);
    bench_ends(&x, 2, 1);
    assert_int_equal(x.result.tokens[1], 300);
    assert_true(x.result.avg_logprob == -0.25f && !x.result.silent);
    assert_int_equal(x.result.language, FAKE_ES);
    assert_true(x.result.language_prob == 0.75f);
    assert_int_equal(x.result.prompt_len, 3);
    x.params.translate = true; /* the next window: its language is given */
    decoding_begin(x.d, 1, NULL, 0);
    bench_start(&x, FAKE_ES, FAKE_EN);
    bench_step(&x, 1, FAKE_EN, -1, 0);
    bench_step(&x, 2, FAKE_TRANSLATE, FAKE_EOT, -0.5);
    bench_ends(&x, 0, 1);
    assert_int_equal(x.result.language, FAKE_EN);
    assert_true(x.result.language_prob == 1);
    bench_close(&x);
}

/* Neither language nor task; the first logits choose the first token. */
TEST(test_english_only)
{
    struct bench x;
    uint32_t both = CHOOSE_START | CHOOSE_TOKEN;

    bench_open(&x, english);
    bench_begin(&x, 1);
    assert_int_equal(bench_row(&x, 0, 0, FAKE_SOT).what, both);
    bench_feed(&x, (struct choice){.token = FAKE_TIMES, .logprob = -1});
    assert_int_equal(decoding_state(x.d), DECODING_LANGUAGE);
    decoding_go(x.d, FAKE_ES, 0.5f);
    bench_step(&x, 1, FAKE_TIMES, 300, -1);
    bench_step(&x, 2, 300, FAKE_EOT, -1);
    bench_ends(&x, 2, 1);
    assert_int_equal(x.result.language, -1);
    assert_true(x.result.language_prob == 1);
    decoding_begin(x.d, 1, NULL, 0); /* it ends with its first token: nobody waits for it */
    bench_feed(&x, (struct choice){.token = FAKE_EOT});
    bench_ends(&x, 0, 1);
    bench_close(&x);
}

TEST(test_without_timestamps)
{
    const struct vocabulary *const vocabs[] = {english, multilingual};
    const struct choice prompted[2] = {{0}};
    struct choice_ask asks[4];
    struct asr_row rows[4];
    struct bench x;

    for (uint32_t k = 0; k < 2; k++) {
        bench_open(&x, vocabs[k]);
        x.params.without_timestamps = true;
        bench_begin(&x, 1);
        assert_int_equal(bench_row(&x, 0, 0, FAKE_SOT).what, CHOOSE_START);
        bench_feed(&x, (struct choice){.language = k ? FAKE_ES : -1});
        decoding_go(x.d, -1, 1);
        if (k) {
            assert_int_equal(decoding_rows(x.d, rows, asks, 4), 2);
            assert_int_equal(rows[0].token, FAKE_ES);
            assert_int_equal(rows[1].token, FAKE_TRANSCRIBE);
            assert_ok(decoding_feed(x.d, prompted, NULL, 2, &x.e), x.e);
        }
        assert_int_equal(bench_row(&x, 0, 1 + 2 * k, FAKE_NO_TIMESTAMPS).what,
                         CHOOSE_TOKEN | CHOOSE_NO_TIMES);
        bench_feed(&x, (struct choice){.token = 300});
        bench_step(&x, 2 + 2 * k, 300, FAKE_EOT, 0);
        bench_ends(&x, 1, 1);
        bench_close(&x);
    }
}

/* A new temperature begins at the prompt's last token: the caches before it stay. */
TEST(test_fallback)
{
    struct bench x;

    bench_open(&x, multilingual);
    strcpy(x.params.language, "en"); /* no other is tried */
    x.policy.max_tokens = 2;
    bench_begin(&x, 1);
    bench_start(&x, FAKE_ES, FAKE_EN);
    bench_step(&x, 1, FAKE_EN, -1, 0);
    bench_step(&x, 2, FAKE_TRANSCRIBE, FAKE_TIMES, -4);
    bench_step(&x, 3, FAKE_TIMES, 300, -4); /* the limit of two tokens: judged, and refused */
    assert_true(bench_row(&x, 0, 2, FAKE_TRANSCRIBE).temperature == x.params.temperatures[1]);
    bench_step(&x, 2, FAKE_TRANSCRIBE, FAKE_TIMES, 0);
    bench_step(&x, 3, FAKE_TIMES, FAKE_EOT, 0);
    bench_ends(&x, 1, 2);
    assert_true(x.result.temperature == x.params.temperatures[1]);
    assert_true(x.result.unlikely && !x.result.repetitive);
    bench_close(&x);
}

/* At the last temperature what was got is taken, whatever it is; at none, if nobody speaks. */
TEST(test_ladder_ends)
{
    struct bench x;

    for (uint32_t silent = 0; silent < 2; silent++) {
        bench_open(&x, english);
        x.params.temperature_count = 3;
        bench_begin(&x, 1);
        bench_feed(
            &x, (struct choice){.token = FAKE_EOT, .logprob = -2, .no_speech = silent ? 0.7 : 0.5});
        decoding_go(x.d, -1, 1);
        for (uint32_t i = 1; i < 3 && !silent; i++)
            bench_step(&x, 0, FAKE_SOT, FAKE_EOT, -2);
        bench_ends(&x, 0, silent ? 1 : 3);
        assert_int_equal(x.result.silent, silent);
        assert_int_equal(x.result.unlikely, !silent);
        bench_close(&x);
    }
}

/* What a window asks at each point of its text. */
TEST(test_asks)
{
    static const int32_t fed[] = {FAKE_TIMES + 4,   300, 301, FAKE_TIMES + 100,
                                  FAKE_TIMES + 100, 302};
    struct choice_ask ask;
    struct bench x;

    bench_open(&x, english);
    x.params.temperatures[0] = 0.5f;
    bench_begin(&x, 9);
    for (int i = 0; i < 6; i++) {
        ask = bench_row(&x, 0, (uint32_t)i, i ? fed[i - 1] : FAKE_SOT);
        assert_int_equal(ask.what, i ? CHOOSE_TOKEN : CHOOSE_TOKEN | CHOOSE_START);
        assert_int_equal(ask.count, i);
        assert_int_equal(ask.last, i > 0 ? fed[i - 1] : -1);
        assert_int_equal(ask.before, i > 1 ? fed[i - 2] : -1);
        assert_int_equal(ask.last_time, i == 0 ? -1 : i < 4 ? FAKE_TIMES + 4 : FAKE_TIMES + 100);
        assert_true(ask.temperature == 0.5f);
        assert_true(ask.uniform == number_uniform(number_seed(9, 0), (uint64_t)i));
        bench_feed(&x, (struct choice){.token = fed[i]});
        decoding_go(x.d, -1, 1); /* nothing, but after the first */
    }
    bench_close(&x);
}

/* Several drafts: the prompt is copied once, the first one's draws are those of a single draft, and
 * ended ones ask for nothing. */
TEST(test_drafts)
{
    struct choice c[3] = {{.token = FAKE_TIMES, .logprob = -1, .usable = 1},
                          {.token = FAKE_EOT, .logprob = -2, .usable = 1},
                          {.token = FAKE_TIMES + 1, .logprob = -0.5, .usable = 1}};
    const struct choice again = {.token = FAKE_EOT, .logprob = -9, .usable = 1};
    struct asr_move moves[3];
    struct choice_ask asks[3];
    struct asr_row rows[3];
    struct bench x;

    bench_open(&x, multilingual);
    strcpy(x.params.language, "en");
    x.params.temperatures[0] = 0.3f;
    x.params.best_of = 3;
    bench_begin(&x, 5);
    bench_start(&x, FAKE_ES, FAKE_EN);
    assert_int_equal(decoding_moves(x.d, moves), 0); /* not before the prompt is there */
    bench_step(&x, 1, FAKE_EN, -1, 0);
    assert_int_equal(decoding_moves(x.d, moves), 2);
    assert_int_equal(moves[0].from + moves[1].from, 0);
    assert_int_equal(decoding_moves(x.d, moves), 0);
    assert_int_equal(decoding_rows(x.d, rows, asks, 3), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(rows[i].branch, i);
        assert_int_equal(rows[i].pos, 2);
        for (uint32_t k = 0; k < i; k++)
            assert_true(asks[i].uniform != asks[k].uniform);
    }
    assert_true(asks[0].uniform == number_uniform(number_seed(5, 0), 0));
    assert_ok(decoding_feed(x.d, c, NULL, 3, &x.e), x.e);
    assert_int_equal(decoding_rows(x.d, rows, asks, 3), 2);
    assert_int_equal(rows[0].branch, 0);
    assert_int_equal(rows[1].branch, 2);
    assert_int_equal(rows[1].token, FAKE_TIMES + 1);
    c[0] = c[1] = again; /* sums -10, -2, -9.5: the second one is best, but too unlikely */
    assert_ok(decoding_feed(x.d, c, NULL, 2, &x.e), x.e);
    assert_int_equal(decoding_moves(x.d, moves), 0); /* the prompt is in all branches still */
    assert_int_equal(decoding_rows(x.d, rows, asks, 3), 3);
    assert_int_equal(rows[2].pos, 2);
    c[0] = c[1] = c[2] = (struct choice){.token = FAKE_EOT, .usable = 1};
    c[1].logprob = 0;
    c[0].logprob = c[2].logprob = -0.5;
    assert_ok(decoding_feed(x.d, c, NULL, 3, &x.e), x.e);
    bench_ends(&x, 0, 2);
    assert_true(x.result.avg_logprob == 0);
    bench_close(&x);
}

/* A previous text: the language is heard without it, silence with it. */
TEST(test_previous)
{
    static const int32_t previous[] = {300, 301};
    static const int32_t prompt[] = {FAKE_SOT_PREV, 300, 301, FAKE_SOT, FAKE_ES};
    struct choice c[5] = {{0}};
    struct choice_ask asks[5];
    struct asr_row rows[5];
    struct bench x;

    bench_open(&x, multilingual);
    bench_begin(&x, 1);
    for (uint32_t silent = 0; silent < 2; silent++) {
        decoding_begin(x.d, 1, previous, 2);
        assert_int_equal(bench_row(&x, 0, 0, FAKE_SOT).what, CHOOSE_START);
        bench_feed(&x, (struct choice){.language = FAKE_ES, .no_speech = 0.99}); /* not believed */
        decoding_go(x.d, -1, 1);
        assert_int_equal(decoding_rows(x.d, rows, asks, 2), 2);
        assert_ok(decoding_feed(x.d, c, NULL, 2, &x.e), x.e);
        assert_int_equal(decoding_rows(x.d, rows, asks, 5), 3);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(rows[i].pos, i + 2);
            assert_int_equal(rows[i].token, prompt[i + 2]);
            assert_int_equal(asks[i].what, rows[i].token == FAKE_SOT ? CHOOSE_START : 0);
        }
        c[1] = (struct choice){.no_speech = silent ? 0.96 : 0.125, .usable = 1};
        assert_ok(decoding_feed(x.d, c, NULL, 3, &x.e), x.e);
        if (!silent)
            bench_step(&x, 5, FAKE_TRANSCRIBE, FAKE_EOT, 0);
        bench_ends(&x, 0, !silent);
        assert_int_equal(x.result.silent, silent);
        assert_true(x.result.no_speech_prob == (silent ? 0.96f : 0.125f));
    }
    bench_close(&x);
}

/* English-only: the row that tells about silence is the first of the text as well. */
TEST(test_previous_in_english)
{
    const int32_t previous = 300;
    struct bench x;

    bench_open(&x, english);
    x.params.temperature_count = 2;
    bench_begin(&x, 1);
    for (uint32_t silent = 0; silent < 2; silent++) {
        decoding_begin(x.d, 1, &previous, 1);
        assert_int_equal(bench_row(&x, 0, 0, FAKE_SOT).what, CHOOSE_START);
        bench_feed(&x, (struct choice){.no_speech = 0.99});
        decoding_go(x.d, -1, 1);
        assert_int_equal(
            decoding_rows(x.d, (struct asr_row[2]){{0}}, (struct choice_ask[2]){{0}}, 2), 2);
        assert_ok(decoding_feed(x.d, (struct choice[2]){{0}}, NULL, 2, &x.e), x.e);
        assert_int_equal(bench_row(&x, 0, 2, FAKE_SOT).what, CHOOSE_START | CHOOSE_TOKEN);
        bench_feed(&x, (struct choice){
                           .token = FAKE_EOT, .logprob = -3, .no_speech = silent ? 0.96 : 0.5});
        if (!silent) {
            assert_int_equal(bench_row(&x, 0, 2, FAKE_SOT).what, CHOOSE_TOKEN);
            bench_step(&x, 2, FAKE_SOT, FAKE_EOT, -3);
        }
        bench_ends(&x, 0, silent ? 0 : 2);
        assert_int_equal(x.result.silent, silent);
    }
    bench_close(&x);
}

/* No more of it than half of the positions, the latest. */
TEST(test_long_previous)
{
    int32_t previous[ENOUGH];
    struct bench x;

    bench_open(&x, multilingual);
    bench_begin(&x, 1);
    for (int32_t i = 0; i < ENOUGH; i++)
        previous[i] = i;
    decoding_begin(x.d, 1, previous, ENOUGH);
    bench_start(&x, FAKE_EN, FAKE_EN);
    decoding_result(x.d, &x.result);
    assert_int_equal(x.result.prompt_len, ENOUGH / 2 + 3);
    assert_int_equal(x.result.prompt[0], FAKE_SOT_PREV);
    assert_int_equal(x.result.prompt[1], ENOUGH / 2 + 1);
    assert_int_equal(x.result.prompt[ENOUGH / 2 - 1], ENOUGH - 1);
    assert_int_equal(x.result.prompt[ENOUGH / 2], FAKE_SOT);
    bench_close(&x);
}

TEST(test_certain_silence)
{
    struct bench x;

    bench_open(&x, multilingual);
    bench_begin(&x, 1);
    bench_feed(&x, (struct choice){.language = FAKE_EN, .no_speech = 0.951});
    bench_ends(&x, 0, 0);
    assert_true(x.result.silent);
    x.params.no_speech_threshold = 0.97f; /* the user's says otherwise */
    decoding_begin(x.d, 1, NULL, 0);
    bench_feed(&x, (struct choice){.language = FAKE_EN, .no_speech = 0.951});
    assert_int_equal(decoding_state(x.d), DECODING_LANGUAGE);
    bench_close(&x);
}

static int feed_bad(struct bench *x, int32_t usable)
{
    const struct candidate none[6] = {{-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0},
                                      {-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}};
    const struct choice c[2] = {{.token = -1, .usable = 1}, {.token = -1, .usable = usable}};

    x->e.msg[0] = 0;
    return decoding_feed(x->d, c + 1, none, 1, &x->e);
}

/* Choices that cannot be gone on with. */
TEST(test_refusals)
{
    struct bench x;

    for (uint32_t beams = 1; beams < 3; beams++) {
        bench_open(&x, multilingual);
        x.params.beam_size = beams;
        bench_begin(&x, 1);
        assert_int_equal(feed_bad(&x, 0), ERR_MODEL);
        assert_non_null(strstr(x.e.msg, "not a number"));
        bench_start(&x, FAKE_ES, FAKE_EN);
        assert_ok(feed_bad(&x, 0), x.e); /* of the prompt's logits nobody wanted anything */
        assert_int_equal(feed_bad(&x, 0), ERR_MODEL);
        assert_non_null(strstr(x.e.msg, "not a number"));
        assert_int_equal(feed_bad(&x, 1), ERR_MODEL);
        assert_non_null(strstr(x.e.msg, "leave no token"));
        bench_close(&x);
    }
}

TEST(test_impossible_policies)
{
    struct decoding *d = NULL;
    struct bench x;

    bench_open(&x, multilingual);
    x.params.beam_size = 2;
    assert_int_equal(decoding_new(&x.policy, &d, &x.e), ERR_USAGE);
    x.params.beam_size = 1;
    x.params.best_of = 2;
    assert_int_equal(decoding_new(&x.policy, &d, &x.e), ERR_USAGE);
    x.policy.branches = ASR_BRANCHES_MAX + 1;
    assert_int_equal(decoding_new(&x.policy, &d, &x.e), ERR_USAGE);
    x.policy.branches = 2;
    x.policy.positions = 5;
    assert_int_equal(decoding_new(&x.policy, &d, &x.e), ERR_MODEL);
    assert_null(d);
}

int main(void)
{
    int rc;

    english = fake_vocabulary(false);
    multilingual = fake_vocabulary(true);
    rc = suite_run(NULL, NULL);
    vocabulary_free(english);
    vocabulary_free(multilingual);
    return rc;
}
