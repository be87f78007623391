/* Tokens through the decoder, all branches of all slots at once: to logits, or to choices.
 *
 * A step's input (branch, position, token, ask) lies in device memory, so that a device that
 * records operations records a step once for each number of rows, and replays it. Row counts are
 * rounded up for that: padding rows belong to no branch and are asked for nothing.
 *
 * A row looks at earlier ones of its branch through the cache alone, and each layer stores the keys
 * of all rows before it looks at any: so a prompt's rows may be in one step. Without a recording,
 * logits are computed only for rows that are asked for something. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "workers/models/whisper/whisper_net.h"

/* ---- which rows a call's branches have, and which branch continues from which
 *
 * Each call has a number, and each branch remembers the last call that named it, so that one pass
 * checks every row against the others of its call. */

/* NULL: there is no such branch. */
static struct branch *branch_of(const struct whisper_session *s, uint32_t slot, uint32_t branch)
{
    return slot < s->shape.slots && branch < s->shape.branches
               ? &s->branch[slot * s->shape.branches + branch]
               : NULL;
}

static uint16_t *line_of(const struct whisper_session *s, uint32_t own)
{
    return s->to_lies_in + (size_t)own * s->positions;
}

static void line_changed(struct whisper_session *s, uint32_t own)
{
    bool none = s->lies_from == s->lies_end;

    s->lies_from = none || own < s->lies_from ? own : s->lies_from;
    s->lies_end = none || own >= s->lies_end ? own + 1 : s->lies_end;
}

/* ---- rows ---- */

int whisper_check_token(const struct whisper_session *s, int32_t token, struct err *err)
{
    if (token >= 0 && (uint32_t)token < s->w->config.vocab_size)
        return 0;
    return err_set(err, ERR_MODEL,
                   "token %d is not in the model's vocabulary of %u: its tokenizer.json and its "
                   "weights do not belong together",
                   token, s->w->config.vocab_size);
}

static int check_row(struct whisper_session *s, const struct asr_row *r, uint32_t i, bool ahead,
                     struct err *err)
{
    struct branch *b = branch_of(s, r->slot, r->branch);
    bool again = b && b->call == s->calls;
    bool follows = ahead && r->token == ASR_FOLLOWS;

    if (!b || !s->encoded[r->slot] || r->pos >= s->positions ||
        (again ? r->pos != b->next : r->pos > b->seen))
        return err_set(err, ERR_DEVICE, "row %u: branch %u of slot %u has no position %u%s", i,
                       r->branch, r->slot, r->pos, again ? " after the one before" : "");
    if (follows && (again || !b->asked || r->pos != b->seen))
        return err_set(err, ERR_DEVICE, "row %u: slot %u has no choice to follow", i, r->slot);
    b->from = again ? b->from : r->pos;
    b->call = s->calls;
    b->next = r->pos + 1;
    return follows ? 0 : whisper_check_token(s, r->token, err);
}

/* Whether the row would look at a position that another branch's row of this call stores anew. */
static bool is_overtaken(const struct whisper_session *s, const struct asr_row *r)
{
    uint32_t own = r->slot * s->shape.branches + r->branch;
    const uint16_t *line = line_of(s, own);

    for (uint32_t p = 0; p < s->branch[own].from; p++) {
        const struct branch *b = &s->branch[line[p]];

        if (line[p] != own && b->call == s->calls && b->from <= p)
            return true;
    }
    return false;
}

/* Lower positions than what a branch has stored are rare: else no row can be overtaken. */
static int check_shared(const struct whisper_session *s, const struct asr_row *rows, uint32_t n,
                        struct err *err)
{
    bool lower = false;

    for (uint32_t i = 0; i < n; i++)
        lower = lower || rows[i].pos < branch_of(s, rows[i].slot, rows[i].branch)->stored;
    for (uint32_t i = 0; lower && i < n; i++)
        if (is_overtaken(s, &rows[i]))
            return err_set(err, ERR_DEVICE,
                           "row %u: branch %u of slot %u goes on from what another row overwrites",
                           i, rows[i].branch, rows[i].slot);
    return 0;
}

