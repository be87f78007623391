/* How the tokens of a window follow its audio: the decoder runs once more over all of them, many
 * rows at a time, and records the scores of some heads of its cross-attention. */
#include "base/clock.h"
#include "workers/models/whisper/whisper_net.h"

/* Scores of head `i` of `tokens` ones, rows [at, at + rows) of it. */
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

static int check_align_request(const struct whisper_session *s, uint32_t slot,
                               const int32_t *tokens, const struct look *look, struct err *err)
{
    const struct whisper_config *c = &s->w->config;
    int rc = 0;

    if (slot >= s->shape.slots || !s->encoded[slot])
        return err_set(err, ERR_DEVICE, "slot %u has no window to align", slot);
    if (!s->rules)
        return err_set(err, ERR_DEVICE, "tokens are to be aligned before the rules are known");
    if (look->tokens < 1 || look->tokens > c->max_target_positions || look->frames < 1 ||
        look->frames > WHISPER_POSITIONS)
        return err_set(err, ERR_DEVICE, "%u tokens cannot be aligned to %u positions", look->tokens,
                       look->frames);
    if (look->head_count < 1 || look->head_count > s->shape.align_heads)
        return err_set(err, ERR_DEVICE, "%u heads in a session that aligns by %u at most",
                       look->head_count, s->shape.align_heads);
    for (uint32_t i = 0; i < look->head_count; i++) {
        if (look->heads[i].layer >= c->decoder_layers || look->heads[i].head >= c->decoder_heads)
            return err_set(err, ERR_MODEL, "the decoder has no head %u in layer %u",
                           look->heads[i].head, look->heads[i].layer);
    }
    for (uint32_t i = 0; rc == 0 && i < look->tokens; i++)
        rc = whisper_check_token(s, tokens[i], err);
    return rc;
}

/* Asks each row for the probability of the next token, if that is text. False if no row is
 * asked. */
static bool make_asks(struct whisper_session *s, const int32_t *tokens, const struct look *look,
                      uint32_t width)
{
    bool any = false;

    for (uint32_t i = 0; i < width; i++) {
        uint32_t next = look->at + i + 1;
        struct choice_ask *ask = &s->to_asks[i];

        *ask = (struct choice_ask){.last = -1, .before = -1, .last_time = -1};
        if (i >= look->rows || next >= look->tokens || tokens[next] >= s->eot)
            continue;
        ask->what = CHOOSE_GIVEN;
        ask->last = tokens[next];
        any = true;
    }
    return any;
}

static int check_usable(const struct choice *c, struct err *err)
{
    if (c->usable)
        return 0;
    return err_set(err, ERR_MODEL,
                   "the model's output is not a number; its weights are damaged, or the precision "
                   "is too low for it: try --precision fp32");
}

static int take_logprobs(struct whisper_session *s, const struct look *look, uint32_t width,
                         double *logprob, struct err *err)
{
    struct backend *be = s->w->be;
    int rc = whisper_step_logits(s, width, err);

    if (rc == 0)
        rc = be->ops->write(be, s->asks, s->to_asks, width * sizeof(*s->asks), err);
    if (rc == 0)
        rc = be->ops->choose(be, s->rules, head_rows(s->logits, width), s->asks, s->choices, err);
    if (rc == 0)
        rc = be->ops->read(be, s->from_choices, s->choices, look->rows * sizeof(*s->choices), err);
    for (uint32_t i = 0; rc == 0 && i < look->rows; i++) {
        if (s->to_asks[i].what == 0)
            continue;
        rc = check_usable(&s->from_choices[i], err);
        logprob[look->at + i + 1] = s->from_choices[i].logprob;
    }
    return rc;
}

/* Tokens [at, at + rows), which nobody else's rows are mixed with. */
static int run_align_rows(struct whisper_session *s, uint32_t slot, const int32_t *tokens,
                          const struct look *look, double *logprob, struct err *err)
{
    uint32_t index, width = whisper_step_width(s, look->rows, &index);
    int rc;

    for (uint32_t i = 0; i < look->rows; i++)
        s->to_rows[i] =
            (struct token_row){(int32_t)(slot * s->shape.branches), (int32_t)(look->at + i),
                               tokens[look->at + i], (int32_t)slot};
    rc = whisper_send_rows(s, look->rows, width, err);
    if (rc == 0)
        rc = whisper_step_layers(s, width, look, err);
    if (rc == 0 && make_asks(s, tokens, look, width))
        rc = take_logprobs(s, look, width, logprob, err);
    return rc;
}

static int compute_align_matrix(struct whisper_session *s, const struct look *look, float *matrix,
                                struct err *err)
{
    struct tensor out = tensor_of(DTYPE_F32, s->aligned.data, look->tokens, look->frames);
    struct backend *be = s->w->be;
    struct tensor scores = s->scores;
    int rc;

    scores.rows = (int64_t)look->head_count * look->tokens;
    scores.cols = look->frames;
    rc = be->ops->align(be, scores, look->head_count, look->frames, out, err);
    return rc != 0 ? rc : be->ops->get(be, matrix, out, err);
}

int whisper_align(struct asr_session *session, uint32_t slot, const int32_t *tokens, uint32_t n,
                  uint32_t frames, const struct whisper_head *heads, uint32_t head_count,
                  float *matrix, double *logprob, struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    struct look look = {.heads = heads, .head_count = head_count, .frames = frames, .tokens = n};
    int64_t start = clock_mono_ns();
    int rc = check_align_request(s, slot, tokens, &look, err);

    if (rc != 0)
        return rc;
    s->branch[slot * s->shape.branches].seen = 0;
    s->branch[slot * s->shape.branches].asked = false;
    for (uint32_t i = 0; i < n; i++)
        logprob[i] = 0;
    for (; rc == 0 && look.at < n; look.at += look.rows) {
        look.rows = n - look.at < s->asr.rows ? n - look.at : s->asr.rows;
        rc = run_align_rows(s, slot, tokens, &look, logprob, err);
    }
    if (rc == 0)
        rc = compute_align_matrix(s, &look, matrix, err);
    if (rc != 0)
        return rc;
    s->branch[slot * s->shape.branches].seen = n;
    s->asr.times.step_ns += clock_mono_ns() - start;
    s->asr.times.steps++;
    s->asr.times.tokens += n;
    return 0;
}
