#include "tests/unit/stages/decoding_bench.h"
#include "workers/models/whisper/whisper.h"

#include "tests/common/test.h"

void bench_open(struct bench *x, const struct vocabulary *v)
{
    memset(x, 0, sizeof(*x));
    transcribe_params_default(&x->params);
    x->policy = (struct decoding_policy){&x->params, v, ENOUGH, ENOUGH / 2, 1, whisper_prompt};
}

void bench_begin(struct bench *x, uint64_t seed)
{
    if (x->policy.branches < x->params.beam_size)
        x->policy.branches = x->params.beam_size;
    if (x->policy.branches < x->params.best_of)
        x->policy.branches = x->params.best_of;
    if (!x->d)
        assert_ok(decoding_new(&x->policy, &x->d, &x->e), x->e);
    decoding_begin(x->d, seed, NULL, 0);
}

void bench_close(struct bench *x) { decoding_free(x->d); }

struct choice_ask bench_row(struct bench *x, uint32_t branch, uint32_t pos, int32_t token)
{
    struct choice_ask asks[ENOUGH];
    struct asr_row rows[ENOUGH];

    assert_int_equal(decoding_rows(x->d, rows, asks, ENOUGH), 1);
    assert_int_equal(rows[0].branch, branch);
    assert_int_equal(rows[0].pos, pos);
    assert_int_equal(rows[0].token, token);
    return asks[0];
}

void bench_feed(struct bench *x, struct choice c)
{
    c.usable = 1;
    assert_ok(decoding_feed(x->d, &c, NULL, 1, &x->e), x->e);
}

void bench_step(struct bench *x, uint32_t pos, int32_t token, int32_t next, double logprob)
{
    bench_row(x, 0, pos, token);
    bench_feed(x, (struct choice){.token = next, .logprob = logprob});
}

void bench_start(struct bench *x, int32_t heard, int32_t go_on_with)
{
    float prob, no_speech;
    int32_t language;

    assert_int_equal(bench_row(x, 0, 0, FAKE_SOT).what, CHOOSE_START);
    bench_feed(x, (struct choice){.language = heard, .language_prob = 0.75, .no_speech = 0.25});
    assert_int_equal(decoding_state(x->d), DECODING_LANGUAGE);
    decoding_heard(x->d, &language, &prob, &no_speech);
    assert_int_equal(language, heard);
    assert_true(prob == 0.75f && no_speech == 0.25f);
    decoding_go(x->d, go_on_with, 1);
}

void bench_ends(struct bench *x, uint32_t count, uint32_t attempts)
{
    assert_int_equal(decoding_state(x->d), DECODING_DONE);
    decoding_result(x->d, &x->result);
    assert_int_equal(x->result.count, count);
    assert_int_equal(x->result.attempts, attempts);
}