/* Whether these rows may be a step: asr_model.h, struct asr_row; ahead: some may follow the step
 * before. Changes nothing that a later call would see. */
static int whisper_check_rows(struct whisper_session *s, const struct asr_row *rows, uint32_t n,
                              bool ahead, struct err *err)
{
    int rc = 0;

    if (n < 1 || n > s->asr.rows)
        return err_set(err, ERR_DEVICE, "a step of %u rows in a session of %u", n, s->asr.rows);
    s->calls++;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = check_row(s, &rows[i], i, ahead, err);
    return rc != 0 || s->shape.branches == 1 ? rc : check_shared(s, rows, n, err);
}

/* ---- where positions lie ---- */

/* A row stores this position of own slot `own` anew. Another branch that has it, or a later one,
 * from there ends before it: later ones are to be stored next, and a backend may clear one. */
static void store_anew(struct whisper_session *s, uint32_t own, uint32_t pos)
{
    uint32_t first = own - own % s->shape.branches;
    uint16_t *line = line_of(s, own);

    for (uint32_t i = first; i < first + s->shape.branches; i++)
        for (uint32_t p = pos; i != own && p < s->branch[i].seen; p++)
            if (line_of(s, i)[p] == own)
                s->branch[i].seen = p;
    s->branch[own].stored = pos + 1;
    if (line[pos] != own) {
        line[pos] = (uint16_t)own;
        line_changed(s, own);
    }
}

static int send_lines(struct whisper_session *s, struct err *err)
{
    size_t line = s->positions, n = s->lies_end - s->lies_from;
    struct backend *be = s->w->be;
    int rc = n == 0 ? 0
                    : be->ops->write(be, s->lies_in + s->lies_from * line, line_of(s, s->lies_from),
                                     n * line * sizeof(*s->lies_in), err);

    if (rc == 0)
        s->lies_from = s->lies_end = 0;
    return rc;
}

int whisper_send_rows(struct whisper_session *s, uint32_t n, uint32_t width, struct err *err)
{
    int rc = 0;

    if (s->shape.branches > 1) {
        for (uint32_t i = 0; i < n; i++)
            store_anew(s, (uint32_t)s->to_rows[i].slot, (uint32_t)s->to_rows[i].pos);
        rc = send_lines(s, err);
    }
    for (uint32_t i = n; i < width; i++)
        s->to_rows[i] = (struct token_row){.slot = -1};
    return rc != 0
               ? rc
               : s->w->be->ops->write(s->w->be, s->rows, s->to_rows, width * sizeof(*s->rows), err);
}

/* n rows to the device, and padding up to `width`. */
static int whisper_write_rows(struct whisper_session *s, const struct asr_row *rows, uint32_t n,
                              uint32_t width, struct err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct asr_row *r = &rows[i];
        uint32_t own = r->slot * s->shape.branches + r->branch;

        s->to_rows[i] =
            (struct token_row){(int32_t)own, (int32_t)r->pos, r->token, (int32_t)r->slot};
    }
    return whisper_send_rows(s, n, width, err);
}

/* Their caches hold them from now on. asks: or NULL, none. */
static void whisper_finish_rows(struct whisper_session *s, const struct asr_row *rows,
                                const struct choice_ask *asks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct branch *b = branch_of(s, rows[i].slot, rows[i].branch);

        b->seen = rows[i].pos + 1;
        b->asked = asks && asks[i].what & CHOOSE_TOKEN;
    }
}

/* ---- branches ---- */

/* Checks a source or a destination; a source may have many destinations. */
static int name_branch(struct whisper_session *s, const struct asr_move *m, bool to, uint32_t i,
                       struct err *err)
{
    uint32_t which = to ? m->to : m->from;
    struct branch *b = branch_of(s, m->slot, which);

