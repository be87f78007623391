/* How the tokens of windows follow their audio: the decoder runs once more over all of them, many
 * rows at a time, and records the scores of some heads of its cross-attention. The rows of all
 * windows follow each other, so that the decoder's weights are read once for many windows, and each
 * head's scores are one operation; then all windows are aligned at once, and all paths found. */
#include <string.h>

#include "base/clock.h"
#include "workers/models/whisper/whisper_net.h"

/* Scores of head `i` of the rows [at, at + rows) of all windows. */
static struct tensor scores_of(const struct whisper_session *s, const struct look *look, uint32_t i)
{
    struct tensor scores = tensor_rows(s->scores, (int64_t)i * look->tokens + look->at, look->rows);

    scores.cols = look->frames;
    return scores;
}

int whisper_look(struct whisper_session *s, uint32_t layer, struct tensor q,
                 const struct look *look, struct err *err)
{
    struct backend *be = s->w->be;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < look->head_count; i++) {
        if (look->heads[i].layer == layer)
            rc = be->ops->attention_scores(be, head_rows(q, look->rows), whisper_cross_kv(s, layer),
                                           s->rows, look->heads[i].head, look->frames,
                                           scores_of(s, look, i), err);
    }
    return rc;
}

/* ---- what is asked for */

static int check_window(const struct whisper_session *s, const struct asr_alignment *w,
                        struct err *err)
{
    int rc = 0;

    if (w->slot >= s->shape.slots || !s->encoded[w->slot])
        return err_set(err, ERR_DEVICE, "slot %u has no window to align", w->slot);
    if (w->n < 2 || w->n > s->positions || w->text < 1 || w->text >= w->n || w->frames < 1 ||
        w->frames > s->window_keys[w->slot].dense)
        return err_set(err, ERR_DEVICE,
                       "%u tokens, %u of them a prompt, cannot be aligned to %u "
                       "positions",
                       w->n, w->text, w->frames);
    for (uint32_t i = 0; rc == 0 && i < w->n; i++)
        rc = whisper_check_token(s, w->tokens[i], err);
    return rc;
}

static int check_heads(const struct whisper_session *s, const struct look *look, struct err *err)
{
    const struct whisper_config *c = &s->w->config;

    if (look->head_count < 1 || look->head_count > s->shape.align_heads)
        return err_set(err, ERR_DEVICE, "%u heads in a session that aligns by %u at most",
                       look->head_count, s->shape.align_heads);
    for (uint32_t i = 0; i < look->head_count; i++) {
        if (look->heads[i].layer >= c->decoder_layers || look->heads[i].head >= c->decoder_heads)
            return err_set(err, ERR_MODEL, "the decoder has no head %u in layer %u",
                           look->heads[i].head, look->heads[i].layer);
    }
    return 0;
}

/* Sets what look says of all windows. */
static int check_request(struct whisper_session *s, const struct asr_alignment *windows, uint32_t n,
                         struct look *look, struct err *err)
{
    int rc = check_heads(s, look, err);

    if (rc == 0 && !s->rules)
        return err_set(err, ERR_DEVICE, "tokens are to be aligned before the rules are known");
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = check_window(s, &windows[i], err);
        for (uint32_t k = 0; rc == 0 && k < i; k++)
            if (windows[k].slot == windows[i].slot)
                return err_set(err, ERR_DEVICE, "slot %u is to be aligned twice", windows[i].slot);
        if (rc == 0 && windows[i].n > s->asr.align_tokens - look->tokens)
            return err_set(err, ERR_DEVICE, "a session aligns %u tokens at once, not more",
                           s->asr.align_tokens);
        if (rc == 0) {
            look->tokens += windows[i].n;
            look->frames = windows[i].frames > look->frames ? windows[i].frames : look->frames;
        }
    }
    return rc == 0 && look->tokens == 0 ? err_set(err, ERR_DEVICE, "no window to align") : rc;
}

/* ---- the decoder */

/* A place among the tokens of all windows. */
struct place {
    const struct asr_alignment *window;
    uint32_t at; /* its token */
};

static void step_place(struct place *p)
{
    if (++p->at == p->window->n) {
        p->window++;
        p->at = 0;
    }
}

/* Asks the row of a token for the probability of the next one, if that is text. */
static struct choice_ask make_ask(const struct whisper_session *s, const struct place *p)
{
    struct choice_ask ask = {.last = -1, .before = -1, .last_time = -1};

    if (p->at + 1 < p->window->n && p->window->tokens[p->at + 1] < s->eot) {
        ask.what = CHOOSE_GIVEN;
        ask.last = p->window->tokens[p->at + 1];
    }
    return ask;
}

/* The rows of a pass, and what they are asked. */
static void fill_pass(struct whisper_session *s, struct place p, uint32_t rows, uint32_t width)
{
    for (uint32_t i = 0; i < rows; i++, step_place(&p)) {
        s->to_rows[i] =
            (struct token_row){(int32_t)(p.window->slot * s->shape.branches), (int32_t)p.at,
                               p.window->tokens[p.at], (int32_t)p.window->slot};
        s->to_asks[i] = make_ask(s, &p);
    }
    for (uint32_t i = rows; i < width; i++)
        s->to_asks[i] = (struct choice_ask){.last = -1, .before = -1, .last_time = -1};
}

static bool is_asked(const struct whisper_session *s, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++)
        if (s->to_asks[i].what)
            return true;
    return false;
}

