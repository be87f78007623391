#include "workers/stages/transcribe/decode/decoding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "gpu/backend.h"
#include "workers/stages/transcribe/decode/beam.h"
#include "workers/stages/transcribe/decode/token_rules.h"
#include "workers/text/codepoints.h"
#include "workers/text/doubtful_text.h"

#define POSITIONS_MIN 10
#define OWN_LANGUAGE_PROB 0.5f /* a window surer of it than not may be read in it */

/* Measures of an attempt's text. */
struct measures {
    float avg_logprob, text_logprob, compression_ratio, temperature;
    int32_t language;
    float language_prob;
};

struct decoding {
    const struct decoding_policy *policy;
    enum decoding_state state, next; /* next: after LANGUAGE; START: the prompt is to be made */
    uint64_t seed;
    int32_t language;
    float language_prob, no_speech_prob;
    bool heard; /* no_speech_prob is of the start token where it stands in the prompt */
    bool silent, repetitive, unlikely;

    int32_t *prompt;       /* owned; room for the longest */
    uint32_t previous_len; /* its text before the start, with <|startofprev|>; 0: none */
    uint32_t prompt_len, prompt_pos;
    uint32_t limit; /* tokens after it */

    uint32_t attempt; /* index into the temperatures */
    bool beams;       /* it is a beam search, else one of drafts */
    struct drafts drafts;
    struct beam beam;
    struct token_run rows;           /* owned: [branches][max_tokens] */
    struct token_run best;           /* owned: [max_tokens], of the beam search */
    bool prompted[ASR_BRANCHES_MAX]; /* the branch's cache begins with the prompt */
    struct asr_move moves[ASR_BRANCHES_MAX];
    uint32_t move_count;

    int32_t own_language; /* that START heard; -1: none to be tried */
    float own_prob;
    bool tries_own; /* this attempt is the one in its own language */

    struct token_run result; /* into rows or best */
    uint32_t result_count;
    uint32_t attempts; /* made so far */
    struct measures now;
    struct token_run
        kept; /* owned: [max_tokens]: the likeliest of the attempts that were refused */
    uint32_t kept_count;
    struct measures kept_is;
    bool has_kept;
};

/* ---- how an attempt is made */

static float temperature_of(const struct decoding *d, uint32_t attempt)
{
    return d->policy->params->temperatures[attempt];
}

static bool uses_beam_search(const struct decoding *d, uint32_t attempt)
{
    return temperature_of(d, attempt) <= 0 && d->policy->params->beam_size > 1;
}

static uint32_t drafts_of(const struct decoding *d, uint32_t attempt)
{
    bool draws = temperature_of(d, attempt) > 0;

    return draws && d->policy->params->best_of > 1 ? d->policy->params->best_of : 1;
}

static bool is_timed(const struct decoding_policy *p)
{
    return vocabulary_timed(p->vocab) && !p->params->without_timestamps;
}

static uint32_t put_prompt(const struct decoding_policy *p, int32_t language, int32_t *ret)
{
    const struct asr_task task = {language, p->params->translate, is_timed(p)};

    return p->prompt(p->vocab, task, ret);
}

/* In models of one language the start token may be the whole prompt, and the logits that tell about
 * silence are the first token's as well. Several drafts want one draw each. */
static bool start_chooses(const struct decoding *d)
{
    int32_t prompt[ASR_PROMPT_MAX];

    return !vocabulary_multilingual(d->policy->vocab) && put_prompt(d->policy, -1, prompt) == 1 &&
           d->previous_len == 0 && drafts_of(d, 0) == 1;
}

static bool new_run(struct token_run *r, size_t count)
{
    r->ids = malloc(count * sizeof(*r->ids));
    r->logprobs = malloc(count * sizeof(*r->logprobs));
    return r->ids && r->logprobs;
}

static void free_run(struct token_run *r)
{
    free(r->ids);
    free(r->logprobs);
}

