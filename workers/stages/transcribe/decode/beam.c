#include "workers/stages/transcribe/decode/beam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"

#define POOL_MAX (ASR_BRANCHES_MAX * (ASR_BRANCHES_MAX + 1))

struct child {
    double logprob; /* of the hypothesis with its new token */
    float own;      /* of that token */
    uint32_t parent, order;
    int32_t token;
};

double beam_score(double logprob, uint32_t count, float length_penalty)
{
    double n = count > 0 ? (double)count : 1;

    return logprob /
           (length_penalty < 0 ? n : pow((5 + (double)count) / 6, (double)length_penalty));
}

void beam_begin(struct beam *b, struct beam_rule rule, struct token_run rows, struct token_run best,
                uint32_t capacity)
{
    *b = (struct beam){
        .rule = rule, .rows = rows, .best = best, .capacity = capacity, .live_count = 1};
}

static struct token_run locate_branch_row(const struct beam *b, uint32_t branch)
{
    return token_run_at(b->rows, branch, b->capacity);
}

static void record_finished_branch(struct beam *b, uint32_t branch, double logprob)
{
    double score = beam_score(logprob, b->count, b->rule.length_penalty);

    if (b->finished++ > 0 && score <= b->best_score)
        return;
    b->best_score = score;
    b->best_logprob = logprob;
    b->best_count = b->count;
    token_run_copy(b->best, locate_branch_row(b, branch), b->count);
}

/* Likeliest first; of equals the child of the likelier parent, then its likelier token. */
static int compare_children(const void *x, const void *y)
{
    const struct child *a = x, *b = y;

    if (a->logprob != b->logprob)
        return a->logprob > b->logprob ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static uint32_t collect_children(const struct beam *b, const struct candidate *top, uint32_t stride,
                                 struct child *ret)
{
    uint32_t each = stride < b->rule.size + 1 ? stride : b->rule.size + 1, n = 0;

    for (uint32_t i = 0; i < b->live_count; i++)
        for (uint32_t k = 0; k < each; k++) {
            const struct candidate *c = &top[(size_t)i * stride + k];

            if (c->token >= 0 && c->logprob > -INFINITY) { /* not NaN either */
                ret[n] = (struct child){.logprob = b->live[i].logprob + c->logprob,
                                        .own = (float)c->logprob,
                                        .parent = i,
                                        .order = n,
                                        .token = c->token};
                n++;
            }
        }
    qsort(ret, n, sizeof(*ret), compare_children);
    return n;
}

/* Moves the children that live on to the front, and returns their number. Children with the end
 * token become finished branches, until there are enough. */
static uint32_t select_children(struct beam *b, struct child *children, uint32_t n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n && kept < b->rule.size; i++)
        if (children[i].token != b->rule.eot)
            children[kept++] = children[i];
        else if (b->finished < b->rule.enough)
            record_finished_branch(b, b->live[children[i].parent].branch, children[i].logprob);
    return kept;
}

/* Finds each child its branch and appends its token. Returns the number of copies. */
static uint32_t assign_branches(struct beam *b, const struct child *children, uint32_t n,
                                struct asr_move *moves)
{
    struct beam_live next[ASR_BRANCHES_MAX];
    bool taken[ASR_BRANCHES_MAX] = {false}, first[ASR_BRANCHES_MAX] = {false};
    uint32_t copies = 0, vacant = 0;

    for (uint32_t i = 0; i < n; i++)
        taken[b->live[children[i].parent].branch] = true;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = b->live[children[i].parent].branch, to = from;

        if (first[from]) {
            while (taken[vacant])
                vacant++;
            to = vacant++;
            moves[copies++] = (struct asr_move){.from = from, .to = to};
            token_run_copy(locate_branch_row(b, to), locate_branch_row(b, from), b->count);
        }
        first[from] = true;
        next[i] = (struct beam_live){to, children[i].logprob};
    }
    for (uint32_t i = 0; i < n; i++) {
        struct token_run own = locate_branch_row(b, next[i].branch);

        own.ids[b->count] = children[i].token;
        own.logprobs[b->count] = children[i].own;
    }
    memcpy(b->live, next, n * sizeof(*next));
    b->live_count = n;
    b->count++;
    return copies;
}

/* They are in the order of their sums already. */
static void fill_up(struct beam *b)
{
    for (uint32_t i = 0; i < b->live_count && b->finished < b->rule.size; i++)
        record_finished_branch(b, b->live[i].branch, b->live[i].logprob);
}

int beam_feed(struct beam *b, const struct candidate *top, uint32_t stride, struct asr_move *moves,
              uint32_t *move_count, bool *ended, struct err *err)
{
    struct child children[POOL_MAX];
    uint32_t n = select_children(b, children, collect_children(b, top, stride, children));

    *move_count = 0;
    if (n == 0 && b->finished == 0)
        return err_set(err, ERR_MODEL,
                       "the rules leave no token to choose; the model's suppress_tokens are wrong");
    if (n == 0)
        b->live_count = 0;
    else
        *move_count = assign_branches(b, children, n, moves);
    *ended = n == 0 || b->finished >= b->rule.enough || b->count >= b->rule.limit;
    if (*ended) {
        *move_count = 0;
        fill_up(b);
    }
    return 0;
}

/* ---- independent drafts */

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