    if (!b || !s->encoded[m->slot])
        return err_set(err, ERR_DEVICE, "move %u: slot %u has no branch %u", i, m->slot, which);
    if (b->call == s->calls && (to || b->to))
        return err_set(err, ERR_DEVICE, "move %u: branch %u of slot %u is twice in one call", i,
                       which, m->slot);
    b->call = s->calls;
    b->to = to;
    return 0;
}

int whisper_branch(struct asr_session *session, const struct asr_move *moves, uint32_t n,
                   struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    int rc = 0;

    s->calls++;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = name_branch(s, &moves[i], false, i, err);
        if (rc == 0)
            rc = name_branch(s, &moves[i], true, i, err);
    }
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t base = moves[i].slot * s->shape.branches;
        uint32_t from = base + moves[i].from, to = base + moves[i].to;

        s->branch[to].seen = s->branch[from].seen;
        memcpy(line_of(s, to), line_of(s, from), s->branch[from].seen * sizeof(*s->to_lies_in));
        line_changed(s, to);
    }
    return 0;
}

static int apply_layer_norm(struct whisper_session *s, struct tensor x, const struct norm *n,
                            struct tensor y, struct err *err)
{
    return s->w->be->ops->layer_norm(s->w->be, x, n->gamma, n->beta, WHISPER_NORM_EPSILON, y, err);
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

    rc = apply_layer_norm(s, x, &l->attention_norm, h, err);
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
                                const struct look *look, struct err *err)
{
    const struct decoder_layer *l = &s->w->decoder[layer];
    struct backend *be = s->w->be;
    struct tensor x = head_rows(s->step_x, n), h = head_rows(s->step_h, n);
    struct tensor q = head_rows(s->step_q, n), attended = head_rows(s->step_attended, n);
    int rc;

    rc = apply_layer_norm(s, x, &l->cross_norm, h, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->cross_q, h, EPILOGUE_NONE, q, err);
    if (rc == 0 && look)
        rc = whisper_look(s, layer, q, look, err);
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

    rc = apply_layer_norm(s, x, &l->ffn_norm, h, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc1, h, EPILOGUE_GELU, ffn, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc2, ffn, EPILOGUE_ADD, x, err);
    return rc;
}

int whisper_step_layers(struct whisper_session *s, uint32_t n, const struct look *look,
                        struct err *err)
{
    struct backend *be = s->w->be;
    int rc;

    rc = be->ops->embed(be, s->w->embedding, s->w->decoder_positions, s->rows,
                        head_rows(s->step_x, n), err);
    for (uint32_t i = 0; rc == 0 && i < s->w->config.decoder_layers; i++) {
        rc = step_own_attention(s, i, n, err);
        if (rc == 0)
            rc = step_cross_attention(s, i, n, look, err);
        if (rc == 0)
            rc = step_ffn(s, i, n, err);
    }
    return rc;
}

int whisper_step_logits(struct whisper_session *s, uint32_t first, uint32_t n, struct err *err)
{
    struct backend *be = s->w->be;
    struct tensor h = head_rows(s->step_h, n);
    int rc = apply_layer_norm(s, tensor_rows(s->step_x, first, n), &s->w->decoder_norm, h, err);

    return rc != 0
               ? rc
               : be->ops->linear(be, s->w->logits, h, EPILOGUE_NONE, head_rows(s->logits, n), err);
}

/* ---- the rows of a call ---- */

/* 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128 ... and at last `most`. */
static uint32_t round_rows(uint32_t n, uint32_t most, uint32_t *index)
{
    uint32_t width = 1;

    for (*index = 0; width < n; ++*index)
        if (width < 16)
            width *= 2;
        else
            width = (width & (width - 1)) == 0 ? width / 2 * 3 : width / 3 * 4;
    return width < most ? width : most;
}