int decoding_new(const struct decoding_policy *policy, struct decoding **ret, struct err *err)
{
    const struct transcribe_params *p = policy->params;
    size_t prompt = prompt_previous_max(policy->positions) + ASR_PROMPT_MAX;
    struct decoding *d;

    if (policy->branches > ASR_BRANCHES_MAX || policy->branches < 1 ||
        policy->branches < p->beam_size || policy->branches < p->best_of)
        return err_set(err, ERR_USAGE, "%u beams or %u candidates do not fit %u branches",
                       p->beam_size, p->best_of, policy->branches);
    if (policy->positions < POSITIONS_MIN)
        return err_set(err, ERR_MODEL, "the model's decoder has %u positions only",
                       policy->positions);
    if (p->without_timestamps && vocabulary_timed(policy->vocab) &&
        vocabulary_ids(policy->vocab)->no_timestamps < 0)
        return err_set(err, ERR_USAGE,
                       "the model cannot do without timestamps: it has no token "
                       "<|notimestamps|>");
    d = calloc(1, sizeof(*d));
    if (d) {
        *d = (struct decoding){.policy = policy, .state = DECODING_DONE};
        d->prompt = malloc(prompt * sizeof(*d->prompt));
    }
    if (!d || !d->prompt || !new_run(&d->rows, (size_t)policy->branches * policy->max_tokens) ||
        !new_run(&d->best, policy->max_tokens) || !new_run(&d->kept, policy->max_tokens)) {
        decoding_free(d);
        return err_set(err, ERR_NOMEM, "no memory for a window");
    }
    *ret = d;
    return 0;
}

void decoding_free(struct decoding *d)
{
    if (!d)
        return;
    free(d->prompt);
    free_run(&d->rows);
    free_run(&d->best);
    free_run(&d->kept);
    free(d);
}

static struct token_run branch_tokens(const struct decoding *d, uint32_t i)
{
    return token_run_at(d->rows, i, d->policy->max_tokens);
}

/* round(size * patience), halves to even as in Python; at least 1. */
static uint32_t enough_finished(const struct transcribe_params *p)
{
    double n = rint((double)p->beam_size * (double)p->patience);

    return n >= 1 ? (uint32_t)n : 1;
}

/* The attempt that d->attempt says. */
static void begin_attempt(struct decoding *d)
{
    const struct transcribe_params *p = d->policy->params;
    const uint32_t attempt = d->attempt;
    int32_t eot = vocabulary_ids(d->policy->vocab)->eot;

    d->state = DECODING_TEXT;
    d->beams = uses_beam_search(d, attempt);
    d->move_count = 0;
    if (d->beams) {
        struct beam_rule rule = {p->beam_size, enough_finished(p), d->limit, eot,
                                 p->length_penalty};
        beam_begin(&d->beam, rule, d->rows, d->best, d->policy->max_tokens);
        return;
    }
    drafts_begin(&d->drafts, drafts_of(d, attempt), d->limit, eot, d->rows, d->policy->max_tokens);
    for (uint32_t i = 1; d->prompt_len > 1 && i < d->drafts.size; i++)
        if (!d->prompted[i]) {
            d->moves[d->move_count++] = (struct asr_move){.from = 0, .to = i};
            d->prompted[i] = true;
        }
}

/* ---- the prompt */

static void make_prompt(struct decoding *d)
{
    uint32_t n = d->previous_len;

    n += put_prompt(d->policy, d->language, d->prompt + n);
    d->prompt_len = n;
    d->limit = d->policy->positions + 1 - n; /* the last token is not fed */
    if (d->limit > d->policy->max_tokens)
        d->limit = d->policy->max_tokens;
}

/* The rows of the prompt but the last; what START has fed is there already. */
static void begin_prompt(struct decoding *d)
{
    make_prompt(d);
    d->prompt_pos = d->previous_len ? 0 : 1;
    if (d->prompt_pos + 1 < d->prompt_len)
        d->state = DECODING_PROMPT;
    else
        begin_attempt(d);
}

/* The same window in another language: the prompt is fed anew from that token on, to the first
 * branch; the others take it over from there. */
