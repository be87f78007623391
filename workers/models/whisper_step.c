/* Tokens through the decoder, all slots at once: to logits, or to choices.
 *
 * What a step works on (which slot, which position, which token, what is asked) lies in device
 * memory, so that on a device that records operations a step is recorded once for each number of
 * rows and run again ever after. Row counts are rounded up for that: padding rows work on a spare
 * slot and are asked for nothing. Rows do not look at each other. */
#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "workers/models/whisper_session.h"

static int norm(struct whisper_session *s, struct tensor x, const struct norm *n, struct tensor y,
                struct err *err)
{
    return s->w->be->ops->layer_norm(s->w->be, x, n->gamma, n->beta, y, err);
}

/* ---- the network ---- */

static int step_own_attention(struct whisper_session *s, uint32_t layer, uint32_t n,
                              struct err *err)
{
    const struct decoder_layer *l = &s->w->decoder[layer];
    struct backend *be = s->w->be;
    struct kv kv = whisper_own_kv(s, layer);
    int64_t d = s->w->config.d_model;
    struct tensor x = head_rows(s->step_x, n), h = head_rows(s->step_h, n);
    struct tensor qkv = head_rows(s->step_qkv, n), attended = head_rows(s->step_attended, n);
    int rc;

    rc = norm(s, x, &l->attention_norm, h, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->qkv, h, EPILOGUE_NONE, qkv, err);
    if (rc == 0)
        rc = be->ops->kv_append(be, kv, s->rows, tensor_columns(qkv, d, d),
                                tensor_columns(qkv, 2 * d, d), err);
    if (rc == 0)
        rc = be->ops->attention_rows(be, tensor_columns(qkv, 0, d), kv, s->rows, 0, attended, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->out, attended, EPILOGUE_ADD, x, err);
    return rc;
}

static int step_cross_attention(struct whisper_session *s, uint32_t layer, uint32_t n,
                                struct err *err)
{
    const struct decoder_layer *l = &s->w->decoder[layer];
    struct backend *be = s->w->be;
    struct tensor x = head_rows(s->step_x, n), h = head_rows(s->step_h, n);
    struct tensor q = head_rows(s->step_q, n), attended = head_rows(s->step_attended, n);
    int rc;

    rc = norm(s, x, &l->cross_norm, h, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->cross_q, h, EPILOGUE_NONE, q, err);
    if (rc == 0)
        rc = be->ops->attention_rows(be, q, whisper_cross_kv(s, layer), s->rows, WHISPER_POSITIONS,
                                     attended, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->cross_out, attended, EPILOGUE_ADD, x, err);
    return rc;
}

static int step_ffn(struct whisper_session *s, uint32_t layer, uint32_t n, struct err *err)
{
    const struct decoder_layer *l = &s->w->decoder[layer];
    struct backend *be = s->w->be;
    struct tensor x = head_rows(s->step_x, n), h = head_rows(s->step_h, n);
    struct tensor ffn = head_rows(s->step_ffn, n);
    int rc;

    rc = norm(s, x, &l->ffn_norm, h, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc1, h, EPILOGUE_GELU, ffn, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc2, ffn, EPILOGUE_ADD, x, err);
    return rc;
}

/* The rows that lie in s->rows, to s->step_x. */
static int step_layers(struct whisper_session *s, uint32_t n, struct err *err)
{
    struct backend *be = s->w->be;
    int rc;

    rc = be->ops->embed(be, s->w->embedding, s->w->decoder_positions, s->rows,
                        head_rows(s->step_x, n), err);
    for (uint32_t i = 0; rc == 0 && i < s->w->config.decoder_layers; i++) {
        rc = step_own_attention(s, i, n, err);
        if (rc == 0)
            rc = step_cross_attention(s, i, n, err);
        if (rc == 0)
            rc = step_ffn(s, i, n, err);
    }
    return rc;
}

static int step_logits(struct whisper_session *s, uint32_t n, struct err *err)
{
    struct backend *be = s->w->be;
    struct tensor h = head_rows(s->step_h, n);
    int rc = norm(s, head_rows(s->step_x, n), &s->w->decoder_norm, h, err);

    return rc != 0
               ? rc
               : be->ops->linear(be, s->w->logits, h, EPILOGUE_NONE, head_rows(s->logits, n), err);
}

