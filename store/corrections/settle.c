#include "store/corrections/settle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/corrections/place.h"

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "corrections: out of memory");
}

/* ------------------------------------------------------------------------------------- segments */

/* As the machine has it: the same rows as before, for they never changed. */
int corrections_lift(struct store *st, int64_t segment_id, struct err *err)
{
    int rc = db_run(st, err, "DELETE FROM word WHERE segment_id = ?", "i", segment_id);

    if (rc == 0)
        rc = db_run(st, err,
                    "INSERT INTO word (segment_id, idx, start_ms, end_ms, text, probability, "
                    "speaker_id) SELECT segment_id, idx, start_ms, end_ms, text, probability, "
                    "speaker_id FROM word_heard WHERE segment_id = ?",
                    "i", segment_id);
    if (rc == 0)
        rc = db_run(st, err, "DELETE FROM word_heard WHERE segment_id = ?", "i", segment_id);
    if (rc == 0)
        rc = db_run(st, err,
                    "UPDATE segment SET text = heard, heard = NULL WHERE segment_id = ? "
                    "AND heard IS NOT NULL",
                    "i", segment_id);
    return rc;
}

/* What is not current reads as the machine has it. */
static int restore_others(struct store *st, const struct heard *h, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT g.segment_id FROM task t JOIN segment g ON g.task_id = t.task_id "
                 "WHERE t.media_id = ? AND t.task_id <> ? AND g.heard IS NOT NULL",
                 "ii", h->media_id, h->task_id);
    while (db_rows_next(&rows))
        rows.rc = corrections_lift(st, sqlite3_column_int64(rows.stmt, 0), err);
    return db_rows_end(&rows);
}

static int set_aside(struct store *st, int64_t segment_id, struct err *err)
{
    int rc =
        db_run(st, err, "UPDATE segment SET heard = text WHERE segment_id = ?", "i", segment_id);

    if (rc == 0)
        rc = db_run(st, err,
                    "INSERT INTO word_heard (segment_id, idx, start_ms, end_ms, text, "
                    "probability, speaker_id) SELECT segment_id, idx, start_ms, end_ms, text, "
                    "probability, speaker_id FROM word WHERE segment_id = ?",
                    "i", segment_id);
    return rc;
}

static int put_rows(struct store *st, int64_t segment_id, const struct rebuilt *rows,
                    struct err *err)
{
    int rc = db_run(st, err, "DELETE FROM word WHERE segment_id = ?", "i", segment_id);

    for (size_t i = 0; i < rows->count && rc == 0; i++) {
        const struct rebuild_row *w = &rows->rows[i];

        rc = db_run(st, err,
                    "INSERT INTO word (segment_id, idx, start_ms, end_ms, text, probability, "
                    "speaker_id) VALUES (?, ?, ?, ?, ?, ?, nullif(?, 0))",
                    "iiiitdi", segment_id, (int64_t)i, w->start_ms, w->end_ms, w->text,
                    w->probability, w->speaker_id);
    }
    return rc;
}

static bool same_number(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static bool same_rows(const struct rebuilt *a, const struct rebuilt *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct rebuild_row *x = &a->rows[i], *y = &b->rows[i];

        if (x->start_ms != y->start_ms || x->end_ms != y->end_ms || x->len != y->len ||
            memcmp(x->text, y->text, x->len) != 0 || x->speaker_id != y->speaker_id ||
            !same_number(x->probability, y->probability))
            return false;
    }
    return true;
}

/* Nothing is written that is there already. */
static int write_rows(struct store *st, const struct heard_segment *g, const struct rebuilt *rows,
                      struct err *err)
{
    struct rebuilt there = {0};
    int rc = heard_rows(st, HEARD_ROWS("word"), g->segment_id, &there, err);

    if (rc == 0 && !same_rows(&there, rows))
        rc = put_rows(st, g->segment_id, rows, err);
    rebuilt_free(&there);
    return rc;
}

static int write_text(struct store *st, const struct heard_segment *g, const char *text,
                      struct err *err)
{
    int rc = 0;

    if (!g->text)
        rc = set_aside(st, g->segment_id, err);
    if (rc == 0 && strcmp(text, g->text ? g->text : g->heard) != 0)
        rc = db_run(st, err, "UPDATE segment SET text = ?2 WHERE segment_id = ?1", "it",
                    g->segment_id, text);
    return rc;
}

