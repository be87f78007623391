#include "store/results/parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/corrections/settle.h"
#include "store/results/whole.h"

struct shard {
    struct store *st;
    int64_t task_id, seq;
    const struct parts_turns *by; /* NULL: nobody is told apart */
    struct whole_rows rows;
    int64_t *ids; /* of the rows in their order, as they are to be */
    size_t id_count, id_cap;
    bool changed; /* the old rows are numbered ~idx till all are numbered anew */
};

static int no_memory(struct err *err) { return err_set(err, ERR_NOMEM, "catalog: out of memory"); }

/* ------------------------------------------------------------------------------- corrections */

struct standing { /* where corrections stand, in words of the machine's segment */
    struct {
        int64_t correction_id;
        size_t word, words;
    } * list; /* owned */
    size_t count, cap;
};

static int add_standing(struct standing *c, sqlite3_stmt *stmt, size_t before, struct err *err)
{
    int64_t word = sqlite3_column_int64(stmt, 1), words = sqlite3_column_int64(stmt, 2);

    if (word < 0 || words <= 0 || word > INT32_MAX || words > INT32_MAX)
        return 0;
    if (!list_grow(&c->list, &c->cap, c->count, sizeof(*c->list)))
        return no_memory(err);
    c->list[c->count].correction_id = sqlite3_column_int64(stmt, 0);
    c->list[c->count].word = before + (size_t)word;
    c->list[c->count++].words = (size_t)words;
    return 0;
}

/* Takes them out of the rows, which read as the machine has them then. */
static int lift(struct shard *s, const struct whole *w, struct standing *ret, struct err *err)
{
    size_t row = 0;
    int rc = 0;

    for (size_t i = 0; i < w->row_count && rc == 0; i++) {
        int64_t id = w->rows[i].segment_id;
        struct db_rows rows;

        db_rows_open(&rows, s->st, err,
                     "SELECT correction_id, word, words FROM correction_at WHERE segment_id = ?",
                     "i", id);
        while (db_rows_next(&rows))
            rows.rc = add_standing(ret, rows.stmt, w->mapped ? whole_word_at(w, row) : 0, err);
        rc = db_rows_end(&rows);
        if (rc == 0)
            rc = db_run(s->st, err, "DELETE FROM correction_at WHERE segment_id = ?", "i", id);
        if (rc == 0 && w->rows[i].corrected)
            rc = corrections_lift(s->st, id, err);
        row += w->rows[i].words;
    }
    return rc;
}

/* One that stands in several parts has a row in each; of several that were joined it has one. */
static int put_back(struct shard *s, const struct whole *w, const struct standing *c,
                    struct err *err)
{
    const int64_t *ids = s->ids + s->id_count - w->count;
    int rc = 0;

    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < w->count && rc == 0; k++) {
            size_t first = w->parts[k].word, from = c->list[i].word, to = from + c->list[i].words;
            size_t end = k + 1 < w->count ? w->parts[k + 1].word : w->word_count;

            from = from > first ? from : first;
            to = to < end ? to : end;
            if (from < to)
                rc = db_run(s->st, err,
                            "INSERT INTO correction_at (correction_id, segment_id, word, words) "
                            "VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
                            "SET word = min(word, excluded.word), words = words + excluded.words",
                            "iiii", c->list[i].correction_id, ids[k], (int64_t)(from - first),
                            (int64_t)(to - from));
        }
    return rc;
}

/* ------------------------------------------------------------------------------------ writing */

static int set_aside(struct shard *s, struct err *err)
{
    if (s->changed)
        return 0;
    s->changed = true;
    return db_run(s->st, err, "UPDATE segment SET idx = ~idx WHERE task_id = ? AND seq = ?", "ii",
                  s->task_id, s->seq);
}

/* All words go to the first row, and the others go. */
static int join(struct shard *s, const struct whole *w, struct err *err)
{
    int64_t id = w->rows[0].segment_id;
    size_t row = w->rows[0].words;
    int rc = 0;

    for (size_t i = 1; i < w->row_count && rc == 0; i++) {
        rc = db_run(s->st, err,
                    "UPDATE word SET segment_id = ?1, idx = idx + ?3 WHERE segment_id = ?2", "iii",
                    id, w->rows[i].segment_id, (int64_t)row);
        if (rc == 0)
            rc = db_run(s->st, err, "DELETE FROM segment WHERE segment_id = ?", "i",
                        w->rows[i].segment_id);
        row += w->rows[i].words;
    }
    return rc;
}

static int keep_whole(struct shard *s, const struct whole *w, struct err *err)
{
    int64_t id = w->rows[0].segment_id;

    if (w->count == 1)
        return db_run(s->st, err, "DELETE FROM parted WHERE segment_id = ?", "i", id);
    return db_run(s->st, err,
                  "INSERT OR IGNORE INTO parted (segment_id, end_ms, text, avg_logprob) "
                  "VALUES (?, ?, ?, ?)",
                  "iitd", id, w->end_ms, w->text, w->avg_logprob);
}

/* What stands in a part, without the white space at its seams. Newly allocated. */
static char *text_of(const struct whole *w, size_t part, struct err *err)
{
    size_t from = part == 0 ? 0 : w->parts[part].at, to = strlen(w->text);
    char *text;

    if (part + 1 < w->count) {
        const struct hunk_word *last = &w->words[w->parts[part + 1].word - 1];

        to = last->at + last->len;
    }
    text = strndup(w->text + from, to - from);
    if (!text)
        no_memory(err);
    return text;
}