static void begin_language(struct decoding *d, int32_t language, float prob)
{
    d->language = language;
    d->language_prob = prob;
    memset(d->prompted, 0, sizeof(d->prompted));
    d->prompted[0] = true;
    d->move_count = 0;
    make_prompt(d);
    d->prompt_pos = d->previous_len + 1;
    if (d->prompt_pos + 1 < d->prompt_len)
        d->state = DECODING_PROMPT;
    else
        begin_attempt(d);
}

void decoding_begin(struct decoding *d, uint64_t seed, const int32_t *previous, uint32_t n)
{
    d->state = DECODING_START;
    d->seed = seed;
    d->language = -1;
    d->language_prob = 1;
    d->no_speech_prob = 0;
    d->heard = d->silent = d->repetitive = d->unlikely = false;
    memset(d->prompted, 0, sizeof(d->prompted));
    d->prompted[0] = true;
    d->move_count = 0;
    d->attempt = d->attempts = 0;
    d->prompt_len = 0;
    d->previous_len =
        prompt_previous(d->policy->vocab, d->policy->positions, previous, n, d->prompt);
    d->result = d->best;
    d->result_count = 0;
    d->now = (struct measures){0};
    d->has_kept = d->tries_own = false;
    d->own_language = -1;
}

enum decoding_state decoding_state(const struct decoding *d) { return d->state; }

void decoding_heard(const struct decoding *d, int32_t *language, float *prob, float *no_speech)
{
    *language = d->language;
    *prob = d->language_prob;
    *no_speech = d->no_speech_prob;
}

/* Nobody said which language it is. */
static bool may_speak_own(const struct transcribe_params *p)
{
    return !p->language[0] || transcribe_many_languages(p);
}

void decoding_go(struct decoding *d, int32_t language, float prob)
{
    if (d->state != DECODING_LANGUAGE)
        return;
    if (vocabulary_multilingual(d->policy->vocab) && language >= 0) {
        if (may_speak_own(d->policy->params) && d->language != language &&
            d->language_prob >= OWN_LANGUAGE_PROB) {
            d->own_language = d->language;
            d->own_prob = d->language_prob;
        }
        d->language = language;
        d->language_prob = prob;
    }
    if (d->next == DECODING_START)
        begin_prompt(d);
    else
        d->state = d->next;
}

/* ---- rows */

/* Whether the row at this position is the prompt's start token, and still to tell about silence:
 * where a previous text stands before it, START's could not. */
static bool hears_silence(const struct decoding *d, uint32_t pos)
{
    return !d->heard && pos == d->previous_len;
}

/* Sets the parts of a question that do not depend on the tokens before. */
static void ask_any(const struct decoding *d, uint32_t draft, uint32_t count,
                    struct choice_ask *ret)
{
    uint64_t seed = number_seed(d->seed, d->attempt);

    ret->what |= CHOOSE_TOKEN;
    if (!is_timed(d->policy))
        ret->what |= CHOOSE_NO_TIMES;
    ret->temperature = temperature_of(d, d->attempt);
    ret->uniform = number_uniform(draft > 0 ? number_seed(seed, draft) : seed, count);
}

static void ask_token(const struct decoding *d, uint32_t draft, const int32_t *tokens,
                      uint32_t count, struct choice_ask *ret)
{
    int32_t begin = vocabulary_ids(d->policy->vocab)->timestamp_begin;

    ask_any(d, draft, count, ret);
    ret->count = (int32_t)count;
    ret->last = count > 0 ? tokens[count - 1] : -1;
    ret->before = count > 1 ? tokens[count - 2] : -1;
    for (uint32_t i = count; i-- > 0 && ret->last_time < 0;)
        ret->last_time = tokens[i] >= begin ? tokens[i] : -1;
}

static const struct choice_ask nothing_asked = {.last = -1, .before = -1, .last_time = -1};

static void start_row(const struct decoding *d, struct asr_row *row, struct choice_ask *ask)
{
    *row = (struct asr_row){.token = vocabulary_ids(d->policy->vocab)->sot};
    *ask = nothing_asked;
    ask->what = CHOOSE_START;
    if (start_chooses(d))
        ask_token(d, 0, NULL, 0, ask);
}

