/* Tokens as a model of Whisper's would choose them: segments of words with their times, and an end.
 * A token depends on how many came before it, so that recorded steps and beams end, too. */
#include "tests/cuda/null/null.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENTS 4        /* of a window */
#define TEXT_TOKENS 25    /* of a segment, between two timestamps */
#define SEGMENT_STEPS 350 /* of timestamps, 20 ms each: 4 segments are 28 s */
#define MOST_WORDS 380
#define FIRST_PIECE 256 /* Whisper's vocabularies begin with the bytes; pieces of words follow */
#define FULL_STOP 13
#define LOGPROB (-0.3)

struct rules {
    int32_t eot, timestamp_begin, timestamp_end, language;
    int32_t words[MOST_WORDS];
    uint32_t word_count;
};

static bool is_never(const struct rules_spec *s, int32_t token)
{
    for (uint32_t i = 0; i < s->never_count; i++)
        if (s->never[i] == token)
            return true;
    return false;
}

int null_rules_new(struct backend *be, const struct rules_spec *spec, struct rules **ret,
                   struct err *err)
{
    struct rules *r = calloc(1, sizeof(*r));

    (void)be;
    if (!r)
        return err_set(err, ERR_NOMEM, "out of memory for rules of tokens");
    r->eot = spec->eot;
    r->timestamp_begin = spec->timestamp_begin;
    r->timestamp_end = spec->timestamp_end;
    r->language = spec->language_count ? spec->languages[0] : -1;
    for (int32_t t = FIRST_PIECE; t < spec->eot && r->word_count < MOST_WORDS; t++)
        if (!is_never(spec, t))
            r->words[r->word_count++] = t;
    if (r->word_count == 0) {
        free(r);
        return err_set(err, ERR_MODEL, "a vocabulary without pieces of words");
    }
    *ret = r;
    return 0;
}

void null_rules_free(struct backend *be, struct rules *r)
{
    (void)be;
    free(r);
}

/* ---- one token */

static int32_t draw_word(struct null_device *d, const struct rules *r)
{
    return r->words[(d->drawn++ * 0x9E3779B97F4A7C15u >> 33) % r->word_count];
}

/* Of a segment: its begin, its text, and its end, which the next one's begin equals. */
static int32_t choose_timed(struct null_device *d, const struct rules *r, int32_t count)
{
    const int32_t length = TEXT_TOKENS + 2, segment = count / length, place = count % length;
    int32_t time = r->timestamp_begin + segment * SEGMENT_STEPS;

    if (segment >= SEGMENTS)
        return r->eot;
    if (place == 0 || place == length - 1) {
        time += place == 0 ? 0 : SEGMENT_STEPS;
        return time < r->timestamp_end ? time : r->timestamp_end;
    }
    return place == length - 2 ? FULL_STOP : draw_word(d, r);
}

static int32_t choose_token(struct null_device *d, const struct rules *r,
                            const struct choice_ask *ask)
{
    if (r->timestamp_begin >= 0 && !(ask->what & CHOOSE_NO_TIMES))
        return choose_timed(d, r, ask->count);
    return ask->count < SEGMENTS * TEXT_TOKENS ? draw_word(d, r) : r->eot;
}

static void answer_ask(struct null_device *d, const struct rules *r, const struct choice_ask *ask,
                       struct choice *ret)
{
    *ret = (struct choice){.token = -1, .language = -1, .usable = 1, .logprob = LOGPROB};
    if (ask->what & CHOOSE_START) {
        ret->language = r->language;
        ret->language_prob = 0.99;
        ret->no_speech = 0.01;
    }
    if (ask->what & CHOOSE_GIVEN)
        ret->token = ask->last >= 0 && ask->last < r->eot ? ask->last : -1;
    if (ask->what & CHOOSE_TOKEN)
        ret->token = choose_token(d, r, ask);
}

/* ---- acts, done at once or recorded */

enum act_kind { ACT_CHOOSE, ACT_TOP, ACT_FOLLOW, ACT_NOTE };

struct null_act {
    enum act_kind kind;
    const struct rules *rules;
    struct token_row *rows;
    struct choice_ask *asks;
    struct choice *choices;
    struct token_tail *tails;
    struct candidate *candidates;
    uint32_t n, k;
};

static void do_choose(struct null_device *d, const struct null_act *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        answer_ask(d, a->rules, &a->asks[i], &a->choices[i]);
}

/* What was chosen is by far the likeliest: the other beams of a window follow it. */
static void do_top(struct null_device *d, const struct null_act *a)
{
    (void)d;
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t j = 0; j < a->k; j++) {
            int32_t token = j == 0 ? a->choices[i].token : a->rules->words[j - 1];

            a->candidates[i * a->k + j] = (struct candidate){
                .token = a->choices[i].token < 0 || j > a->rules->word_count ? -1 : token,
                .logprob = j == 0 ? LOGPROB : -8.0 - j};
        }
}

static void do_follow(struct null_device *d, const struct null_act *a)
{
    (void)d;
    for (uint32_t i = 0; i < a->n; i++) {
        struct token_row *row = &a->rows[i];
        const struct token_tail *t;

        if (row->token != TOKEN_FOLLOWS)
            continue;
        t = row->slot < 0 ? NULL : &a->tails[row->slot];
        if (!t || !t->open) {
            *row = (struct token_row){.slot = -1};
            a->asks[i].what = 0;
            continue;
        }
        row->token = t->token;
        a->asks[i].count = t->count;
        a->asks[i].last = t->token;
        a->asks[i].before = t->before;
        a->asks[i].last_time = t->last_time;
    }
}

