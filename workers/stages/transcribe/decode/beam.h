/* workers/stages/transcribe/decode/beam.h - the hypotheses of one window's text: a beam
 * search, or independent drafts. Pure; part of decoding.c.
 *
 * The beam search is openai-whisper's, with the patience of Kasai et al. (arXiv:2204.05424).
 *
 * In each step the likeliest continuations of all live hypotheses are pooled and taken in the order
 * of their sums of log probabilities, until `size` of them live on; those that end with
 * <|endoftext|> before that are finished. The search is over when `enough` are finished or `limit`
 * tokens are reached; if fewer than `size` are finished then, the likeliest live ones count as
 * finished, too. The best of the finished by beam_score is the result.
 *
 * Each live hypothesis has a branch of the decoder's caches. A parent's first child keeps the
 * parent's branch, further ones get copies in the branches of those that died: no branch is both
 * copied from and to. The tokens are kept by branch as well, and move with it. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_BEAM_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_BEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "workers/models/asr_model.h"

struct candidate; /* gpu/backend.h */
struct choice;

/* Tokens of a hypothesis, each with its natural log probability at temperature 1, under the rules
 * of what may follow. */
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

struct beam_rule {
    uint32_t size;   /* hypotheses that live on; 1 .. ASR_BRANCHES_MAX */
    uint32_t enough; /* finished ones that end the search; at least 1 */
    uint32_t limit;  /* tokens of a hypothesis; at least 1 */
    int32_t eot;
    float length_penalty; /* of beam_score */
};

struct beam_live {
    uint32_t branch;
    double logprob; /* sum over its tokens */
};

struct beam {
    struct beam_rule rule;
    uint32_t capacity;                       /* tokens in a row of `rows`; at least rule.limit */
    struct token_run rows;                   /* borrowed: [rule.size][room], by branch */
    struct token_run best;                   /* borrowed: [room] */
    struct beam_live live[ASR_BRANCHES_MAX]; /* likeliest first */
    uint32_t live_count;
    uint32_t count;    /* tokens of each live hypothesis */
    uint32_t finished; /* hypotheses; of them the best: */
    uint32_t best_count;
    double best_logprob; /* with its <|endoftext|>'s, if it had one */
    double best_score;
};

/* A sum of log probabilities made comparable between lengths: divided by the number of tokens, or,
 * with a penalty >= 0, by ((5 + count) / 6)^penalty. */
double beam_score(double logprob, uint32_t count, float length_penalty);

/* A search that begins with one empty hypothesis in branch 0. rows: [rule.size][room], best:
 * [room], borrowed. */
void beam_begin(struct beam *b, struct beam_rule rule, struct token_run rows, struct token_run best,
                uint32_t capacity);

/* One step. top: [live_count][stride], what may follow each live hypothesis, likeliest first, -1
 * for none; the first size + 1 of each are looked at. moves (room for size): the copies between
 * branches that the next step needs. *ended: best, best_count and best_logprob are the result.
 * ERR_MODEL: nothing may follow and nothing is finished. */
int beam_feed(struct beam *b, const struct candidate *top, uint32_t stride, struct asr_move *moves,
              uint32_t *move_count, bool *ended, struct err *err);

/* ---- independent samplings of one window's text, the best of which is taken
 *
 * Greedy decoding is one of them at temperature 0. Draft i has branch i of the decoder's caches to
 * itself. */

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
/* The first one with the best beam_score. */
uint32_t drafts_best(const struct drafts *d, float length_penalty);

#endif
