#include "store/choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/db.h"
#include "store/full_text.h"
#include "store/reading/publish.h"

/* ---------------------------------------------------------------------------------- decided */

static const struct choice_task *source_of(const struct choice_task *list, size_t n,
                                           const struct choice_task *t)
{
    for (size_t i = 0; i < n && t->source_id; i++)
        if (list[i].stage_id == t->source_id)
            return &list[i];
    return NULL;
}

static void wait_for_source(const struct choice_task *list, size_t n, struct choice_task *t)
{
    const struct choice_task *source = source_of(list, n, t);

    t->waits = t->source_id && !t->is_done && !(source && source->is_done);
}

struct claim { /* of a task among those of its kind; the highest has it */
    int64_t by[6];
};

static bool is_more(const struct claim *a, const struct claim *b)
{
    for (size_t i = 0; i < sizeof(a->by) / sizeof(a->by[0]); i++)
        if (a->by[i] != b->by[i])
            return a->by[i] > b->by[i];
    return false;
}

static bool is_best(const struct choice_task *list, size_t n, const struct choice_task *t,
                    struct claim (*claim)(const struct choice_task *, size_t,
                                          const struct choice_task *))
{
    const struct claim mine = claim(list, n, t);

    for (size_t i = 0; i < n; i++) {
        const struct claim other = claim(list, n, &list[i]);

        if (list[i].kind == t->kind && is_more(&other, &mine))
            return false;
    }
    return true;
}

static bool has_source(const struct choice_task *list, size_t n, const struct choice_task *t)
{
    const struct choice_task *source = source_of(list, n, t);

    return source && (source->wanted || source->is_done);
}

/* Tasks whose source is missing come behind tasks that have theirs. */
static struct claim claim_wanted(const struct choice_task *list, size_t n,
                                 const struct choice_task *t)
{
    return (struct claim){{has_source(list, n, t), t->asked, t->task_id}};
}

/* Results follow their transcription, so passages of the current one come before another one's. */
static struct claim claim_current(const struct choice_task *list, size_t n,
                                  const struct choice_task *t)
{
    const struct choice_task *source = source_of(list, n, t);

    return (struct claim){{t->is_pinned && t->is_done, t->is_done, t->has_shards,
                           source && source->current, t->asked, t->task_id}};
}

/* A task is withdrawn while another one is wanted in its place. */
static void update_task_withdrawal(struct choice_task *t)
{
    if (!t->wanted && t->is_pending) {
        t->is_pending = false;
        t->is_withdrawn = true;
    } else if (t->wanted && t->is_withdrawn) {
        t->is_pending = true;
        t->is_withdrawn = false;
    }
}

/* Those that work on others' results come behind these. */
void choice_make(struct choice_task *list, size_t n, bool replaced)
{
    for (size_t i = 0; i < n; i++)
        wait_for_source(list, n, &list[i]);
    for (int derived = 0; derived < 2; derived++)
        for (size_t i = 0; i < n; i++)
            if ((list[i].source_id != 0) == derived)
                list[i].wanted = !replaced && is_best(list, n, &list[i], claim_wanted) &&
                                 (!derived || list[i].is_done || has_source(list, n, &list[i]));
    for (size_t i = 0; i < n; i++)
        update_task_withdrawal(&list[i]);
    for (int derived = 0; derived < 2; derived++)
        for (size_t i = 0; i < n; i++)
            if ((list[i].source_id != 0) == derived)
                list[i].current = !replaced && is_best(list, n, &list[i], claim_current);
}

/* ---------------------------------------------------------------------------------- written */

struct tasks {
    struct choice_task *list;
    size_t count, capacity;
    bool replaced;
};

static const char sql_tasks[] =
    "SELECT t.task_id, t.stage_id, ifnull(s.source_id, 0), "
    "(SELECT o.stage_id FROM stage o WHERE o.name = s.name LIMIT 1), t.asked, t.state = 'done', "
    "t.state = 'pending', t.state = 'cancelled' AND t.error_code IS 'superseded', t.pinned, "
    "t.shards_done > 0, t.waits IS 'source', t.wanted, t.current, m.replaced "
    "FROM media m CROSS JOIN task t ON t.media_id = m.media_id "
    "CROSS JOIN stage s ON s.stage_id = t.stage_id WHERE m.media_id = ? ORDER BY t.task_id";

static int append_choice_task(struct tasks *all, sqlite3_stmt *row, struct err *err)
{
    if (!list_grow(&all->list, &all->capacity, all->count, sizeof(*all->list)))
        return err_no_memory(err, "catalog");
    all->list[all->count++] = (struct choice_task){
        .task_id = sqlite3_column_int64(row, 0),
        .stage_id = sqlite3_column_int64(row, 1),
        .source_id = sqlite3_column_int64(row, 2),
        .kind = sqlite3_column_int64(row, 3),
        .asked = sqlite3_column_int64(row, 4),
        .is_done = sqlite3_column_int(row, 5),
        .is_pending = sqlite3_column_int(row, 6),
        .is_withdrawn = sqlite3_column_int(row, 7),
        .is_pinned = sqlite3_column_int(row, 8),
        .has_shards = sqlite3_column_int(row, 9),
        .waits = sqlite3_column_int(row, 10),
        .wanted = sqlite3_column_int(row, 11),
        .current = sqlite3_column_int(row, 12),
    };
    all->replaced = sqlite3_column_int(row, 13);
    return 0;
}

