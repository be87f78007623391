/* Checks a call's branches: which rows they have, and which branch continues from which.
 *
 * Each call has a number, and each branch remembers the last call that named it, so that one pass
 * checks every row against the others of its call. */
#include <string.h>

#include "workers/models/whisper/whisper_session.h"

/* NULL: there is no such branch. */
static struct branch *branch_of(const struct whisper_session *s, uint32_t slot, uint32_t branch)
{
    return slot < s->shape.slots && branch < s->shape.branches
               ? &s->branch[slot * s->shape.branches + branch]
               : NULL;
}

static uint16_t *line_of(const struct whisper_session *s, uint32_t own)
{
    return s->to_lies_in + (size_t)own * s->w->config.max_target_positions;
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

    if (!b || !s->encoded[r->slot] || r->pos >= s->w->config.max_target_positions ||
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

int whisper_check_rows(struct whisper_session *s, const struct asr_row *rows, uint32_t n,
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
    size_t line = s->w->config.max_target_positions, n = s->lies_end - s->lies_from;
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

int whisper_write_rows(struct whisper_session *s, const struct asr_row *rows, uint32_t n,
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

void whisper_finish_rows(struct whisper_session *s, const struct asr_row *rows,
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
