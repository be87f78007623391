/* workers/stages/transcribe/decode/drafts.h - independent samplings of one window's text, the best
 * of which is taken; greedy decoding is one of them at temperature 0. Pure; part of decoding.c.
 *
 * Draft i has branch i of the decoder's caches to itself. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_DRAFTS_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_DRAFTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/models/asr_model.h"
#include "workers/stages/transcribe/decode/token_run.h"

struct choice; /* gpu/backend.h */

struct draft {
    uint32_t count; /* of its tokens */
    bool ended;
    double logprob; /* sum over its tokens, with the <|endoftext|>'s */
};

struct drafts {
    uint32_t size;  /* 1 .. ASR_BRANCHES_MAX */
    uint32_t limit; /* tokens of a draft; at least 1 */
    int32_t eot;
    uint32_t capacity;     /* tokens in a row of `rows`; at least limit */
    struct token_run rows; /* borrowed: [size][room] */
    struct draft drafts[ASR_BRANCHES_MAX];
};

void drafts_begin(struct drafts *d, uint32_t size, uint32_t limit, int32_t eot,
                  struct token_run rows, uint32_t capacity);
/* Takes the choice for each draft that has not ended, in their order. *ended: all have. ERR_MODEL:
 * nothing may follow one of them. */
int drafts_feed(struct drafts *d, const struct choice *c, bool *ended, struct err *err);
/* The first one with the best beam_score (beam.h). */
uint32_t drafts_best(const struct drafts *d, float length_penalty);

#endif
