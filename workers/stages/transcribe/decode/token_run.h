/* workers/stages/transcribe/decode/token_run.h - tokens of a hypothesis, each with its natural log
 * probability at temperature 1, under the rules of what may follow. Part of decoding.c. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_TOKEN_RUN_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_TOKEN_RUN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct token_run {
    int32_t *ids;
    float *logprobs; /* as many */
};

/* The run for `row` in rows of `capacity` tokens each. */
static inline struct token_run token_run_at(struct token_run rows, uint32_t row, uint32_t capacity)
{
    size_t at = (size_t)row * capacity;

    return (struct token_run){rows.ids + at, rows.logprobs + at};
}

static inline void token_run_copy(struct token_run to, struct token_run from, uint32_t count)
{
    memcpy(to.ids, from.ids, count * sizeof(*to.ids));
    memcpy(to.logprobs, from.logprobs, count * sizeof(*to.logprobs));
}

#endif