uint32_t whisper_step_width(const struct whisper_session *s, uint32_t n, uint32_t *index)
{
    *index = 0;
    return s->w->be->ops->record_begin ? round_rows(n, s->asr.rows, index) : n;
}

uint32_t whisper_pass_width(const struct whisper_session *s, uint32_t n)
{
    uint32_t index;

    return s->w->be->ops->record_begin ? round_rows(n, s->pass_rows, &index) : n;
}

/* A step that began at `start` has ended, perhaps begun while another was under way. */
static void count_step_time(struct whisper_session *s, uint32_t n, int64_t start)
{
    int64_t from = start > s->ended_at ? start : s->ended_at;

    s->ended_at = clock_mono_ns();
    s->asr.times.step_ns += s->ended_at - from;
    s->asr.times.steps++;
    s->asr.times.tokens += n;
}

/* The rows' caches alone. */
static int fill_row_caches(struct whisper_session *s, const struct asr_row *rows, uint32_t n,
                           struct err *err)
{
    uint32_t index, width = whisper_step_width(s, n, &index);
    int rc = whisper_write_rows(s, rows, n, width, err);

    return rc != 0 ? rc : whisper_step_layers(s, width, NULL, err);
}

int whisper_step(struct asr_session *session, const struct asr_row *rows, uint32_t n, float *logits,
                 struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    struct backend *be = s->w->be;
    int64_t start = clock_mono_ns();
    int rc;

    rc = whisper_check_rows(s, rows, n, false, err);
    if (rc == 0 && s->begun != s->ended)
        rc = err_set(err, ERR_DEVICE, "a step while others are under way");
    if (rc != 0)
        return rc;
    rc = fill_row_caches(s, rows, n, err);
    if (rc == 0 && logits)
        rc = whisper_step_logits(s, 0, n, err);
    if (rc == 0)
        rc = logits ? be->ops->get(be, logits, head_rows(s->logits, n), err)
                    : be->ops->sync(be, err);
    if (rc != 0)
        return rc;
    whisper_finish_rows(s, rows, NULL, n);
    count_step_time(s, n, start);
    return 0;
}

/* ---- choices ---- */

/* s->step_x to choices, of n rows. */
static int choose_rows(struct whisper_session *s, uint32_t n, bool top, struct err *err)
{
    struct backend *be = s->w->be;
    struct tensor logits = head_rows(s->logits, n);
    int rc = whisper_step_logits(s, 0, n, err);

    if (rc == 0)
        rc = be->ops->choose(be, s->rules, logits, s->asks, s->choices, err);
    if (rc == 0 && top)
        rc = be->ops->top(be, logits, s->top, s->candidates, err);
    return rc;
}

/* All that a recorded step consists of. */
static int step_choices(struct whisper_session *s, uint32_t width, struct err *err)
{
    struct backend *be = s->w->be;
    int rc = s->asr.ahead ? be->ops->follow(be, s->tails, s->rows, s->asks, width, err) : 0;

    if (rc == 0)
        rc = whisper_step_layers(s, width, NULL, err);
    if (rc == 0)
        rc = choose_rows(s, width, s->top != 0, err);
    if (rc == 0 && s->asr.ahead)
        rc = be->ops->note(be, s->rules, s->rows, s->asks, s->choices, width, s->tails, err);
    return rc;
}

static int record_step_graph(struct whisper_session *s, struct bucket *b, uint32_t width,
                             struct err *err)
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

/* The first step of a width prepares it, the second records it. If a step cannot be recorded, for
 * lack of memory or because a library call cannot be recorded, steps run without recordings; a lost
 * device fails again in the step itself. */