static uint32_t prompt_rows(const struct decoding *d, struct asr_row *rows, struct choice_ask *asks,
                            uint32_t capacity)
{
    uint32_t n = d->prompt_len - 1 - d->prompt_pos;

    if (n > capacity)
        n = capacity;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t pos = d->prompt_pos + i;

        rows[i] = (struct asr_row){.pos = pos, .token = d->prompt[pos]};
        asks[i] = nothing_asked;
        if (hears_silence(d, pos))
            asks[i].what = CHOOSE_START;
    }
    return n;
}

/* The row that continues tokens[0..count) of a branch. */
static void text_row(const struct decoding *d, uint32_t branch, uint32_t count, struct asr_row *row,
                     struct choice_ask *ask)
{
    const int32_t *tokens = branch_tokens(d, branch).ids;
    uint32_t pos = d->prompt_len + count - 1;

    *row = (struct asr_row){.branch = branch, .pos = pos};
    row->token = count > 0 ? tokens[count - 1] : d->prompt[pos];
    *ask = nothing_asked;
    if (hears_silence(d, pos) && branch == 0)
        ask->what = CHOOSE_START;
    ask_token(d, branch, tokens, count, ask);
}

uint32_t decoding_rows(const struct decoding *d, struct asr_row *rows, struct choice_ask *asks,
                       uint32_t capacity)
{
    uint32_t n = 0;

    switch (d->state) {
    case DECODING_START:
        start_row(d, rows, asks);
        return 1;
    case DECODING_PROMPT:
        return prompt_rows(d, rows, asks, capacity);
    case DECODING_TEXT:
        for (uint32_t i = 0; d->beams && i < d->beam.live_count; i++, n++)
            text_row(d, d->beam.live[i].branch, d->beam.count, &rows[n], &asks[n]);
        for (uint32_t i = 0; !d->beams && i < d->drafts.size; i++)
            if (!d->drafts.drafts[i].ended) {
                text_row(d, i, d->drafts.drafts[i].count, &rows[n], &asks[n]);
                n++;
            }
        return n;
    case DECODING_LANGUAGE:
    case DECODING_DONE:
        break;
    }
    return 0;
}

bool decoding_ahead(const struct decoding *d, struct asr_row *row, struct choice_ask *ask)
{
    const struct draft *draft = &d->drafts.drafts[0];

    if (d->state != DECODING_TEXT || d->beams || d->drafts.size != 1 ||
        draft->count + 1 >= d->limit)
        return false;
    *row = (struct asr_row){.pos = d->prompt_len + draft->count, .token = ASR_FOLLOWS};
    *ask = nothing_asked;
    ask_any(d, 0, draft->count + 1, ask);
    return true;
}

uint32_t decoding_moves(struct decoding *d, struct asr_move *ret)
{
    uint32_t n = d->move_count;

    memcpy(ret, d->moves, n * sizeof(*ret));
    d->move_count = 0;
    return n;
}

/* ---- the end of an attempt */

/* Mean log probability of the text alone; without a text of all that was written. A timestamp at
 * the begin is always likely, and raises the mean of a few words that nobody said. */
static float text_logprob(const struct decoding *d, float all)
{
    int32_t times = vocabulary_ids(d->policy->vocab)->timestamp_begin;
    double sum = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->result_count; i++)
        if (d->result.ids[i] < times) {
            sum += (double)d->result.logprobs[i];
            n++;
        }
    return n ? (float)(sum / n) : all;
}

static bool is_repetitive(const struct decoding *d, const struct measures *m)
{
    return m->compression_ratio > d->policy->params->compression_ratio_threshold;
}