static void do_note(struct null_device *d, const struct null_act *a)
{
    const int32_t begin = a->rules->timestamp_begin;

    (void)d;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct choice_ask *ask = &a->asks[i];
        const struct choice *c = &a->choices[i];

        if (a->rows[i].slot < 0 || !(ask->what & CHOOSE_TOKEN))
            continue;
        a->tails[a->rows[i].slot] = (struct token_tail){
            .open = c->token >= 0 && c->usable && c->token != a->rules->eot,
            .token = c->token,
            .count = ask->count + 1,
            .before = ask->last,
            .last_time = begin >= 0 && c->token >= begin ? c->token : ask->last_time,
        };
    }
}

static void perform_act(struct null_device *d, const struct null_act *a)
{
    static void (*const ways[])(struct null_device *,
                                const struct null_act *) = {[ACT_CHOOSE] = do_choose,
                                                            [ACT_TOP] = do_top,
                                                            [ACT_FOLLOW] = do_follow,
                                                            [ACT_NOTE] = do_note};

    ways[a->kind](d, a);
}

static int take_act(struct null_device *d, const struct null_act *a, struct err *err)
{
    struct recording *r = d->recorded;
    uint32_t capacity = r && r->capacity ? 2 * r->capacity : 8;
    struct null_act *more;

    if (!r) {
        perform_act(d, a);
        return 0;
    }
    if (r->count == r->capacity) {
        more = realloc(r->acts, capacity * sizeof(*more));
        if (!more)
            return err_set(err, ERR_NOMEM, "out of memory for a recording");
        r->acts = more;
        r->capacity = capacity;
    }
    r->acts[r->count++] = *a;
    return 0;
}

int null_choose(struct backend *be, const struct rules *r, struct tensor logits,
                const struct choice_ask *ask, struct choice *ret, struct err *err)
{
    struct null_device *d = null_of(be);

    null_operate(be, NULL_CALL_choose);
    null_stored(d, ret);
    d->answered = ret;
    d->asked = r;
    return take_act(d,
                    &(struct null_act){.kind = ACT_CHOOSE,
                                       .rules = r,
                                       .asks = (struct choice_ask *)(uintptr_t)ask,
                                       .choices = ret,
                                       .n = (uint32_t)logits.rows},
                    err);
}

int null_top(struct backend *be, struct tensor logits, uint32_t k, struct candidate *ret,
             struct err *err)
{
    struct null_device *d = null_of(be);

    null_operate(be, NULL_CALL_top);
    if (!d->answered)
        return err_set(err, ERR_DEVICE, "the likeliest tokens before any was chosen");
    null_stored(d, ret);
    return take_act(d,
                    &(struct null_act){.kind = ACT_TOP,
                                       .rules = d->asked,
                                       .choices = (struct choice *)(uintptr_t)d->answered,
                                       .candidates = ret,
                                       .n = (uint32_t)logits.rows,
                                       .k = k},
                    err);
}

int null_follow(struct backend *be, const struct token_tail *tails, struct token_row *rows,
                struct choice_ask *asks, uint32_t n, struct err *err)
{
    null_operate(be, NULL_CALL_follow);
    return take_act(null_of(be),
                    &(struct null_act){.kind = ACT_FOLLOW,
                                       .tails = (struct token_tail *)(uintptr_t)tails,
                                       .rows = rows,
                                       .asks = asks,
                                       .n = n},
                    err);
}

int null_note(struct backend *be, const struct rules *r, const struct token_row *rows,
              const struct choice_ask *asks, const struct choice *choices, uint32_t n,
              struct token_tail *tails, struct err *err)
{
    null_operate(be, NULL_CALL_note);
    return take_act(null_of(be),
                    &(struct null_act){.kind = ACT_NOTE,
                                       .rules = r,
                                       .rows = (struct token_row *)(uintptr_t)rows,
                                       .asks = (struct choice_ask *)(uintptr_t)asks,
                                       .choices = (struct choice *)(uintptr_t)choices,
                                       .tails = tails,
                                       .n = n},
                    err);
}

/* ---- recordings */

int null_record_begin(struct backend *be, struct err *err)
{
    struct null_device *d = null_of(be);

    if (d->recorded)
        return err_set(err, ERR_DEVICE, "a recording within a recording");
    d->recorded = calloc(1, sizeof(*d->recorded));
    return d->recorded ? 0 : err_set(err, ERR_NOMEM, "out of memory for a recording");
}

int null_record_end(struct backend *be, struct recording **ret, struct err *err)
{
    struct null_device *d = null_of(be);

    if (!d->recorded)
        return err_set(err, ERR_DEVICE, "nothing is being recorded");
    *ret = d->recorded;
    d->recorded = NULL;
    return 0;
}

int null_record_run(struct backend *be, struct recording *r, struct err *err)
{
    (void)err;
    null_operate(be, NULL_CALL_record_run);
    for (uint32_t i = 0; i < r->count; i++)
        perform_act(null_of(be), &r->acts[i]);
    return 0;
}

void null_record_free(struct backend *be, struct recording *r)
{
    (void)be;
    if (!r)
        return;
    free(r->acts);
    free(r);
}