/* ---- the rows of a call ---- */

static int check_rows(const struct whisper_session *s, const struct whisper_row *rows, uint32_t n,
                      struct err *err)
{
    if (n < 1 || n > s->slots)
        return err_set(err, ERR_DEVICE, "a step of %u rows in a session of %u slots", n, s->slots);
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].slot >= s->slots || !s->slot[rows[i].slot].encoded ||
            rows[i].pos > s->slot[rows[i].slot].seen ||
            rows[i].pos >= s->w->config.max_target_positions)
            return err_set(err, ERR_DEVICE, "row %u: slot %u has no position %u", i, rows[i].slot,
                           rows[i].pos);
        if (rows[i].token < 0 || (uint32_t)rows[i].token >= s->w->config.vocab_size)
            return err_set(err, ERR_MODEL,
                           "token %d is not in the model's vocabulary of %u: its tokenizer.json "
                           "and its weights do not belong together",
                           rows[i].token, s->w->config.vocab_size);
        for (uint32_t k = 0; k < i; k++) {
            if (rows[k].slot == rows[i].slot)
                return err_set(err, ERR_DEVICE, "slot %u is twice in one step", rows[i].slot);
        }
    }
    return 0;
}

/* n rows to the device, padded to `width`. */
static int write_rows(struct whisper_session *s, const struct whisper_row *rows, uint32_t n,
                      uint32_t width, struct err *err)
{
    for (uint32_t i = 0; i < width; i++)
        s->to_rows[i] = i < n ? (struct token_row){(int32_t)rows[i].slot, (int32_t)rows[i].pos,
                                                   rows[i].token, (int32_t)rows[i].slot}
                              : (struct token_row){(int32_t)s->slots, 0, 0, (int32_t)s->slots};
    return s->w->be->ops->write(s->w->be, s->rows, s->to_rows, width * sizeof(*s->rows), err);
}

static int write_asks(struct whisper_session *s, const struct choice_ask *asks, uint32_t n,
                      uint32_t width, struct err *err)
{
    for (uint32_t i = 0; i < width; i++)
        s->to_asks[i] = i < n ? asks[i] : (struct choice_ask){.last = -1, .before = -1};
    return s->w->be->ops->write(s->w->be, s->asks, s->to_asks, width * sizeof(*s->asks), err);
}

static void settle(struct whisper_session *s, const struct whisper_row *rows, uint32_t n,
                   int64_t start)
{
    for (uint32_t i = 0; i < n; i++)
        s->slot[rows[i].slot].seen = rows[i].pos + 1;
    s->times.step_ns += clock_mono_ns() - start;
    s->times.steps++;
    s->times.tokens += n;
}

int whisper_step(struct whisper_session *s, const struct whisper_row *rows, uint32_t n,
                 float *logits, struct err *err)
{
    struct backend *be = s->w->be;
    int64_t start = clock_mono_ns();
    int rc;

    rc = check_rows(s, rows, n, err);
    if (rc == 0)
        rc = write_rows(s, rows, n, n, err);
    if (rc == 0)
        rc = step_layers(s, n, err);
    if (rc == 0 && logits)
        rc = step_logits(s, n, err);
    if (rc == 0)
        rc = logits ? be->ops->get(be, logits, head_rows(s->logits, n), err)
                    : be->ops->sync(be, err);
    if (rc == 0)
        settle(s, rows, n, start);
    return rc;
}

/* ---- choices ---- */

/* 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128 ... and at last the session's slots. */
static uint32_t bucket_of(const struct whisper_session *s, uint32_t n, uint32_t *index)
{
    uint32_t width = 1;

    for (*index = 0; width < n; ++*index) {
        if (width < 16)
            width *= 2;
        else
            width = (width & (width - 1)) == 0 ? width / 2 * 3 : width / 3 * 4;
    }
    return width < s->slots ? width : s->slots;
}