/* Measures what was got, whose log probabilities' sum is given. *failed: it is to be refused. */
static int judge_attempt(struct decoding *d, double logprob, bool *failed, struct err *err)
{
    const struct transcribe_params *p = d->policy->params;
    struct measures *m = &d->now;
    char *text;
    int rc;

    m->avg_logprob = (float)(logprob / (d->result_count + 1));
    m->text_logprob = text_logprob(d, m->avg_logprob);
    m->temperature = temperature_of(d, d->attempt);
    m->language = d->language;
    m->language_prob = d->language_prob;
    d->attempts++;
    if ((rc = vocabulary_decode(d->policy->vocab, d->result.ids, d->result_count, &text, err)))
        return rc;
    rc = compression_ratio(text, clean_text(text), &m->compression_ratio, err);
    free(text);
    if (rc)
        return rc;
    d->silent = d->no_speech_prob > p->no_speech_threshold &&
                fminf(m->avg_logprob, m->text_logprob) <= p->logprob_threshold;
    *failed = !d->silent && (is_repetitive(d, m) || m->avg_logprob < p->logprob_threshold);
    return 0;
}

/* Keeps the likeliest refused attempt that does not repeat itself, else the likeliest. The first of
 * equals stays. */
static void store_better_attempt(struct decoding *d)
{
    bool loops = is_repetitive(d, &d->now);

    if (d->has_kept) {
        bool kept_loops = is_repetitive(d, &d->kept_is);

        if (loops != kept_loops ? loops : !(d->now.avg_logprob > d->kept_is.avg_logprob))
            return;
    }
    token_run_copy(d->kept, d->result, d->result_count);
    d->kept_count = d->result_count;
    d->kept_is = d->now;
    d->has_kept = true;
}

/* A window that the recording's language gives no good text hears its own before chance draws. */
static bool try_own(struct decoding *d)
{
    if (d->own_language < 0 || d->own_language == d->language)
        return false;
    d->tries_own = true;
    begin_language(d, d->own_language, d->own_prob);
    d->own_language = -1;
    return true;
}

static void try_again(struct decoding *d)
{
    bool other = d->tries_own && d->kept_is.language != d->language;

    d->tries_own = false;
    d->attempt++;
    if (other) /* the attempt in its own language was no better */
        begin_language(d, d->kept_is.language, d->kept_is.language_prob);
    else
        begin_attempt(d); /* from the prompt's last token: the caches before stay */
}

static int finish_attempt(struct decoding *d, double logprob, struct err *err)
{
    const struct transcribe_params *p = d->policy->params;
    bool failed;
    int rc = judge_attempt(d, logprob, &failed, err);

    if (rc)
        return rc;
    d->state = DECODING_DONE;
    if (!failed)
        return 0;
    store_better_attempt(d);
    if (d->attempt + 1 < p->temperature_count || d->own_language >= 0) {
        d->repetitive = d->repetitive || is_repetitive(d, &d->now);
        d->unlikely = d->unlikely || d->now.avg_logprob < p->logprob_threshold;
    }
    if (try_own(d))
        return 0;
    if (d->attempt + 1 < p->temperature_count) {
        try_again(d);
        return 0;
    }
    d->result = d->kept;
    d->result_count = d->kept_count;
    d->now = d->kept_is;
    d->language = d->now.language;
    make_prompt(d); /* its own, which words are timed behind */
    return 0;
}

/* ---- choices */

static int check_usable(const struct choice *c, struct err *err)
{
    if (!c->usable)
        return err_set(err, ERR_MODEL,
                       "the model's output is not a number; its weights are damaged, or the "
                       "precision is too low for it: try --precision fp32");
    return 0;
}

/* Takes the answer for the start token's row in the prompt; DONE when it is sure that nobody
 * speaks. */
static void hear_silence(struct decoding *d, const struct choice *c)
{
    d->heard = true;
    d->no_speech_prob = (float)c->no_speech;
    if (d->no_speech_prob > d->policy->params->no_speech_threshold &&
        d->no_speech_prob > (float)NO_SPEECH_CERTAIN) {
        d->silent = true;
        d->state = DECODING_DONE;
    }
}