static int read_tasks(struct store *st, int64_t media_id, struct tasks *ret, struct err *err)
{
    struct db_rows rows;

    db_rows_again(&rows, st, err, db_cached(st, sql_tasks, err), "i", media_id);
    while (db_rows_next(&rows))
        rows.rc = append_choice_task(ret, rows.stmt, err);
    return db_rows_end(&rows);
}

#define SUPERSEDED "'asked for in another way since, or its file holds something else'"
static const char sql_write[] =
    "UPDATE task SET wanted = ?2, current = ?3, "
    "waits = CASE WHEN ?4 THEN 'source' WHEN waits = 'source' THEN NULL ELSE waits END, "
    "error_code = iif(?6, 'superseded', iif(?5 AND error_code = 'superseded', NULL, error_code)), "
    "error = iif(?6, " SUPERSEDED ", iif(?5 AND error_code = 'superseded', NULL, error)), "
    "state = CASE WHEN ?5 THEN 'pending' WHEN ?6 THEN 'cancelled' ELSE state END "
    "WHERE task_id = ?1";

static bool has_speakers(struct store *st, int64_t task_id, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc =
        db_first(st, &stmt, err, "SELECT 1 FROM speaker WHERE task_id = ? LIMIT 1", "i", task_id);

    if (rc == 1)
        sqlite3_reset(stmt);
    return rc == 1;
}

int choice_voices_changed(struct store *st, int64_t media_id, int64_t task_id, struct err *err)
{
    int rc = reading_due(st, media_id, err);

    if (rc == 0 && has_speakers(st, task_id, err))
        rc = db_run(st, err,
                    "INSERT OR IGNORE INTO speaker_due SELECT speaker_id FROM speaker "
                    "WHERE task_id = ?",
                    "i", task_id);
    return rc;
}

int choice_is_read(struct store *st, int64_t media_id, int64_t task_id, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT s." DB_FINALIZES " OR (s." DB_TRANSCRIBES " AND EXISTS "
                      "(SELECT 1 FROM correction c WHERE c.media_id = ?1)) "
                      "FROM task t JOIN stage s ON s.stage_id = t.stage_id WHERE t.task_id = ?2",
                      "ii", media_id, task_id);

    if (rc == 1) {
        rc = sqlite3_column_int(stmt, 0);
        sqlite3_reset(stmt);
    }
    return rc;
}

static bool is_same(const struct choice_task *a, const struct choice_task *b)
{
    return a->wanted == b->wanted && a->current == b->current && a->waits == b->waits &&
           a->is_pending == b->is_pending && a->is_withdrawn == b->is_withdrawn;
}

static int write_task(struct store *st, int64_t media_id, const struct choice_task *was,
                      const struct choice_task *is, struct err *err)
{
    int rc;

    if (is_same(was, is))
        return 0;
    rc =
        db_run(st, err, sql_write, "iiiiii", is->task_id, (int64_t)is->wanted, (int64_t)is->current,
               (int64_t)(is->waits && !is->is_done), (int64_t)(is->is_pending && !was->is_pending),
               (int64_t)(is->is_withdrawn && !was->is_withdrawn));
    if (rc < 0 || is->current == was->current)
        return rc;
    rc = text_index_current(st, is->task_id, is->current, err);
    if (rc == 0)
        rc = choice_is_read(st, media_id, is->task_id, err);
    return rc == 1 ? choice_voices_changed(st, media_id, is->task_id, err) : rc;
}

/* Most recordings have one task of each kind, and nothing to choose. */
int choice_apply(struct store *st, int64_t media_id, struct err *err)
{
    struct tasks all = {0};
    struct choice_task *was = NULL;
    int rc = read_tasks(st, media_id, &all, err);

    if (rc == 0 && all.count > 0) {
        was = malloc(all.count * sizeof(*was));
        if (!was)
            rc = err_no_memory(err, "catalog");
        else
            memcpy(was, all.list, all.count * sizeof(*was));
    }
    if (rc == 0)
        choice_make(all.list, all.count, all.replaced);
    for (size_t i = 0; i < all.count && rc == 0; i++)
        rc = write_task(st, media_id, &was[i], &all.list[i], err);
    free(was);
    free(all.list);
    return rc;
}

static const char sql_made_of[] =
    "SELECT d.task_id FROM task t CROSS JOIN stage s ON s.source_id = t.stage_id "
    "CROSS JOIN task d ON d.media_id = t.media_id AND d.stage_id = s.stage_id WHERE t.task_id = ?";

