#include "workers/stages/window.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "gpu/backend.h"
#include "workers/text/compression.h"
#include "workers/text/text.h"

int window_init(struct window *w, const struct window_policy *policy, struct err *err)
{
    *w = (struct window){.policy = policy, .state = WINDOW_DONE};
    w->tokens = malloc(policy->max_tokens * sizeof(*w->tokens));
    if (!w->tokens)
        return err_set(err, ERR_NOMEM, "no memory for a window");
    return 0;
}

void window_free(struct window *w)
{
    free(w->tokens);
    w->tokens = NULL;
}

void window_begin(struct window *w, uint64_t seed, int32_t language)
{
    const struct vocabulary_ids *ids = vocabulary_ids(w->policy->vocab);

    w->state = WINDOW_START;
    w->seed = seed;
    w->language = language;
    w->language_prob = 1;
    w->no_speech_prob = 0;
    w->silent = false;
    w->prompt[0] = ids->sot;
    w->prompt_len = 1;
    w->prompt_pos = 0;
    w->attempt = 0;
    w->count = 0;
    w->logprob_sum = 0;
    w->avg_logprob = w->compression_ratio = w->temperature = 0;
}

void window_row(const struct window *w, int32_t *token, uint32_t *pos)
{
    if (w->state == WINDOW_TEXT && w->count) {
        *token = w->tokens[w->count - 1];
        *pos = w->prompt_len + w->count - 1;
    } else {
        *token = w->prompt[w->prompt_pos];
        *pos = w->prompt_pos;
    }
}

static void ask_token(const struct window *w, struct choice_ask *ret)
{
    int32_t begin = vocabulary_ids(w->policy->vocab)->timestamp_begin;

    ret->what |= CHOOSE_TOKEN;
    ret->count = (int32_t)w->count;
    ret->last = w->count > 0 ? w->tokens[w->count - 1] : -1;
    ret->before = w->count > 1 ? w->tokens[w->count - 2] : -1;
    for (uint32_t i = w->count; i-- > 0 && ret->last_time < 0;)
        ret->last_time = w->tokens[i] >= begin ? w->tokens[i] : -1;
    ret->temperature = w->policy->params->temperatures[w->attempt];
    ret->uniform = number_uniform(number_seed(w->seed, w->attempt), w->count);
}

void window_ask(const struct window *w, struct choice_ask *ret)
{
    *ret = (struct choice_ask){.last = -1, .before = -1, .last_time = -1};
    if (w->state == WINDOW_START) {
        ret->what = CHOOSE_START;
        if (!vocabulary_multilingual(w->policy->vocab)) /* these logits are the first token's */
            ask_token(w, ret);
    } else if (w->state == WINDOW_TEXT) {
        ask_token(w, ret);
    }
}

/* The end of one attempt: the measures, and whether they ask for another. */
static int judge(struct window *w, bool *again, struct err *err)
{
    const struct transcribe_params *p = w->policy->params;
    char *text;
    int rc;

    w->avg_logprob = (float)(w->logprob_sum / (w->count + 1));
    w->temperature = p->temperatures[w->attempt];
    if ((rc = vocabulary_decode(w->policy->vocab, w->tokens, w->count, &text, err)))
        return rc;
    rc = compression_ratio(text, text_clean(text), &w->compression_ratio, err);
    free(text);
    if (rc)
        return rc;
    w->silent =
        w->no_speech_prob > p->no_speech_threshold && w->avg_logprob <= p->logprob_threshold;
    *again = !w->silent && (w->compression_ratio > p->compression_ratio_threshold ||
                            w->avg_logprob < p->logprob_threshold);
    return 0;
}

static int finish_attempt(struct window *w, struct err *err)
{
    bool again;
    int rc = judge(w, &again, err);

    if (rc)
        return rc;
    if (!again || w->attempt + 1 >= w->policy->params->temperature_count) {
        w->state = WINDOW_DONE;
        return 0;
    }
    w->attempt++;
    w->count = 0;
    w->logprob_sum = 0;
    w->prompt_pos = w->prompt_len - 1; /* its row is computed again; the caches before it stay */
    w->state = WINDOW_TEXT;
    return 0;
}

static int feed_text(struct window *w, const struct choice *c, struct err *err)
{
    if (c->token < 0)
        return err_set(err, ERR_MODEL,
                       "the rules leave no token to choose; the model's suppress_tokens are wrong");
    w->logprob_sum += c->logprob;
    if (c->token != vocabulary_ids(w->policy->vocab)->eot) {
        w->tokens[w->count++] = c->token;
        if (w->count < w->policy->max_tokens)
            return 0;
    }
    return finish_attempt(w, err);
}

static void make_prompt(struct window *w)
{
    const struct vocabulary_ids *ids = vocabulary_ids(w->policy->vocab);

    if (!vocabulary_multilingual(w->policy->vocab))
        return;
    w->prompt[1] = w->language;
    w->prompt[2] = w->policy->params->translate ? ids->translate : ids->transcribe;
    w->prompt_len = 3;
}

static int feed_start(struct window *w, const struct choice *c, struct err *err)
{
    float threshold = w->policy->params->no_speech_threshold;

    w->no_speech_prob = (float)c->no_speech;
    if (w->language < 0 && vocabulary_multilingual(w->policy->vocab)) {
        w->language = c->language;
        w->language_prob = (float)c->language_prob;
    }
    if (w->no_speech_prob > threshold && w->no_speech_prob > (float)NO_SPEECH_CERTAIN) {
        w->silent = true;
        w->state = WINDOW_DONE;
        return 0;
    }
    make_prompt(w);
    if (w->prompt_len == 1) { /* English-only: the first token was chosen, too */
        w->state = WINDOW_TEXT;
        return feed_text(w, c, err);
    }
    w->prompt_pos = 1;
    w->state = WINDOW_PROMPT;
    return 0;
}

int window_feed(struct window *w, const struct choice *c, struct err *err)
{
    if ((w->state == WINDOW_START || w->state == WINDOW_TEXT) && !c->usable)
        return err_set(err, ERR_MODEL,
                       "the model's output is not a number; its weights are damaged, or the "
                       "precision is too low for it: try --precision fp32");
    switch (w->state) {
    case WINDOW_START:
        return feed_start(w, c, err);
    case WINDOW_PROMPT:
        w->prompt_pos++;
        if (w->prompt_pos == w->prompt_len - 1)
            w->state = WINDOW_TEXT;
        return 0;
    case WINDOW_TEXT:
        return feed_text(w, c, err);
    case WINDOW_DONE:
        break;
    }
    return 0;
}
