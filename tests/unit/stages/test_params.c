/* The stage's parameters: one way of writing them, and no value out of its range. */
#include "tests/common/test.h"

#include <math.h>

#include "base/err.h"
#include "workers/stages/transcribe.h"

#define DEFAULTS                                                                           \
    "{\"compression_ratio_threshold\":2.4,\"language\":\"\",\"logprob_threshold\":-1,"     \
    "\"max_tokens\":0,\"no_speech_threshold\":0.6,\"temperatures\":[0,0.2,0.4,0.6,0.8,1]," \
    "\"translate\":false}"

static void test_round_trip(void **state)
{
    struct transcribe_params p, q;
    struct err e;
    char *json;

    (void)state;
    transcribe_params_default(&p);
    assert_ok(transcribe_params_to_json(&p, &json, &e), e);
    assert_string_equal(json, DEFAULTS);
    assert_ok(transcribe_params_from_json(json, &q, &e), e);
    assert_memory_equal(&p, &q, sizeof(p));
    free(json);
    assert_ok(transcribe_params_from_json("{}", &q, &e), e);
    assert_memory_equal(&p, &q, sizeof(p));

    p.translate = true;
    strcpy(p.language, "haw");
    p.temperature_count = 2;
    p.temperatures[0] = 0.1f;
    p.temperatures[1] = nextafterf(0.3f, 1);
    p.max_tokens = 77;
    p.logprob_threshold = -0.12345678f;
    assert_ok(transcribe_params_to_json(&p, &json, &e), e);
    assert_ok(transcribe_params_from_json(json, &q, &e), e);
    assert_true(q.temperatures[1] == p.temperatures[1]);
    assert_true(q.logprob_threshold == p.logprob_threshold);
    assert_int_equal(q.max_tokens, 77);
    assert_true(q.translate);
    assert_string_equal(q.language, "haw");
    free(json);
}

static void refused(const char *json, const char *says)
{
    struct transcribe_params p = {.max_tokens = 12345};
    struct err e;

    assert_int_equal(transcribe_params_from_json(json, &p, &e), ERR_USAGE);
    if (!strstr(e.msg, says))
        fail_msg("'%s' does not say '%s'", e.msg, says);
    assert_int_equal(p.max_tokens, 12345);
}

static void test_refused(void **state)
{
    (void)state;
    refused("", "no JSON");
    refused("[]", "object");
    refused("{\"a\":1,\"a\":1}", "duplicate");
    refused("{\"beam\":5}", "'beam'");
    refused("{\"language\":\"EN\"}", "language");
    refused("{\"language\":\"x\\\"y\"}", "language");
    refused("{\"language\":\"abcdefghijklmnop\"}", "language");
    refused("{\"language\":7}", "language");
    refused("{\"translate\":1}", "translate");
    refused("{\"temperatures\":[]}", "temperatures");
    refused("{\"temperatures\":[0,0]}", "ascend");
    refused("{\"temperatures\":[0.4,0.2]}", "ascend");
    refused("{\"temperatures\":[-0.1]}", "temperature");
    refused("{\"temperatures\":[3]}", "temperature");
    refused("{\"temperatures\":[0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8]}", "temperatures");
    refused("{\"temperatures\":\"0\"}", "temperatures");
    refused("{\"temperatures\":[null]}", "temperature");
    refused("{\"compression_ratio_threshold\":-1}", "compression_ratio_threshold");
    refused("{\"compression_ratio_threshold\":1e300}", "compression_ratio_threshold");
    refused("{\"logprob_threshold\":0.5}", "logprob_threshold");
    refused("{\"no_speech_threshold\":1.5}", "no_speech_threshold");
    refused("{\"no_speech_threshold\":\"x\"}", "no_speech_threshold");
    refused("{\"max_tokens\":-1}", "max_tokens");
    refused("{\"max_tokens\":100001}", "max_tokens");
    refused("{\"max_tokens\":1.5}", "max_tokens");
}

static void test_check(void **state)
{
    struct transcribe_params p;
    struct err e;
    char *json = NULL;

    (void)state;
    transcribe_params_default(&p);
    p.no_speech_threshold = NAN;
    assert_int_equal(transcribe_params_check(&p, &e), ERR_USAGE);
    transcribe_params_default(&p);
    memset(p.language, 'a', sizeof(p.language));
    assert_int_equal(transcribe_params_to_json(&p, &json, &e), ERR_USAGE);
    assert_null(json);
    transcribe_params_default(&p);
    p.temperature_count = 9;
    assert_int_equal(transcribe_params_check(&p, &e), ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_check),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
