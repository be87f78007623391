/* What a call says of branches: which rows they take part with, and who goes on from where.
 *
 * A call has a number, and each branch remembers the last call that named it: so every row is
 * checked against the others of its call in one pass, however many there are. */
#include "workers/models/whisper/whisper_session.h"

/* NULL: there is no such branch. */
static struct branch *branch_of(const struct whisper_session *s, uint32_t slot, uint32_t branch)
{
    return slot < s->shape.slots && branch < s->shape.branches
               ? &s->branch[slot * s->shape.branches + branch]
               : NULL;
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

static int check_row(struct whisper_session *s, const struct whisper_row *r, uint32_t i, bool ahead,
                     struct err *err)
{
    struct branch *b = branch_of(s, r->slot, r->branch);
    bool again = b && b->call == s->calls;
    bool follows = ahead && r->token == WHISPER_FOLLOWS;

    if (!b || !s->encoded[r->slot] || r->pos >= s->w->config.max_target_positions ||
        (again ? r->pos != b->next : r->pos > b->seen))
        return err_set(err, ERR_DEVICE, "row %u: branch %u of slot %u has no position %u%s", i,
                       r->branch, r->slot, r->pos, again ? " after the one before" : "");
    if (follows && (again || !b->asked || r->pos != b->seen))
        return err_set(err, ERR_DEVICE, "row %u: slot %u has no choice to follow", i, r->slot);
    b->call = s->calls;
    b->next = r->pos + 1;
    return follows ? 0 : whisper_check_token(s, r->token, err);
}

int whisper_check_rows(struct whisper_session *s, const struct whisper_row *rows, uint32_t n,
                       bool ahead, struct err *err)
{
    int rc = 0;

    if (n < 1 || n > s->rows_max)
        return err_set(err, ERR_DEVICE, "a step of %u rows in a session of %u", n, s->rows_max);
    s->calls++;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = check_row(s, &rows[i], i, ahead, err);
    return rc;
}

int whisper_write_rows(struct whisper_session *s, const struct whisper_row *rows, uint32_t n,
                       uint32_t width, struct err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct whisper_row *r = &rows[i];
        uint32_t own = r->slot * s->shape.branches + r->branch;

        s->to_rows[i] =
            (struct token_row){(int32_t)own, (int32_t)r->pos, r->token, (int32_t)r->slot};
    }
    for (uint32_t i = n; i < width; i++)
        s->to_rows[i] = (struct token_row){.slot = -1};
    return s->w->be->ops->write(s->w->be, s->rows, s->to_rows, width * sizeof(*s->rows), err);
}

void whisper_settle_rows(struct whisper_session *s, const struct whisper_row *rows,
                         const struct choice_ask *asks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct branch *b = branch_of(s, rows[i].slot, rows[i].branch);

        b->seen = rows[i].pos + 1;
        b->asked = asks && asks[i].what & CHOOSE_TOKEN;
    }
}

/* ---- branches ---- */

/* As a source or as a destination; a source may have many. */
static int name_branch(struct whisper_session *s, const struct whisper_move *m, bool to, uint32_t i,
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

/* Longer than most caches need, but one operation for all of a layer. */
static int copy_caches(struct whisper_session *s, uint32_t n, uint32_t keys, struct err *err)
{
    struct backend *be = s->w->be;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < s->w->config.decoder_layers; i++)
        rc = be->ops->kv_copy(be, whisper_own_kv(s, i), s->moves, n, keys, err);
    return rc;
}

int whisper_branch(struct whisper_session *s, const struct whisper_move *moves, uint32_t n,
                   struct err *err)
{
    uint32_t keys = 0;
    int rc = 0;

    s->calls++;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = name_branch(s, &moves[i], false, i, err);
        if (rc == 0)
            rc = name_branch(s, &moves[i], true, i, err);
    }
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < n; i++) { /* no more than there are destinations */
        uint32_t base = moves[i].slot * s->shape.branches;
        uint32_t seen = s->branch[base + moves[i].from].seen;

        s->moves[i] = (struct kv_move){base + moves[i].from, base + moves[i].to};
        keys = seen > keys ? seen : keys;
    }
    rc = keys ? copy_caches(s, n, keys, err) : 0;
    for (uint32_t i = 0; i < n; i++) /* half a copy is none */
        s->branch[s->moves[i].to].seen = rc == 0 ? s->branch[s->moves[i].from].seen : 0;
    return rc;
}