/* The answers to all rows of a pass, as many at a time as there is room for logits. */
static int answer_pass(struct whisper_session *s, uint32_t width, struct err *err)
{
    struct backend *be = s->w->be;
    int rc = be->ops->write(be, s->asks, s->to_asks, width * sizeof(*s->asks), err);

    for (uint32_t at = 0, n; rc == 0 && at < width; at += n) {
        n = width - at < s->asr.rows ? width - at : s->asr.rows;
        if (!is_asked(s, at, n))
            continue;
        rc = whisper_step_logits(s, at, n, err);
        if (rc == 0)
            rc = be->ops->choose(be, s->rules, head_rows(s->logits, n), s->asks + at,
                                 s->choices + at, err);
    }
    return rc != 0
               ? rc
               : be->ops->read(be, s->from_choices, s->choices, width * sizeof(*s->choices), err);
}

static int take_logprobs(const struct whisper_session *s, struct place p, uint32_t rows,
                         struct err *err)
{
    for (uint32_t i = 0; i < rows; i++, step_place(&p)) {
        if (s->to_asks[i].what == 0)
            continue;
        if (!s->from_choices[i].usable)
            return err_set(err, ERR_MODEL,
                           "the model's output is not a number; its weights are damaged, or the "
                           "precision is too low for it: try --precision fp32");
        p.window->logprob[p.at + 1] = s->from_choices[i].logprob;
    }
    return 0;
}

/* Tokens [at, at + rows) of all, which nobody else's rows are mixed with. */
static int run_pass(struct whisper_session *s, struct place p, const struct look *look,
                    struct err *err)
{
    uint32_t width = whisper_pass_width(s, look->rows);
    int rc;

    fill_pass(s, p, look->rows, width);
    rc = whisper_send_rows(s, look->rows, width, err);
    if (rc == 0)
        rc = whisper_step_layers(s, width, look, err);
    if (rc != 0 || !is_asked(s, 0, look->rows))
        return rc;
    rc = answer_pass(s, width, err);
    return rc != 0 ? rc : take_logprobs(s, p, look->rows, err);
}

static int run_passes(struct whisper_session *s, const struct asr_alignment *windows,
                      struct look *look, struct err *err)
{
    struct place p = {.window = windows};
    int rc = 0;

    for (; rc == 0 && look->at < look->tokens; look->at += look->rows) {
        look->rows =
            look->tokens - look->at < s->pass_rows ? look->tokens - look->at : s->pass_rows;
        rc = run_pass(s, p, look, err);
        for (uint32_t i = 0; i < look->rows; i++)
            step_place(&p);
    }
    return rc;
}

/* ---- the paths */

/* A row shows where the next token is: a path goes from the prompt's last row to the last but one.
 * Whether one of the windows is held. */
static bool describe_windows(struct whisper_session *s, const struct asr_alignment *windows,
                             uint32_t n)
{
    bool held = false;
    uint32_t first = 0;

    for (uint32_t i = 0; i < n; i++, first += windows[i - 1].n) {
        const struct asr_alignment *w = &windows[i];

        s->to_windows[i] = (struct align_window){w->n, w->frames, w->text - 1, w->n - w->text};
        for (uint32_t k = 0; k < w->n; k++)
            s->to_hold[first + k] = (struct align_hold){0, UINT32_MAX};
        for (uint32_t k = 0; w->hold && k < w->n - w->text; k++)
            s->to_hold[first + w->text - 1 + k] = w->hold[k];
        held = held || w->hold;
    }
    return held;
}

static int find_paths(struct whisper_session *s, const struct asr_alignment *windows, uint32_t n,
                      const struct look *look, float *matrix, struct err *err)
{
    struct tensor out = head_rows(s->aligned, look->tokens),
                  work = head_rows(s->scores, look->tokens);
    struct tensor scores = head_rows(s->scores, look->head_count * look->tokens);
    bool held = describe_windows(s, windows, n);
    struct backend *be = s->w->be;
    uint32_t first = 0;
    int rc = be->ops->align(be, scores, look->head_count, s->to_windows, n, out, err);

    if (rc == 0 && matrix)
        rc = be->ops->get(be, matrix, out, err);
    if (rc == 0)
        rc = be->ops->warp(be, out, s->to_windows, n, held ? s->to_hold : NULL, work,
                           s->first_frame, err);
    if (rc == 0)
        rc = be->ops->read(be, s->from_first_frame, s->first_frame,
                           look->tokens * sizeof(*s->first_frame), err);
    for (uint32_t i = 0; rc == 0 && i < n; first += windows[i++].n)
        memcpy(windows[i].first_frame, s->from_first_frame + first + windows[i].text - 1,
               (windows[i].n - windows[i].text) * sizeof(*s->first_frame));
    return rc;
}

int whisper_align(struct asr_session *session, const struct asr_alignment *windows, uint32_t n,
                  const struct whisper_head *heads, uint32_t head_count, float *matrix,
                  struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    struct look look = {.heads = heads, .head_count = head_count};
    int64_t start = clock_mono_ns();
    int rc = check_request(s, windows, n, &look, err);

    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        s->branch[windows[i].slot * s->shape.branches].seen = 0;
        s->branch[windows[i].slot * s->shape.branches].asked = false;
        memset(windows[i].logprob, 0, windows[i].n * sizeof(*windows[i].logprob));
    }
    rc = run_passes(s, windows, &look, err);
    if (rc == 0)
        rc = find_paths(s, windows, n, &look, matrix, err);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < n; i++)
        s->branch[windows[i].slot * s->shape.branches].seen = windows[i].n;
    s->asr.times.step_ns += clock_mono_ns() - start;
    s->asr.times.steps++;
    s->asr.times.tokens += look.tokens;
    return 0;
}
