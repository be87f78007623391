/* One window's course without a driver: which rows it asks for, in which order. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/err.h"
#include "workers/stages/window.h"

#define VOCAB 2151
#define SOT 641
#define EOT 640
#define TS 650

static char *tokenizer;
static size_t tokenizer_len;

struct world {
    struct vocabulary *vocab;
    struct token_rules *rules;
    struct transcribe_params params;
    struct window_policy policy;
    struct window w;
    float logits[VOCAB];
};

/* The nano tokenizer as a multilingual or an English-only model. */
static struct world *world(const char *generation, uint32_t max_tokens)
{
    static struct world x;
    struct vocabulary_source s = {tokenizer,     generation,         NULL,
                                  tokenizer_len, strlen(generation), 0};
    struct err e;

    memset(&x, 0, sizeof(x));
    assert_ok(vocabulary_parse(&s, &x.vocab, &e), e);
    assert_ok(token_rules_new(x.vocab, VOCAB, &x.rules, &e), e);
    transcribe_params_default(&x.params);
    x.policy = (struct window_policy){&x.params, x.vocab, x.rules, max_tokens};
    assert_ok(window_init(&x.w, &x.policy, &e), e);
    return &x;
}

static void leave(struct world *x)
{
    window_free(&x->w);
    token_rules_free(x->rules);
    vocabulary_free(x->vocab);
}

/* The window asks for this row; its logits favour one token by far, or many a little. */
static void step(struct world *x, int32_t token, uint32_t pos, int32_t favourite, bool sure)
{
    struct err e;
    int32_t got;
    uint32_t at;

    window_row(&x->w, &got, &at);
    assert_int_equal(got, token);
    assert_int_equal(at, pos);
    for (int i = 0; i < VOCAB; i++)
        x->logits[i] = !sure && i >= 300 && i < 400 ? 19.9f : 0;
    x->logits[favourite] = 20;
    assert_ok(window_feed(&x->w, x->logits, &e), e);
}

static void test_multilingual(void **state)
{
    struct world *x = world("{}", 224);

    (void)state;
    window_begin(&x->w, 1, -1);
    step(x, SOT, 0, 643, true);
    assert_int_equal(x->w.language, 643);
    step(x, 643, 1, 0, true);
    step(x, 645, 2, TS, true);
    step(x, TS, 3, 620, true);
    step(x, 620, 4, TS + 100, true);
    step(x, TS + 100, 5, EOT, true);
    assert_int_equal(x->w.state, WINDOW_DONE);
    assert_int_equal(x->w.count, 3);
    assert_false(x->w.silent);
    assert_true(x->w.avg_logprob > -0.01f && x->w.avg_logprob <= 0);
    /* The same window again for another recording, with its language given and to be translated. */
    x->params.translate = true;
    window_begin(&x->w, 1, 642);
    step(x, SOT, 0, 643, true);
    step(x, 642, 1, 0, true);
    step(x, 644, 2, TS, true);
    assert_true(x->w.language_prob == 1);
    leave(x);
}

/* Neither language nor task; the first logits choose the first token. */
static void test_english_only(void **state)
{
    struct world *x = world("{\"is_multilingual\":false}", 224);

    (void)state;
    window_begin(&x->w, 1, -1);
    step(x, SOT, 0, TS + 2, true);
    step(x, TS + 2, 1, 620, true);
    step(x, 620, 2, TS + 100, true);
    step(x, TS + 100, 3, EOT, true);
    assert_int_equal(x->w.state, WINDOW_DONE);
    assert_int_equal(x->w.count, 3);
    leave(x);
}

/* A new temperature begins at the prompt's last token: the caches before it stay. */
static void test_fallback(void **state)
{
    static const char *const generations[] = {"{}", "{\"is_multilingual\":false}"};

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct world *x = world(generations[k], 3);
        uint32_t last = k ? 0 : 2;
        int32_t token = k ? SOT : 645, first;

        window_begin(&x->w, 1, k ? -1 : 642);
        if (!k) {
            step(x, SOT, 0, 642, true);
            step(x, 642, 1, 0, true);
        }
        step(x, token, last, TS, true);
        step(x, TS, last + 1, 620, false);
        first = x->w.tokens[1];
        assert_int_equal(first, 620);
        step(x, 620, last + 2, 620, false); /* the limit of three tokens: judged */
        assert_int_equal(x->w.state, WINDOW_TEXT);
        assert_int_equal(x->w.attempt, 1);
        step(x, token, last, TS, true);
        step(x, TS, last + 1, 620, true);
        step(x, 620, last + 2, EOT, true);
        assert_int_equal(x->w.state, WINDOW_DONE);
        assert_int_equal(x->w.count, 2);
        assert_true(x->w.temperature == 0.2f);
        leave(x);
    }
}

/* What is drawn depends on the seed and the temperature, and on nothing else. */
static void draw(uint64_t seed, int32_t out[8])
{
    struct world *x = world("{}", 8);
    struct err e;
    uint32_t pos;
    int32_t token;

    x->params.temperatures[0] = 0.8f;
    x->params.temperature_count = 1;
    window_begin(&x->w, seed, 642);
    while (x->w.state != WINDOW_DONE) {
        window_row(&x->w, &token, &pos);
        for (int i = 0; i < VOCAB; i++)
            x->logits[i] = i >= 300 && i < 400 ? 5 : -20;
        if (x->w.state != WINDOW_TEXT || !x->w.count)
            x->logits[TS] = 20;
        assert_ok(window_feed(&x->w, x->logits, &e), e);
    }
    assert_int_equal(x->w.count, 8);
    memcpy(out, x->w.tokens, 8 * sizeof(*out));
    leave(x);
}

static void test_seed(void **state)
{
    int32_t a[8], b[8];

    (void)state;
    draw(1, a);
    draw(1, b);
    assert_memory_equal(a, b, sizeof(a));
    draw(2, b);
    assert_memory_not_equal(a, b, sizeof(a));
}

static int setup(void **state)
{
    FILE *f = fopen(test_source_path("workers/models/whisper-nano/tokenizer.json"), "r");

    (void)state;
    if (!f)
        return -1;
    tokenizer = malloc(1 << 20);
    tokenizer_len = fread(tokenizer, 1, 1 << 20, f);
    fclose(f);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_multilingual),
        cmocka_unit_test(test_english_only),
        cmocka_unit_test(test_fallback),
        cmocka_unit_test(test_seed),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
