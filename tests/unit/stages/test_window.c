/* One window's course without a driver: which rows it asks for, in which order. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/number.h"
#include "gpu/backend.h"
#include "workers/stages/token_rules.h"
#include "workers/stages/window.h"

#define VOCAB 2151
#define SOT 641
#define EOT 640
#define TS 650

static struct backend *be;
static char *tokenizer;
static size_t tokenizer_len;

struct world {
    struct vocabulary *vocab;
    struct rules *rules;
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
    struct token_rules *rules;
    struct err e;

    memset(&x, 0, sizeof(x));
    assert_ok(vocabulary_parse(&s, &x.vocab, &e), e);
    transcribe_params_default(&x.params);
    assert_ok(token_rules_new(x.vocab, VOCAB, &x.params, &rules, &e), e);
    assert_ok(be->ops->rules_new(be, token_rules_spec(rules), &x.rules, &e), e);
    token_rules_free(rules);
    x.policy = (struct window_policy){&x.params, x.vocab, max_tokens};
    assert_ok(window_init(&x.w, &x.policy, &e), e);
    return &x;
}

static void leave(struct world *x)
{
    window_free(&x->w);
    be->ops->rules_free(be, x->rules);
    vocabulary_free(x->vocab);
}

/* Chooses what the window asks for, out of x->logits, and feeds it. */
static void feed(struct world *x)
{
    struct choice_ask ask;
    struct choice c;
    struct err e;

    window_ask(&x->w, &ask);
    assert_ok(
        be->ops->choose(be, x->rules, tensor_of(DTYPE_F32, x->logits, 1, VOCAB), &ask, &c, &e), e);
    assert_ok(window_feed(&x->w, &c, &e), e);
}

/* The window asks for this row; its logits favour one token by far, or many a little. */
static void step(struct world *x, int32_t token, uint32_t pos, int32_t favourite, bool sure)
{
    int32_t got;
    uint32_t at;

    window_row(&x->w, &got, &at);
    assert_int_equal(got, token);
    assert_int_equal(at, pos);
    for (int i = 0; i < VOCAB; i++)
        x->logits[i] = !sure && i >= 300 && i < 400 ? 19.9f : 0;
    x->logits[favourite] = 20;
    feed(x);
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
        feed(x);
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

/* What a window asks at each point of its course. */
static void test_asks(void **state)
{
    static const int32_t fed[] = {TS + 4, 620, 621, TS + 100, TS + 100, 622};
    struct world *x = world("{}", 224), *english;
    struct choice_ask ask;
    struct err e;

    (void)state;
    x->params.temperatures[0] = 0.5f;
    window_begin(&x->w, 9, -1);
    window_ask(&x->w, &ask);
    assert_int_equal(ask.what, CHOOSE_START);
    step(x, SOT, 0, 643, true);
    window_ask(&x->w, &ask);
    assert_int_equal(ask.what, 0); /* the language is fed; nobody looks at what follows */
    step(x, 643, 1, 0, true);
    for (int i = 0; i < 6; i++) {
        struct choice c = {.token = fed[i], .usable = 1};

        window_ask(&x->w, &ask);
        assert_int_equal(ask.what, CHOOSE_TOKEN);
        assert_int_equal(ask.count, i);
        assert_int_equal(ask.last, i > 0 ? fed[i - 1] : -1);
        assert_int_equal(ask.before, i > 1 ? fed[i - 2] : -1);
        assert_int_equal(ask.last_time, i == 0 ? -1 : i < 4 ? TS + 4 : TS + 100);
        assert_true(ask.temperature == 0.5f);
        assert_true(ask.uniform == number_uniform(number_seed(9, 0), (uint64_t)i));
        assert_ok(window_feed(&x->w, &c, &e), e);
    }
    leave(x);
    english = world("{\"is_multilingual\":false}", 224);
    window_begin(&english->w, 9, -1);
    window_ask(&english->w, &ask);
    assert_int_equal(ask.what, CHOOSE_START | CHOOSE_TOKEN);
    assert_int_equal(ask.count, 0);
    leave(english);
}

/* Choices that cannot be gone on with. */
static void test_refusals(void **state)
{
    const struct choice unusable = {.token = 5}, none = {.token = -1, .usable = 1};
    struct world *x = world("{}", 224);
    struct err e;

    (void)state;
    window_begin(&x->w, 1, 642);
    assert_int_equal(window_feed(&x->w, &unusable, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "not a number"));
    step(x, SOT, 0, 642, true);
    assert_ok(window_feed(&x->w, &unusable, &e),
              e); /* the prompt's logits: nobody looked at them */
    assert_int_equal(window_feed(&x->w, &unusable, &e), ERR_MODEL);
    assert_int_equal(window_feed(&x->w, &none, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "leave no token"));
    leave(x);
}

static int setup(void **state)
{
    struct err e;
    FILE *f = fopen(test_source_path("workers/models/whisper-nano/tokenizer.json"), "r");

    (void)state;
    if (!f)
        return -1;
    tokenizer = malloc(1 << 20);
    tokenizer_len = fread(tokenizer, 1, 1 << 20, f);
    fclose(f);
    return backend_open_host(1, &be, &e);
}

static int teardown(void **state)
{
    (void)state;
    free(tokenizer);
    backend_close(be);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_multilingual), cmocka_unit_test(test_english_only),
        cmocka_unit_test(test_fallback),     cmocka_unit_test(test_seed),
        cmocka_unit_test(test_asks),         cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
