/* A window that is decoded several times: in its own language, too, and which attempt is taken. */
#include "tests/common/test.h"

#include "tests/unit/stages/decoding_bench.h"

static struct vocabulary *multilingual;

/* A text of one word, in the language whose prompt it stands behind, and the end; the mean of its
 * three log probabilities is given. */
static void say(struct bench *x, int32_t word, double logprob)
{
    bench_step(x, 2, FAKE_TRANSCRIBE, FAKE_TIMES, logprob);
    bench_step(x, 3, FAKE_TIMES, word, logprob);
    bench_step(x, 4, word, FAKE_EOT, logprob);
}

/* Refused in the lane's language, a window is tried in the one that it was heard to speak, at the
 * same temperature; what is drawn then is in the likelier one's. */
TEST(test_own_language)
{
    static const struct {
        double lane, own, drawn;
        int32_t language; /* of what comes out; */
        uint32_t attempts;
    } cases[] = {
        {-0.5, 0, 0, FAKE_EN, 1},    /* it will do */
        {-1.5, -0.5, 0, FAKE_ES, 2}, /* its own is better */
        {-1.5, -1.25, -0.5, FAKE_ES, 3},  {-1.5, -1.75, -0.5, FAKE_EN, 3},
        {-1.5, -1.5, -0.5, FAKE_EN, 3},   /* no better */
        {-1.5, -1.25, -1.75, FAKE_ES, 3}, /* all are refused: the likeliest */
        {-1.25, -1.5, -1.75, FAKE_EN, 3}, {-1.75, -1.5, -1.25, FAKE_ES, 3},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        bool own_is_likelier = cases[i].own > cases[i].lane;
        struct bench x;

        bench_open(&x, multilingual);
        x.params.temperature_count = 2;
        bench_begin(&x, 3);
        bench_start(&x, FAKE_ES, FAKE_EN);
        bench_step(&x, 1, FAKE_EN, -1, 0);
        say(&x, 300, cases[i].lane);
        if (cases[i].attempts > 1) {
            struct choice_ask ask;

            assert_int_equal(decoding_state(x.d), DECODING_PROMPT);
            bench_step(&x, 1, FAKE_ES, -1, 0);
            ask = bench_row(&x, 0, 2, FAKE_TRANSCRIBE);
            assert_true(ask.temperature == x.params.temperatures[0]);
            say(&x, 301, cases[i].own);
        }
        if (cases[i].attempts > 2) {
            struct choice_ask ask;

            if (!own_is_likelier)
                bench_step(&x, 1, FAKE_EN, -1, 0);
            ask = bench_row(&x, 0, 2, FAKE_TRANSCRIBE);
            assert_true(ask.temperature == x.params.temperatures[1]);
            say(&x, 302, cases[i].drawn);
        }
        bench_ends(&x, 2, cases[i].attempts);
        assert_int_equal(x.result.language, cases[i].language);
        assert_true(x.result.language_prob == (cases[i].language == FAKE_ES ? 0.75f : 1));
        assert_int_equal(x.result.prompt[1], cases[i].language);
        bench_close(&x);
    }
}