/* All that a recorded step consists of. */
static int step_choices(struct whisper_session *s, uint32_t width, struct err *err)
{
    struct backend *be = s->w->be;
    int rc = step_layers(s, width, err);

    if (rc == 0)
        rc = step_logits(s, width, err);
    if (rc == 0)
        rc = be->ops->choose(be, s->rules, head_rows(s->logits, width), s->asks, s->choices, err);
    return rc;
}

static int record(struct whisper_session *s, struct bucket *b, uint32_t width, struct err *err)
{
    struct backend *be = s->w->be;
    struct recording *made = NULL;
    struct err ignored;
    int rc = be->ops->record_begin(be, err);

    if (rc != 0)
        return rc;
    rc = step_choices(s, width, err);
    if (rc == 0)
        rc = be->ops->record_end(be, &made, err);
    else if (be->ops->record_end(be, &made, &ignored) == 0) /* what began must end */
        be->ops->record_free(be, made);
    if (rc == 0)
        b->recording = made;
    return rc;
}

/* The first step of a width prepares it, the second records it. Where a step cannot be recorded,
 * for want of memory or because a library does what no recording can hold, steps go on without; a
 * device that is lost says so again in the step itself. */
static int run_choices(struct whisper_session *s, uint32_t width, uint32_t index, struct err *err)
{
    struct bucket *b = &s->bucket[index];
    int rc;

    if (b->prepared && !b->recording && s->records) {
        rc = record(s, b, width, err);
        if (rc != 0) {
            s->records = false;
            log_warn("steps are not recorded from now on, which is slower: %s", err->msg);
        }
    }
    if (b->recording)
        return s->w->be->ops->record_run(s->w->be, b->recording, err);
    rc = step_choices(s, width, err);
    b->prepared = rc == 0;
    return rc;
}

/* Whether anybody asks for anything, so that the logits are needed. */
static bool asked(const struct choice_ask *asks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (asks[i].what != 0)
            return true;
    }
    return false;
}

/* The rows' caches alone. */
static int step_unasked(struct whisper_session *s, const struct whisper_row *rows, uint32_t n,
                        struct choice *ret, struct err *err)
{
    int rc = write_rows(s, rows, n, n, err);

    if (rc == 0)
        rc = step_layers(s, n, err);
    if (rc == 0)
        rc = s->w->be->ops->sync(s->w->be, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        ret[i] = (struct choice){.token = -1, .language = -1, .logprob = -INFINITY};
    return rc;
}

static int step_asked(struct whisper_session *s, const struct whisper_row *rows,
                      const struct choice_ask *asks, uint32_t n, struct choice *ret,
                      struct err *err)
{
    struct backend *be = s->w->be;
    uint32_t index = 0, width = be->ops->record_begin ? bucket_of(s, n, &index) : n;
    int rc;

    rc = write_rows(s, rows, n, width, err);
    if (rc == 0)
        rc = write_asks(s, asks, n, width, err);
    if (rc == 0)
        rc = run_choices(s, width, index, err);
    if (rc == 0)
        rc = be->ops->read(be, ret, s->choices, n * sizeof(*ret), err);
    return rc;
}

int whisper_choose(struct whisper_session *s, const struct whisper_row *rows,
                   const struct choice_ask *asks, uint32_t n, struct choice *ret,
                   struct candidate *top, struct err *err)
{
    int64_t start = clock_mono_ns();
    int rc = check_rows(s, rows, n, err);

    if (rc != 0)
        return rc;
    if (top)
        return err_set(err, ERR_DEVICE, "a session of one branch has no candidates");
    if (!s->rules)
        return err_set(err, ERR_DEVICE, "a token is to be chosen before the rules are known");
    if (asked(asks, n) || s->records)
        rc = step_asked(s, rows, asks, n, ret, err);
    else
        rc = step_unasked(s, rows, n, ret, err);
    if (rc == 0)
        settle(s, rows, n, start);
    return rc;
}

int whisper_warm_decoder(struct whisper_session *s, struct err *err)
{
    const struct whisper_row row = {0};
    int rc = write_rows(s, &row, 1, 1, err);

    if (rc == 0)
        rc = step_layers(s, 1, err);
    if (rc == 0)
        rc = step_logits(s, 1, err);
    if (rc == 0)
        rc = s->w->be->ops->sync(s->w->be, err);
    return rc;
}