int choice_undone(struct store *st, int64_t media_id, int64_t task_id, struct err *err)
{
    struct db_rows rows;
    int rc;

    db_rows_open(&rows, st, err, sql_made_of, "i", task_id);
    while (db_rows_next(&rows)) {
        int64_t made = sqlite3_column_int64(rows.stmt, 0);

        rows.rc = drop_found(st, made, err);
        if (rows.rc == 0)
            rows.rc = db_run(st, err,
                             "UPDATE task SET state = 'pending', settled_at = NULL "
                             "WHERE task_id = ? AND state = 'done'",
                             "i", made);
    }
    rc = db_rows_end(&rows);
    return rc < 0 ? rc : choice_apply(st, media_id, err);
}

/* ---- what was found of a recording goes */

/* Indexes beside the catalog have vectors that are no more (vectors/vector_file.h). */
static int note_vectors(struct store *st, int64_t task_id, struct err *err)
{
    return db_run(st, err,
                  "INSERT INTO setting (name, value) SELECT 'embedding_edits', '1' "
                  "WHERE EXISTS (SELECT 1 FROM embedding WHERE task_id = ?) "
                  "ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1",
                  "i", task_id);
}

int drop_found(struct store *st, int64_t task_id, struct err *err)
{
    int rc = note_vectors(st, task_id, err);

    if (rc == 0)
        rc = db_run(st, err, "DELETE FROM shard WHERE task_id = ?", "i", task_id);
    return rc < 0 ? rc
                  : db_run(st, err,
                           "UPDATE task SET shards_done = 0, audio_done_ms = 0, speech_ms = NULL, "
                           "dropped_ms = 0, missing_ms = 0 WHERE task_id = ?",
                           "i", task_id);
}

/* ---- a recording's main place, and how many are present */

struct stand {
    bool absent, replaced;
};

static int stand_of(struct store *st, int64_t media_id, struct stand *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT places = 0, replaced FROM media WHERE media_id = ?",
                      "i", media_id);

    if (rc != 1)
        return rc < 0 ? rc : err_set(err, ERR_CORRUPT, "a place is of no recording");
    *ret = (struct stand){sqlite3_column_int(stmt, 0), sqlite3_column_int(stmt, 1)};
    sqlite3_reset(stmt);
    return 0;
}

/* Updates the recording's tasks after its places changed. */
static int update_tasks_of_place(struct store *st, int64_t media_id, const struct stand *was,
                                 struct err *err)
{
    struct stand is = {0};
    int rc = stand_of(st, media_id, &is, err);

    if (rc == 0 && is.absent != was->absent)
        rc = db_run(st, err, "UPDATE task SET absent = ?2 WHERE media_id = ?1", "ii", media_id,
                    (int64_t)is.absent);
    return rc == 0 && is.replaced != was->replaced ? choice_apply(st, media_id, err) : rc;
}

static const char sql_came[] =
    "UPDATE media SET replaced = 0, places = places + 1, place_id = iif("
    " place_id IS NULL OR places = 0 OR "
    " (SELECT p.member_raw <> x'' FROM place p WHERE p.place_id = ?2) * 2 + (?2 > place_id) < "
    " (SELECT p.member_raw <> x'' FROM place p WHERE p.place_id = media.place_id) * 2 "
    " + (?2 < place_id), ?2, place_id) WHERE media_id = ?1";

int main_place_came(struct store *st, int64_t media_id, int64_t place_id, struct err *err)
{
    struct stand was = {0};
    int rc = stand_of(st, media_id, &was, err);

    if (rc == 0)
        rc = db_run(st, err, sql_came, "ii", media_id, place_id);
    return rc < 0 ? rc : update_tasks_of_place(st, media_id, &was, err);
}

#define FOLDER(of) "rtrim(" of ".path, replace(" of ".path, '/', ''))"
static const char sql_went[] =
    "UPDATE media SET places = places - ?3, "
    "replaced = NOT EXISTS (SELECT 1 FROM place p WHERE p.media_id = ?1 "
    " AND p.state <> 'replaced'), "
    "place_id = iif(place_id <> ?2, place_id, ifnull("
    " (SELECT p.place_id FROM place p CROSS JOIN place gone ON gone.place_id = ?2 "
    "  WHERE p.media_id = ?1 AND (p.state = 'present' "
    "  OR (p.state = 'vanished' AND gone.state = 'replaced')) "
    "  ORDER BY p.state = 'present' DESC, p.gone_at DESC, p.member_raw <> x'', " FOLDER(
        "p") " = " FOLDER("gone") " DESC, p.place_id LIMIT 1), place_id)) WHERE media_id = ?1";

int main_place_went(struct store *st, int64_t media_id, int64_t place_id, bool was_present,
                    struct err *err)
{
    struct stand was = {0};
    int rc = stand_of(st, media_id, &was, err);

    if (rc == 0)
        rc = db_run(st, err, sql_went, "iii", media_id, place_id, (int64_t)was_present);
    return rc < 0 ? rc : update_tasks_of_place(st, media_id, &was, err);
}