/* The first one: the row that is there. */
static int put_first(struct shard *s, const struct whole *w, const char *text, struct err *err)
{
    const struct whole_part *p = &w->parts[0];
    int64_t id = w->rows[0].segment_id;
    int rc = db_run(s->st, err,
                    "UPDATE segment SET part = 0, end_ms = ?2, avg_logprob = ?3 "
                    "WHERE segment_id = ?1",
                    "iid", id, p->end_ms, p->avg_logprob);

    if (rc == 0 && strcmp(text, w->rows[0].text) != 0)
        rc = db_run(s->st, err, "UPDATE segment SET text = ?2 WHERE segment_id = ?1", "it", id,
                    text);
    return rc;
}

/* Another one: all that is not its own is the first one's. From the last to the second, for it
 * takes all words from its first on. */
static int put_other(struct shard *s, const struct whole *w, size_t i, const char *text,
                     int64_t idx, int64_t *ret, struct err *err)
{
    const struct whole_part *p = &w->parts[i];
    int64_t first = w->rows[0].segment_id;
    sqlite3_stmt *stmt = NULL;
    int rc =
        db_first(s->st, &stmt, err,
                 "INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language, "
                 "avg_logprob, no_speech_prob, compression_ratio, temperature, attempts, "
                 "speech_prob, reason, source, part) "
                 "SELECT task_id, seq, ?2, ?3, ?4, ?5, language, ?6, no_speech_prob, "
                 "compression_ratio, temperature, attempts, speech_prob, reason, source, ?7 "
                 "FROM segment WHERE segment_id = ?1 RETURNING segment_id",
                 "iiiitdi", first, idx, p->start_ms, p->end_ms, text, p->avg_logprob, (int64_t)i);

    if (rc != 1)
        return rc;
    *ret = sqlite3_column_int64(stmt, 0);
    rc = db_next(s->st, stmt, err);
    if (rc == 0)
        rc = db_run(s->st, err,
                    "UPDATE word SET segment_id = ?2, idx = idx - ?3 "
                    "WHERE segment_id = ?1 AND idx >= ?3",
                    "iii", first, *ret, (int64_t)p->row);
    return rc;
}

static int put_parts(struct shard *s, const struct whole *w, struct err *err)
{
    size_t base = s->id_count - w->count;
    int rc = 0;

    for (size_t i = w->count; i-- > 0 && rc == 0;) {
        char *text = text_of(w, i, err);

        rc = !text    ? err->code
             : i == 0 ? put_first(s, w, text, err)
                      : put_other(s, w, i, text, (int64_t)(base + i), &s->ids[base + i], err);
        free(text);
    }
    return rc;
}

static int rewrite(struct shard *s, const struct whole *w, struct err *err)
{
    struct standing c = {0};
    int rc = set_aside(s, err);

    if (rc == 0)
        rc = lift(s, w, &c, err);
    if (rc == 0)
        rc = join(s, w, err);
    if (rc == 0)
        rc = keep_whole(s, w, err);
    if (rc == 0)
        rc = put_parts(s, w, err);
    if (rc == 0)
        rc = put_back(s, w, &c, err);
    free(c.list);
    return rc;
}

/* Room for the ids of a segment's parts, of which those that are there are put. */
static int put_ids(struct shard *s, const struct whole *w, struct err *err)
{
    if (s->id_count + w->count > s->id_cap) {
        size_t cap = 2 * (s->id_count + w->count);
        int64_t *ids = realloc(s->ids, cap * sizeof(*ids));

        if (!ids)
            return no_memory(err);
        s->ids = ids;
        s->id_cap = cap;
    }
    for (size_t i = 0; i < w->count; i++)
        s->ids[s->id_count++] = i < w->row_count ? w->rows[i].segment_id : 0;
    return 0;
}

static int name(struct shard *s, const struct whole *w, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < w->count && rc == 0; i++)
        rc = db_run(s->st, err,
                    "UPDATE segment SET speaker_id = nullif(?1, 0) "
                    "WHERE segment_id = ?2 AND speaker_id IS NOT nullif(?1, 0)",
                    "ii", w->parts[i].speaker, s->ids[s->id_count - w->count + i]);
    return rc;
}

/* *at: moves behind the segment that begins there. */
static int part(struct shard *s, size_t *at, struct err *err)
{
    struct whole w;
    int rc = whole_read(s->st, &s->rows, at, &w, err);

    if (rc == 0)
        rc = whole_part(&w, s->by ? s->by->turns : NULL, err);
    if (rc == 0)
        rc = put_ids(s, &w, err);
    if (rc == 0 && !whole_stands(&w))
        rc = rewrite(s, &w, err);
    if (rc == 0)
        rc = name(s, &w, err);
    whole_free(&w);
    return rc;
}

static int renumber(struct shard *s, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < s->id_count && rc == 0; i++)
        rc = db_run(s->st, err, "UPDATE segment SET idx = ?2 WHERE segment_id = ?1", "ii",
                    s->ids[i], (int64_t)i);
    if (rc == 0)
        rc = db_run(s->st, err,
                    "INSERT OR IGNORE INTO correction_due SELECT t.media_id FROM task t "
                    "WHERE t.task_id = ? AND t.current AND EXISTS "
                    "(SELECT 1 FROM correction c WHERE c.media_id = t.media_id)",
                    "i", s->task_id);
    return rc;
}

int parts_make(struct store *st, int64_t task_id, uint32_t seq, const struct parts_turns *by,
               struct err *err)
{
    struct shard s = {.st = st, .task_id = task_id, .seq = seq, .by = by};
    int rc = whole_rows_read(st, task_id, seq, by ? by->diarization : 0, &s.rows, err);

    for (size_t at = 0; at < s.rows.count && rc == 0;)
        rc = part(&s, &at, err);
    if (rc == 0 && s.changed)
        rc = renumber(&s, err);
    whole_rows_free(&s.rows);
    free(s.ids);
    return rc;
}
