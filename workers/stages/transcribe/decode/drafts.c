#include "workers/stages/transcribe/decode/drafts.h"

#include <string.h>

#include "gpu/backend.h"
#include "workers/stages/transcribe/decode/beam.h"

void drafts_begin(struct drafts *d, uint32_t size, uint32_t limit, int32_t eot,
                  struct token_run rows, uint32_t capacity)
{
    *d = (struct drafts){
        .size = size, .limit = limit, .eot = eot, .rows = rows, .capacity = capacity};
}

static int feed_one(struct drafts *d, uint32_t i, const struct choice *c, struct err *err)
{
    struct draft *draft = &d->drafts[i];
    struct token_run own = token_run_at(d->rows, i, d->capacity);

    if (c->token < 0)
        return err_set(err, ERR_MODEL,
                       "the rules leave no token to choose; the model's suppress_tokens are wrong");
    draft->logprob += c->logprob;
    if (c->token == d->eot) {
        draft->ended = true;
        return 0;
    }
    own.ids[draft->count] = c->token;
    own.logprobs[draft->count++] = (float)c->logprob;
    draft->ended = draft->count >= d->limit;
    return 0;
}

int drafts_feed(struct drafts *d, const struct choice *c, bool *ended, struct err *err)
{
    uint32_t n = 0;

    *ended = true;
    for (uint32_t i = 0; i < d->size; i++) {
        int rc = d->drafts[i].ended ? 0 : feed_one(d, i, &c[n++], err);

        if (rc)
            return rc;
        *ended = *ended && d->drafts[i].ended;
    }
    return 0;
}

static double score_draft(const struct draft *d, float length_penalty)
{
    return beam_score(d->logprob, d->count, length_penalty);
}

uint32_t drafts_best(const struct drafts *d, float length_penalty)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < d->size; i++)
        if (score_draft(&d->drafts[i], length_penalty) >
            score_draft(&d->drafts[best], length_penalty))
            best = i;
    return best;
}
