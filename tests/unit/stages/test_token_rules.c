/* What a vocabulary says about the choice of tokens. */
#include "tests/common/test.h"

#include "gpu/backend.h"
#include "workers/stages/token_rules.h"
#include "workers/text/vocabulary.h"

static struct vocabulary *vocab;

static void test_spec(void **state)
{
    const struct rules_spec *s;
    struct token_rules *r;
    struct backend *be;
    struct rules *made;
    struct err e;

    (void)state;
    assert_ok(token_rules_new(vocab, 2200, &r, &e), e);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec),
        cmocka_unit_test(test_model_of_another_size),
    };
    struct err e;
    int rc;

    if (vocabulary_load(test_source_path("workers/models/whisper-nano"), &vocab, &e)) {
        print_error("%s\n", e.msg);
        return 1;
    }
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    vocabulary_free(vocab);
    return rc;
}