static int run_choices(struct whisper_session *s, uint32_t width, uint32_t index, struct err *err)
{
    struct bucket *b = &s->bucket[index];
    int rc;

    if (b->prepared && !b->recording && s->records) {
        rc = record_step_graph(s, b, width, err);
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

/* Sends the asks of the answered rows to the device, and empty ones for padding up to `width`. */
static int write_asks(struct whisper_session *s, const struct choice_ask *asks, uint32_t answered,
                      uint32_t width, struct err *err)
{
    for (uint32_t i = 0; i < width; i++)
        s->to_asks[i] =
            i < answered ? asks[s->answered[i]] : (struct choice_ask){.last = -1, .before = -1};
    return s->w->be->ops->write(s->w->be, s->asks, s->to_asks, width * sizeof(*s->asks), err);
}

/* Finds the rows that are answered: the asked ones, or all. Returns their number. */
static uint32_t list_answered(struct whisper_session *s, const struct choice_ask *asks, uint32_t n,
                              bool all)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < n; i++)
        if (all || asks[i].what != 0)
            s->answered[count++] = i;
    return count;
}

/* The answered rows of s->step_x to its first ones. */
static int gather_answered_rows(struct whisper_session *s, uint32_t answered, struct err *err)
{
    struct backend *be = s->w->be;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < answered; i++) {
        struct tensor from = head_rows(s->step_x, 1), to = from;

        from.data = (float *)s->step_x.data + s->answered[i] * s->step_x.stride;
        to.data = (float *)s->step_x.data + i * s->step_x.stride;
        if (s->answered[i] != i)
            rc = be->ops->copy(be, to, from, err);
    }
    return rc;
}

/* Answers, as they came, to where the caller's rows are. */
static void put_answers(const struct whisper_session *s, uint32_t n, uint32_t answered,
                        struct choice *ret, struct candidate *top)
{
    const struct candidate none = {.token = -1, .logprob = -INFINITY};
    size_t k = s->top;

    for (uint32_t i = 0; i < n; i++)
        ret[i] = (struct choice){.token = -1, .language = -1, .logprob = -INFINITY};
    for (size_t i = 0; top && i < n * k; i++)
        top[i] = none;
    for (uint32_t i = 0; i < answered; i++) {
        uint32_t row = s->answered[i];

        ret[row] = s->from_choices[i];
        if (top && s->to_asks[i].what & CHOOSE_TOKEN)
            memcpy(top + row * k, s->from_candidates + i * k, k * sizeof(*top));
    }
}

static int read_answers(struct whisper_session *s, uint32_t answered, bool top, struct err *err)
{
    struct backend *be = s->w->be;
    int rc;

    if (answered == 0)
        return be->ops->sync(be, err);
    rc = be->ops->read(be, s->from_choices, s->choices, answered * sizeof(*s->choices), err);
    if (rc == 0 && top)
        rc = be->ops->read(be, s->from_candidates, s->candidates,
                           (size_t)answered * s->top * sizeof(*s->candidates), err);
    return rc;
}

/* Through a recorded step, whatever of it is asked for. */
static int choose_recorded(struct whisper_session *s, const struct asr_row *rows,
                           const struct choice_ask *asks, uint32_t n, struct err *err)
{
    uint32_t index, width = whisper_step_width(s, n, &index);
    int rc = whisper_write_rows(s, rows, n, width, err);

    if (rc == 0)
        rc = write_asks(s, asks, n, width, err);
    return rc != 0 ? rc : run_choices(s, width, index, err);
}

static int choose_plain(struct whisper_session *s, const struct asr_row *rows,
                        const struct choice_ask *asks, uint32_t n, uint32_t answered, bool top,
                        struct err *err)
{
    int rc = fill_row_caches(s, rows, n, err);

    if (rc != 0 || answered == 0)
        return rc;
    rc = gather_answered_rows(s, answered, err);
    if (rc == 0)
        rc = write_asks(s, asks, answered, answered, err);
    return rc != 0 ? rc : choose_rows(s, answered, top, err);
}