/* It is not where the user said which it is, nor where the window is not sure enough of it. */
TEST(test_no_own_language)
{
    static const struct {
        const char *language;
        double prob;
        bool tries;
    } cases[] = {{"", 0.5, true},  {"", 0.49, false},     {"en", 0.99, false},
                 {"es", 1, false}, {"en,es", 0.75, true}, {"en,es", 0.25, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct bench x;

        bench_open(&x, multilingual);
        strcpy(x.params.language, cases[i].language);
        x.params.temperature_count = 1;
        bench_begin(&x, 3);
        bench_feed(&x, (struct choice){.language = FAKE_ES, .language_prob = cases[i].prob});
        decoding_go(x.d, FAKE_EN, 1);
        bench_step(&x, 1, FAKE_EN, -1, 0);
        say(&x, 300, -2);
        assert_int_equal(decoding_state(x.d), cases[i].tries ? DECODING_PROMPT : DECODING_DONE);
        if (cases[i].tries) {
            bench_step(&x, 1, FAKE_ES, -1, 0);
            say(&x, 301, -3);
        }
        bench_ends(&x, 2, 1 + cases[i].tries);
        assert_int_equal(x.result.tokens[1], 300);
        assert_int_equal(x.result.language, FAKE_EN);
        assert_int_equal(x.result.prompt[1], FAKE_EN);
        assert_int_equal(x.result.unlikely, cases[i].tries);
        bench_close(&x);
    }
}

/* Behind a previous text, and with drafts: the prompt is fed anew from the language on, and the
 * branches take it over again. */
TEST(test_own_language_of_drafts)
{
    static const int32_t previous[] = {300, 301};
    const struct choice bad = {.token = FAKE_EOT, .logprob = -9, .usable = 1};
    struct choice c[5] = {bad, bad, bad, bad, bad};
    struct asr_move moves[3];
    struct choice_ask asks[5];
    struct asr_row rows[5];
    struct bench x;

    bench_open(&x, multilingual);
    x.params.temperatures[0] = 0.3f;
    x.params.temperature_count = 1;
    x.params.best_of = 2;
    bench_begin(&x, 5);
    decoding_begin(x.d, 1, previous, 2);
    bench_start(&x, FAKE_ES, FAKE_EN);
    assert_int_equal(decoding_rows(x.d, rows, asks, 5), 5);
    assert_int_equal(rows[4].token, FAKE_EN);
    assert_ok(decoding_feed(x.d, c, NULL, 5, &x.e), x.e);
    assert_int_equal(decoding_moves(x.d, moves), 1);
    assert_int_equal(decoding_rows(x.d, rows, asks, 5), 2);
    assert_ok(decoding_feed(x.d, c, NULL, 2, &x.e), x.e);
    assert_int_equal(decoding_moves(x.d, moves), 0);
    assert_int_equal(decoding_rows(x.d, rows, asks, 5), 1);
    assert_int_equal(rows[0].branch, 0);
    assert_int_equal(rows[0].pos, 4);
    assert_int_equal(rows[0].token, FAKE_ES);
    assert_int_equal(asks[0].what, 0); /* silence was heard */
    assert_ok(decoding_feed(x.d, c, NULL, 1, &x.e), x.e);
    assert_int_equal(decoding_moves(x.d, moves), 1);
    assert_int_equal(moves[0].from, 0);
    assert_int_equal(moves[0].to, 1);
    assert_int_equal(decoding_rows(x.d, rows, asks, 5), 2);
    assert_int_equal(rows[1].pos, 5);
    assert_int_equal(rows[1].token, FAKE_TRANSCRIBE);
    c[1].logprob = -0.5;
    assert_ok(decoding_feed(x.d, c, NULL, 2, &x.e), x.e);
    bench_ends(&x, 0, 2);
    assert_int_equal(x.result.language, FAKE_ES);
    bench_close(&x);
}

/* Of refused attempts: the likeliest that does not repeat itself, of equals the first. */
TEST(test_likeliest_refused)
{
    static const struct {
        double logprob[3];
        bool loops[3];
        uint32_t taken;
    } cases[] = {
        {{-3, -2, -4}, {false, false, false}, 1}, {{-2, -2, -2}, {false, false, false}, 0},
        {{-4, -3, -2}, {false, false, false}, 2}, {{-2, -3, -4}, {true, false, false}, 1},
        {{0, -9, 0}, {true, false, true}, 1},     {{-1, 0, -2}, {true, true, true}, 1},
        {{-3, 0, -2}, {false, true, false}, 2},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct bench x;

        bench_open(&x, multilingual);
        x.params.temperature_count = 3;
        x.params.compression_ratio_threshold = 1.2f;
        bench_begin(&x, 1);
        bench_start(&x, FAKE_ES, -1);
        bench_step(&x, 1, FAKE_ES, -1, 0);
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t words = cases[i].loops[k] ? 25 : 1;

            bench_step(&x, 2, FAKE_TRANSCRIBE, FAKE_TIMES + (int32_t)k, cases[i].logprob[k]);
            bench_step(&x, 3, FAKE_TIMES + (int32_t)k, 300, cases[i].logprob[k]);
            for (uint32_t n = 1; n < words; n++)
                bench_step(&x, 3 + n, 300, 300, cases[i].logprob[k]);
            bench_step(&x, 3 + words, 300, FAKE_EOT, cases[i].logprob[k]);
        }
        assert_int_equal(decoding_state(x.d), DECODING_DONE);
        decoding_result(x.d, &x.result);
        assert_int_equal(x.result.attempts, 3);
        assert_int_equal(x.result.tokens[0], FAKE_TIMES + (int32_t)cases[i].taken);
        assert_int_equal(x.result.count, cases[i].loops[cases[i].taken] ? 26 : 2);
        assert_true(x.result.avg_logprob == (float)cases[i].logprob[cases[i].taken]);
        assert_true(x.result.temperature == x.params.temperatures[cases[i].taken]);
        bench_close(&x);
    }
}

/* A likely timestamp does not make a word likely that nobody said. */
TEST(test_silent_for_its_text)
{
    static const struct {
        double first;
        bool silent;
    } cases[] = {{-2, true}, {-1.75, false}};

    for (size_t i = 0; i < 4; i++) {
        double first = cases[i / 2].first;
        uint32_t more = i % 2; /* another word, that is likely */
        bool silent = cases[i / 2].silent || !more;
        struct bench x;

        bench_open(&x, multilingual);
        bench_begin(&x, 1);
        bench_feed(&x, (struct choice){.language = FAKE_ES, .language_prob = 1, .no_speech = 0.7});
        decoding_go(x.d, -1, 1);
        bench_step(&x, 1, FAKE_ES, -1, 0);
        bench_step(&x, 2, FAKE_TRANSCRIBE, FAKE_TIMES, 0);
        bench_step(&x, 3, FAKE_TIMES, 300, first);
        if (more)
            bench_step(&x, 4, 300, 301, 0);
        bench_step(&x, 4 + more, 300 + (int32_t)more, FAKE_EOT, 0);
        bench_ends(&x, 2 + more, 1);
        assert_true(x.result.avg_logprob > -1);
        assert_true(x.result.text_logprob == (float)(first / (1 + more)));
        assert_int_equal(x.result.silent, silent);
        bench_close(&x);
    }
}

int main(void)
{
    int rc;

    multilingual = fake_vocabulary(true);
    rc = suite_run(NULL, NULL);
    vocabulary_free(multilingual);
    return rc;
}
