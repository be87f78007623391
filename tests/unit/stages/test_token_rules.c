/* What a vocabulary says about the choice of tokens. */
#include "tests/common/test.h"

#include "gpu/backend.h"
#include "tests/common/nano.h"
#include "workers/stages/transcribe/decode/token_rules.h"
#include "workers/stages/transcribe/transcribe.h"

static struct transcribe_params params; /* the defaults */

TEST(test_spec)
{
    const struct rules_spec *s;
    struct token_rules *r;
    struct backend *be;
    struct rules *made;
    struct err e;

    assert_ok(token_rules_new(nano, 2200, &params, &r, &e), e);
    s = token_rules_spec(r);
    assert_int_equal(s->vocab, 2200);
    assert_int_equal(s->eot, 640);
    assert_int_equal(s->no_speech, 648);
    assert_int_equal(s->timestamp_begin, 650);
    assert_int_equal(s->timestamp_end, 2150);
    assert_int_equal(s->max_initial, 700);
    assert_int_equal(s->language_count, 2);
    assert_int_equal(s->languages[0], 642);
    assert_int_equal(s->languages[1], 643);
    assert_int_equal(s->never_first_count, 2);
    assert_int_equal(s->never_first[0] + s->never_first[1], 220 + 640);
    assert_ok(backend_open_host(1, &be, &e), e);
    assert_ok(be->ops->rules_new(be, s, &made, &e), e);
    be->ops->rules_free(be, made);
    backend_close(be);
    token_rules_free(r);
}

/* Of several languages the model is asked among these alone; of one it was never in question. */
TEST(test_languages)
{
    static const struct {
        const char *list;
        uint32_t count;
        int32_t first;
    } cases[] = {{"", 2, 642},      {"es", 2, 642},          {"en,es", 2, 642},
                 {"de,es", 1, 643}, {"de,en,fr,nl", 1, 642}, {"de,fr", 0, 0}};
    struct transcribe_params p = params;
    struct token_rules *r;
    struct err e;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct rules_spec *s;

        strcpy(p.language, cases[i].list);
        assert_ok(token_rules_new(nano, 2200, &p, &r, &e), e);
        s = token_rules_spec(r);
        assert_int_equal(s->language_count, cases[i].count);
        if (s->language_count)
            assert_int_equal(s->languages[0], cases[i].first);
        if (s->language_count > 1)
            assert_int_equal(s->languages[1], 643);
        token_rules_free(r);
    }
}

TEST(test_model_of_another_size)
{
    struct token_rules *r = NULL;
    struct err e;

    assert_int_equal(token_rules_new(nano, 2150, &params, &r, &e), ERR_MODEL);
    assert_null(r);
    assert_ok(token_rules_new(nano, 2151, &params, &r, &e), e);
    token_rules_free(r);
}

/* The last timestamp that may come first, given in seconds. */
TEST(test_max_initial)
{
    static const struct {
        float seconds;
        int32_t index;
    } cases[] = {{-1, 50}, {0, 0}, {0.5f, 25}, {1, 50}, {0.04f, 2}, {29.98f, 1499}, {30, 1500}};
    struct transcribe_params p = params;
    struct token_rules *r;
    struct err e;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        p.max_initial_timestamp = cases[i].seconds;
        assert_ok(token_rules_new(nano, 2200, &p, &r, &e), e);
        assert_int_equal(token_rules_spec(r)->max_initial, 650 + cases[i].index);
        token_rules_free(r);
    }
}

/* The user's list beside the model's, instead of it, and none. */
TEST(test_suppressed)
{
    struct transcribe_params p = params;
    const struct rules_spec *s;
    struct token_rules *r;
    const int32_t *model;
    struct err e;
    size_t n;

    model = vocabulary_suppress(nano, &n);
    p.suppress_tokens[0] = 7;
    p.suppress_tokens[1] = 2199;
    p.suppress_count = 2;
    assert_ok(token_rules_new(nano, 2200, &p, &r, &e), e);
    s = token_rules_spec(r);
    assert_int_equal(s->never_count, n + 2);
    if (n)
        assert_memory_equal(s->never, model, n * sizeof(*model));
    assert_int_equal(s->never[n], 7);
    assert_int_equal(s->never[n + 1], 2199);
    token_rules_free(r);
    p.suppress_model = false;
    assert_ok(token_rules_new(nano, 2200, &p, &r, &e), e);
    assert_int_equal(token_rules_spec(r)->never_count, 2);
    assert_int_equal(token_rules_spec(r)->never[0], 7);
    token_rules_free(r);
    p.suppress_count = 0;
    assert_ok(token_rules_new(nano, 2200, &p, &r, &e), e);
    assert_int_equal(token_rules_spec(r)->never_count, 0);
    token_rules_free(r);
}

TEST(test_unknown_token)
{
    static const int32_t ids[] = {-2, 2200, INT32_MAX};
    struct transcribe_params p = params;
    struct token_rules *r = NULL;
    struct err e;

    p.suppress_count = 1;
    for (size_t i = 0; i < 3; i++) {
        p.suppress_tokens[0] = ids[i];
        assert_int_equal(token_rules_new(nano, 2200, &p, &r, &e), ERR_USAGE);
        assert_non_null(strstr(e.msg, "suppress_tokens"));
        assert_null(r);
    }
}

static int open_all(void **state)
{
    transcribe_params_default(&params);
    return nano_open(state);
}

TEST_MAIN(open_all, nano_close)