static int check_choose(struct whisper_session *s, const struct asr_row *rows, uint32_t n, bool top,
                        struct err *err)
{
    uint32_t most = s->asr.ahead ? ASR_AHEAD : 1;
    int rc = whisper_check_rows(s, rows, n, s->asr.ahead, err);

    if (rc != 0)
        return rc;
    if (top && s->top == 0)
        return err_set(err, ERR_DEVICE, "a session of one branch has no candidates");
    if (!s->rules)
        return err_set(err, ERR_DEVICE, "a token is to be chosen before the rules are known");
    if (s->begun - s->ended >= most)
        return err_set(err, ERR_DEVICE, "a step beyond the %u that may be under way", most);
    return 0;
}

static uint32_t place_of(uint64_t step) { return (uint32_t)(step % ASR_AHEAD); }

int whisper_choose_begin(struct asr_session *session, const struct asr_row *rows,
                         const struct choice_ask *asks, uint32_t n, bool top, struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    struct under_way u = {.n = n, .top = top, .start = clock_mono_ns()};
    struct backend *be = s->w->be;
    bool recorded;
    int rc = check_choose(s, rows, n, top, err);

    if (rc != 0)
        return rc;
    u.answered = list_answered(s, asks, n, false);
    recorded = be->ops->record_begin && (u.answered || s->records);
    if (recorded || s->asr.ahead)
        u.answered = list_answered(s, asks, n, true);
    rc = recorded || s->asr.ahead ? choose_recorded(s, rows, asks, n, err)
                                  : choose_plain(s, rows, asks, n, u.answered, top, err);
    if (rc == 0 && s->asr.ahead)
        rc = be->ops->post(be, s->answer_box + place_of(s->begun), s->choices,
                           n * sizeof(*s->choices), err);
    if (rc != 0) {
        s->ended = s->begun;
        return rc;
    }
    whisper_finish_rows(s, rows, asks, n);
    s->under_way[place_of(s->begun++)] = u;
    return 0;
}

int whisper_choose_end(struct asr_session *session, struct choice *ret, struct candidate *top,
                       struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    const struct under_way *u = &s->under_way[place_of(s->ended)];
    struct backend *be = s->w->be;
    int rc;

    if (s->begun == s->ended || (top && !u->top))
        return err_set(err, ERR_DEVICE, "choices that nobody asked for");
    rc = s->asr.ahead ? be->ops->collect(be, s->answer_box + place_of(s->ended), s->from_choices,
                                         u->n * sizeof(*s->from_choices), err)
                      : read_answers(s, u->answered, u->top, err);
    s->ended++;
    if (rc != 0) {
        s->ended = s->begun;
        return rc;
    }
    if (s->asr.ahead)
        memcpy(ret, s->from_choices, u->n * sizeof(*ret));
    else
        put_answers(s, u->n, u->answered, ret, top);
    count_step_time(s, u->n, u->start);
    return 0;
}

int whisper_choose(struct asr_session *session, const struct asr_row *rows,
                   const struct choice_ask *asks, uint32_t n, struct choice *ret,
                   struct candidate *top, struct err *err)
{
    struct whisper_session *s = whisper_session_of(session);
    int rc = s->begun == s->ended ? whisper_choose_begin(session, rows, asks, n, top != NULL, err)
                                  : err_set(err, ERR_DEVICE, "a step while others are under way");

    return rc == 0 ? whisper_choose_end(session, ret, top, err) : rc;
}

int whisper_warm_decoder(struct whisper_session *s, struct err *err)
{
    const struct asr_row row = {0};
    int rc = whisper_write_rows(s, &row, 1, 1, err);

    if (rc == 0)
        rc = whisper_step_layers(s, 1, NULL, err);
    if (rc == 0)
        rc = whisper_step_logits(s, 0, 1, err);
    if (rc == 0)
        rc = s->w->be->ops->sync(s->w->be, err);
    return rc;
}