static int feed_beams(struct decoding *d, const struct candidate *top, struct err *err)
{
    bool ended;
    int rc =
        beam_feed(&d->beam, top, d->policy->branches + 1, d->moves, &d->move_count, &ended, err);

    if (rc)
        return rc;
    for (uint32_t i = 0; i < d->move_count; i++)
        d->prompted[d->moves[i].to] = true;
    if (!ended)
        return 0;
    d->result = d->best;
    d->result_count = d->beam.best_count;
    return finish_attempt(d, d->beam.best_logprob, err);
}

static int feed_drafts(struct decoding *d, const struct choice *c, struct err *err)
{
    uint32_t best;
    bool ended;
    int rc = drafts_feed(&d->drafts, c, &ended, err);

    if (rc || !ended)
        return rc;
    best = drafts_best(&d->drafts, d->policy->params->length_penalty);
    d->result = branch_tokens(d, best);
    d->result_count = d->drafts.drafts[best].count;
    return finish_attempt(d, d->drafts.drafts[best].logprob, err);
}

static int feed_text(struct decoding *d, const struct choice *c, const struct candidate *top,
                     uint32_t n, struct err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        int rc = check_usable(&c[i], err);
        if (rc)
            return rc;
    }
    if (!d->heard) { /* the prompt ends with its start token */
        hear_silence(d, c);
        if (d->state == DECODING_DONE)
            return 0;
    }
    if (d->beams)
        return feed_beams(d, top, err);
    return feed_drafts(d, c, err);
}

static int feed_start(struct decoding *d, const struct choice *c, const struct candidate *top,
                      struct err *err)
{
    int rc = check_usable(c, err);

    if (rc)
        return rc;
    d->no_speech_prob = (float)c->no_speech; /* for decoding_heard, also before a previous text */
    if (d->previous_len == 0)
        hear_silence(d, c);
    if (vocabulary_multilingual(d->policy->vocab)) {
        d->language = c->language;
        d->language_prob = (float)c->language_prob;
    }
    if (d->state == DECODING_DONE)
        return 0;
    d->next = DECODING_START;
    if (start_chooses(d)) {
        make_prompt(d);
        begin_attempt(d);
        if ((rc = feed_text(d, c, top, 1, err)) || d->state == DECODING_DONE)
            return rc;
        d->next = d->state;
    }
    d->state = DECODING_LANGUAGE;
    return 0;
}

static int feed_prompt(struct decoding *d, const struct choice *c, uint32_t n, struct err *err)
{
    for (uint32_t i = 0; i < n; i++, d->prompt_pos++) {
        int rc;

        if (!hears_silence(d, d->prompt_pos))
            continue;
        if ((rc = check_usable(&c[i], err)))
            return rc;
        hear_silence(d, &c[i]);
        if (d->state == DECODING_DONE)
            return 0;
    }
    if (d->prompt_pos + 1 >= d->prompt_len)
        begin_attempt(d);
    return 0;
}

int decoding_feed(struct decoding *d, const struct choice *c, const struct candidate *top,
                  uint32_t n, struct err *err)
{
    switch (d->state) {
    case DECODING_START:
        return feed_start(d, c, top, err);
    case DECODING_PROMPT:
        return feed_prompt(d, c, n, err);
    case DECODING_TEXT:
        return feed_text(d, c, top, n, err);
    case DECODING_LANGUAGE:
    case DECODING_DONE:
        break;
    }
    return 0;
}

void decoding_result(const struct decoding *d, struct decoding_result *ret)
{
    *ret = (struct decoding_result){
        .silent = d->silent,
        .language = d->state == DECODING_DONE && d->attempts ? d->now.language : d->language,
        .language_prob =
            d->state == DECODING_DONE && d->attempts ? d->now.language_prob : d->language_prob,
        .no_speech_prob = d->no_speech_prob,
        .tokens = d->result.ids,
        .logprobs = d->result.logprobs,
        .count = d->result_count,
        .prompt = d->prompt,
        .prompt_len = d->prompt_len,
        .avg_logprob = d->now.avg_logprob,
        .text_logprob = d->now.text_logprob,
        .compression_ratio = d->now.compression_ratio,
        .temperature = d->now.temperature,
        .attempts = d->attempts,
        .repetitive = d->repetitive,
        .unlikely = d->unlikely,
    };
}
