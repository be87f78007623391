/* tests/unit/stages/decoding_bench.h - one window's course by hand: the rows that it asks for, and
 * what is chosen from them. Everything fails the test that it is called in. */
#ifndef NIGHTSHIFT_TESTS_UNIT_STAGES_DECODING_BENCH_H
#define NIGHTSHIFT_TESTS_UNIT_STAGES_DECODING_BENCH_H

#include "base/err.h"
#include "tests/unit/stages/fake_decoder.h"

#define ENOUGH 64 /* positions of the decoder, and rows */

struct bench {
    struct transcribe_params params;
    struct decoding_policy policy;
    struct decoding *d;
    struct decoding_result result;
    struct err e;
};

/* The defaults; of one branch, unless the parameters ask for more by bench_begin. */
void bench_open(struct bench *x, const struct vocabulary *v);
/* A window, without a text before it; makes x->d the first time. */
void bench_begin(struct bench *x, uint64_t seed);
void bench_close(struct bench *x);
/* The only row that is asked for. */
struct choice_ask bench_row(struct bench *x, uint32_t branch, uint32_t pos, int32_t token);
/* What was chosen for the only row. */
void bench_feed(struct bench *x, struct choice c);
/* The next row, and the token that is chosen after it. */
void bench_step(struct bench *x, uint32_t pos, int32_t token, int32_t next, double logprob);
/* The start token, at which `heard` is heard, 75 % sure; goes on with the other one. */
void bench_start(struct bench *x, int32_t heard, int32_t go_on_with);
/* Fails unless it is done, with so many tokens and attempts; puts the result into x. */
void bench_ends(struct bench *x, uint32_t count, uint32_t attempts);

#endif