static int correct_segment(struct store *st, const struct heard_segment *g,
                           const struct place_part *parts, size_t n, struct err *err)
{
    struct rebuild_part *list = calloc(n + 1, sizeof(*list));
    struct buf text = BUF_INIT;
    struct rebuilt rows = {0};
    int rc;

    if (!list)
        return no_memory(err);
    for (size_t i = 0; i < n; i++)
        list[i] = parts[i].part;
    rebuild_text(&text, g->heard, list, n);
    rc = buf_cstr(&text) ? 0 : no_memory(err);
    if (rc == 0)
        rc = rebuild_rows(g->heard, g->rows.rows, g->rows.count, list, n, &rows, err);
    if (rc == 0)
        rc = write_text(st, g, (char *)text.data, err);
    if (rc == 0)
        rc = write_rows(st, g, &rows, err);
    rebuilt_free(&rows);
    buf_free(&text);
    free(list);
    return rc;
}

static int write_segments(struct store *st, struct heard *h, const struct places *p,
                          struct err *err)
{
    struct place_parts parts = {0};
    int rc = place_parts_make(h, p, &parts, err);

    for (size_t i = 0; i < h->count && rc == 0; i++) {
        struct heard_segment *g = &h->segments[i];
        size_t n = 0;
        const struct place_part *of = place_parts_of(&parts, i, &n);

        if (n)
            rc = heard_time(st, h, g, err);
        if (n && rc == 0)
            rc = correct_segment(st, g, of, n, err);
        else if (g->text)
            rc = corrections_lift(st, g->segment_id, err);
    }
    place_parts_free(&parts);
    return rc;
}

/* ---------------------------------------------------------------------------------- corrections */

static const char *const names[] = {[PLACE_APPLIED] = "applied",
                                    [PLACE_AGREED] = "agreed",
                                    [PLACE_CONFLICT] = "conflict",
                                    [PLACE_CONFIRMED] = "confirmed"};

static int write_places(struct store *st, const struct heard *h, const struct places *p,
                        const struct match_place *was, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < p->count && rc == 0; i++) {
        const struct place *c = &p->list[i];

        rc = db_run(st, err,
                    "UPDATE correction SET state = ?2 WHERE correction_id = ?1 "
                    "AND state <> ?2",
                    "it", c->correction_id, names[c->state]);
        if (rc == 0 && (!c->at.words || c->at.word != was[i].word || c->at.words != was[i].words))
            rc = place_write(st, h, c->correction_id, c->at, err);
    }
    return rc;
}

/* Rows of other transcriptions' segments. */
static int drop_others(struct store *st, const struct heard *h, struct err *err)
{
    return db_run(
        st, err,
        "DELETE FROM correction_at WHERE correction_id IN "
        "(SELECT correction_id FROM correction WHERE media_id = ?1) AND segment_id NOT IN "
        "(SELECT segment_id FROM segment WHERE task_id = ?2)",
        "ii", h->media_id, h->task_id);
}

static int settle_places(struct store *st, struct heard *h, struct places *p, struct err *err)
{
    struct match_place *was = calloc(p->count + 1, sizeof(*was));
    bool stand = false;
    int rc;

    if (!was)
        return no_memory(err);
    for (size_t i = 0; i < p->count; i++)
        was[i] = p->list[i].at;
    rc = places_stand(h, p, &stand, err);
    if (rc == 0 && !stand)
        rc = heard_time_all(st, h, err);
    if (rc == 0)
        rc = places_find(h, p, err);
    if (rc == 0)
        rc = write_places(st, h, p, was, err);
    free(was);
    return rc;
}

static int settle(struct store *st, int64_t media_id, struct err *err)
{
    struct heard h = {0};
    struct places p = {0};
    int rc = heard_load(st, media_id, &h, err);

    if (rc == 0)
        rc = drop_others(st, &h, err);
    if (rc == 0)
        rc = restore_others(st, &h, err);
    if (rc == 0)
        rc = places_load(st, &h, &p, err);
    if (rc == 0)
        rc = settle_places(st, &h, &p, err);
    if (rc == 0)
        rc = write_segments(st, &h, &p, err);
    places_free(&p);
    heard_free(&h);
    return rc;
}

int corrections_due(struct store *st, int64_t media_id, struct err *err)
{
    return db_run(st, err, "INSERT OR IGNORE INTO correction_due VALUES (?)", "i", media_id);
}

int corrections_settle(struct store *st, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc;

    while ((rc = db_first(st, &stmt, err, "SELECT media_id FROM correction_due LIMIT 1", "")) ==
           1) {
        int64_t media_id = sqlite3_column_int64(stmt, 0);

        sqlite3_reset(stmt);
        rc = settle(st, media_id, err);
        if (rc == 0)
            rc = db_run(st, err, "DELETE FROM correction_due WHERE media_id = ?", "i", media_id);
        if (rc < 0)
            return rc;
    }
    return rc;
}
