/* The tasks that a run asks for, and how tasks end. */
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/parting/share.h"
#include "store/stage_row.h"

void store_task_free(struct store_task *t)
{
    free(t->path);
    free(t->member);
    free(t->language);
    free(t->skip);
    *t = (struct store_task){0};
}

/* By the partial index, which holds runnable tasks alone: the rowid would walk over all that are
 * done. */
#define RUNNABLE "t.state = 'pending' AND t.paused = 0 AND t.absent = 0 AND t.waits IS NULL "
#define UNFINALIZED "t.state = 'pending' AND t.paused = 0 AND t.waits = 'settling' "
#define DUE "(t.retry_at IS NULL OR t.retry_at <= "
#define FIELDS(done)                                                                              \
    "SELECT t.task_id, t.media_id, t.stage_id, t.job_id, t.language, ifnull(t.shards_total, 0), " \
    "t.suspect, " done ", m.size_bytes, m.fingerprint, "                                          \
    "m.content_hash IS NOT NULL AND m.decoded_at IS NOT NULL, "                                   \
    "ifnull(m.duration_ms, -1), p.path_raw, p.member_raw, p.nth, "                                \
    "(SELECT count(*) FROM source x WHERE x.task_id = t.task_id), " SHARE_OF "t.task_id), "       \
    "t.priority, t.left_out IS NOT NULL "                                                         \
    "FROM task t "
#define PLACES                                       \
    "CROSS JOIN media m ON m.media_id = t.media_id " \
    "CROSS JOIN place p ON p.place_id = m.place_id "
#define NOT_PAUSED "AND NOT EXISTS (SELECT 1 FROM setting WHERE name = 'paused') "
#define TASKS(done, index, condition, order)                                                    \
    FIELDS(done)                                                                                \
    "INDEXED BY " index " " PLACES "WHERE " condition "AND t.stage_id = ?1 AND " order " > ?2 " \
    "AND " DUE "?3) " NOT_PAUSED "ORDER BY " order " LIMIT ?4"
/* store_position, as the index has it. */
#define TURN "t.task_id - t.priority * 281474976710656"
static const char sql_runnable[] = TASKS("t.shards_done", "task_runnable", RUNNABLE, TURN);
/* Nobody is interested in which shards they have: all. */
static const char sql_unfinalized[] = TASKS("0", "task_unsettled", UNFINALIZED, "t.task_id");

/* By the index of recording and stage. */
static const char sql_runnable_of[] = FIELDS("t.shards_done") PLACES
    "WHERE " RUNNABLE "AND t.stage_id = ?1 AND t.media_id = ?2 AND " DUE "?3) " NOT_PAUSED;

static int task_row(sqlite3_stmt *stmt, struct store_task *t, uint32_t *done, struct err *err)
{
    const void *fingerprint;

    t->task_id = sqlite3_column_int64(stmt, 0);
    t->media_id = sqlite3_column_int64(stmt, 1);
    t->stage_id = sqlite3_column_int64(stmt, 2);
    t->job_id = sqlite3_column_int64(stmt, 3);
    t->language = db_dup(stmt, 4);
    t->shards_total = (uint32_t)sqlite3_column_int64(stmt, 5);
    t->suspect = (uint32_t)sqlite3_column_int64(stmt, 6);
    *done = (uint32_t)sqlite3_column_int64(stmt, 7);
    t->size_bytes = (uint64_t)sqlite3_column_int64(stmt, 8);
    fingerprint = sqlite3_column_blob(stmt, 9);
    if (fingerprint && sqlite3_column_bytes(stmt, 9) == (int)sizeof(t->fingerprint))
        memcpy(t->fingerprint, fingerprint, sizeof(t->fingerprint));
    t->has_hash = sqlite3_column_int(stmt, 10);
    t->duration_ms = sqlite3_column_int64(stmt, 11);
    t->path = db_dup(stmt, 12);
    t->member = db_dup(stmt, 13);
    t->nth = (uint32_t)sqlite3_column_int64(stmt, 14);
    t->sources = (uint32_t)sqlite3_column_int64(stmt, 15);
    if (sqlite3_column_type(stmt, 16) != SQLITE_NULL &&
        !share_parse(db_text(stmt, 16), &t->first, &t->end))
        return err_set(err, ERR_CORRUPT, "catalog: the share of task %lld is none",
                       (long long)t->task_id);
    t->priority = sqlite3_column_int(stmt, 17);
    t->left_out = sqlite3_column_int(stmt, 18);
    t->position = store_position(t->task_id, t->priority);
    if (!t->language || !t->path || !t->member)
        return err_no_memory(err, "catalog");
    return 0;
}

static int task_skip(struct store *st, struct store_task *t, uint32_t done, struct err *err)
{
    static const char sql[] = "SELECT seq FROM shard WHERE task_id = ? ORDER BY seq LIMIT ?";
    struct db_rows rows;

    t->skip = calloc(done, sizeof(*t->skip));
    if (!t->skip)
        return err_no_memory(err, "catalog");
    db_rows_again(&rows, st, err, db_cached(st, sql, err), "ii", t->task_id, (int64_t)done);
    while (db_rows_next(&rows))
        t->skip[t->skip_count++] = (uint32_t)sqlite3_column_int64(rows.stmt, 0);
    return db_rows_end(&rows);
}

static int tasks_of(struct store *st, const char *sql, int64_t stage_id, int64_t after,
                    int64_t now_ms, struct store_task *ret, size_t max, size_t *n, struct err *err)
{
    char now[CLOCK_ISO_LEN];
    struct db_rows rows;
    size_t count = 0;
    uint32_t done = 0;
    int rc;

    clock_iso8601(now_ms, now);
    *n = 0;
    if (max == 0)
        return 0;
    db_rows_again(&rows, st, err, db_cached(st, sql, err), "iiti", stage_id, after, now,
                  (int64_t)max);
    for (; db_rows_next(&rows); count++) {
        memset(&ret[count], 0, sizeof(ret[count]));
        rows.rc = task_row(rows.stmt, &ret[count], &done, err);
        if (rows.rc == 0 && done)
            rows.rc = task_skip(st, &ret[count], done, err);
    }
    rc = db_rows_end(&rows);
    if (rc < 0) {
        while (count)
            store_task_free(&ret[--count]);
        return rc;
    }
    *n = count;
    return 0;
}

int store_runnable(struct store *st, int64_t stage_id, int64_t after, int64_t now_ms,
                   struct store_task *ret, size_t max, size_t *n, struct err *err)
{
    return tasks_of(st, sql_runnable, stage_id, after, now_ms, ret, max, n, err);
}

int store_runnable_of(struct store *st, int64_t stage_id, int64_t media_id, int64_t now_ms,
                      struct store_task *ret, bool *found, struct err *err)
{
    char now[CLOCK_ISO_LEN];
    sqlite3_stmt *stmt = NULL;
    uint32_t done = 0;
    int rc;

    clock_iso8601(now_ms, now);
    *found = false;
    memset(ret, 0, sizeof(*ret));
    rc = db_first(st, &stmt, err, sql_runnable_of, "iit", stage_id, media_id, now);
    if (rc <= 0)
        return rc;
    rc = task_row(stmt, ret, &done, err);
    sqlite3_reset(stmt);
    if (rc == 0 && done)
        rc = task_skip(st, ret, done, err);
    if (rc < 0)
        store_task_free(ret);
    *found = rc == 0;
    return rc;
}

static const char sql_first_priority[] =
    "SELECT t.priority FROM task t INDEXED BY task_runnable WHERE " RUNNABLE
    "AND t.stage_id = ?1 AND " DUE "?2) ORDER BY " TURN " LIMIT 1";

int store_first_priority(struct store *st, int64_t stage_id, int64_t now_ms, int *ret,
                         struct err *err)
{
    char now[CLOCK_ISO_LEN];
    sqlite3_stmt *stmt = NULL;
    int rc;

    clock_iso8601(now_ms, now);
    rc = db_first(st, &stmt, err, sql_first_priority, "it", stage_id, now);
    *ret = STORE_LOW - 1;
    if (rc == 1) {
        *ret = sqlite3_column_int(stmt, 0);
        sqlite3_reset(stmt);
    }
    return rc < 0 ? rc : 0;
}

int store_high(struct store *st, uint64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT count(DISTINCT media_id) FROM task INDEXED BY task_high "
                      "WHERE priority > 0 AND state = 'pending' AND wanted",
                      "");

    if (rc != 1)
        return rc < 0 ? rc : err_set(err, ERR_CORRUPT, "the catalog counts no tasks");
    *ret = (uint64_t)sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 0;
}

static const char *const priorities[] = {"low", "normal", "high"};

const char *store_priority_name(int priority)
{
    return priority >= STORE_LOW && priority <= STORE_HIGH ? priorities[priority - STORE_LOW] : "";
}

bool store_priority_of(const char *name, int64_t *ret)
{
    for (int p = STORE_LOW; p <= STORE_HIGH; p++)
        if (strcmp(name, priorities[p - STORE_LOW]) == 0) {
            *ret = p;
            return true;
        }
    return false;
}

int store_unfinalized(struct store *st, int64_t stage_id, int64_t after, int64_t now_ms,
                      struct store_task *ret, size_t max, size_t *n, struct err *err)
{
    return tasks_of(st, sql_unfinalized, stage_id, after, now_ms, ret, max, n, err);
}

/* ISO-8601 UTC back to milliseconds; only what clock_iso8601 writes. */
static const char sql_next_retry[] =
    "SELECT CAST(strftime('%s', retry_at) AS INTEGER) * 1000 + substr(retry_at, 21, 3) "
    "FROM task INDEXED BY task_retry "
    "WHERE state = 'pending' AND paused = 0 AND (absent = 0 OR waits = 'settling') "
    "AND waits IS NOT 'source' AND retry_at IS NOT NULL "
    "AND retry_at > ? ORDER BY retry_at LIMIT 1";

int store_next_retry(struct store *st, int64_t now_ms, int64_t *ret, struct err *err)
{
    char now[CLOCK_ISO_LEN];
    sqlite3_stmt *stmt = NULL;
    int rc;

    clock_iso8601(now_ms, now);
    rc = db_first(st, &stmt, err, sql_next_retry, "t", now);
    if (rc < 0)
        return rc;
    *ret = INT64_MAX;
    if (rc == 1) {
        *ret = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return 0;
}

int store_task_place(struct store *st, struct store_task *t, uint32_t k, struct err *err)
{
    char *path, *member;
    uint32_t nth;
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT path_raw, member_raw, nth FROM place p WHERE media_id = ? "
                      "AND state = 'present' AND (NOT unproven OR place_id = (SELECT m.place_id "
                      "FROM media m WHERE m.media_id = p.media_id)) "
                      "ORDER BY place_id LIMIT 1 OFFSET ?",
                      "ii", t->media_id, (int64_t)k);

    if (rc == 0)
        return err_set(err, ERR_EMPTY, "no other place of this recording is known");
    if (rc < 0)
        return rc;
    path = db_dup(stmt, 0);
    member = db_dup(stmt, 1);
    nth = (uint32_t)sqlite3_column_int64(stmt, 2);
    sqlite3_reset(stmt);
    if (!path || !member) {
        free(path);
        free(member);
        return err_no_memory(err, "catalog");
    }
    free(t->path);
    free(t->member);
    t->path = path;
    t->member = member;
    t->nth = nth;
    return 0;
}

/* Only a pending task can fail: what was cancelled or finished meanwhile stays so. */
int store_task_failed(struct store *st, int64_t task_id, int code, const char *message,
                      int64_t retry_at_ms, struct err *err)
{
    char now[CLOCK_ISO_LEN], retry_at[CLOCK_ISO_LEN];
    bool again = retry_at_ms >= 0;
    int rc = db_enter(st, err);

    if (rc < 0)
        return rc;
    db_now(now);
    clock_iso8601(again ? retry_at_ms : 0, retry_at);
    rc = db_run(st, err,
                "UPDATE task SET attempts = attempts + 1, error_code = ?2, error = ?3, "
                "retry_at = ?4, state = ?5, settled_at = ?6 "
                "WHERE task_id = ?1 AND state = 'pending'",
                "itttt"
                "t",
                task_id, err_name(code), message ? message : "", again ? retry_at : NULL,
                again ? "pending" : "failed", again ? NULL : now);
    return db_leave(st, rc, err);
}

int store_task_failed_media(struct store *st, int64_t task_id, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc =
        db_first(st, &stmt, err, "SELECT media_id FROM task WHERE task_id = ? AND state = 'failed'",
                 "i", task_id);

    if (rc < 0)
        return rc;
    *ret = rc == 1 ? sqlite3_column_int64(stmt, 0) : 0;
    if (rc == 1)
        sqlite3_reset(stmt);
    return 0;
}

int store_task_attempts(struct store *st, int64_t task_id, uint32_t *attempts, uint32_t *suspect,
                        struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT attempts, suspect FROM task WHERE task_id = ?", "i",
                      task_id);

    *attempts = *suspect = 0;
    if (rc != 1)
        return rc;
    *attempts = (uint32_t)sqlite3_column_int64(stmt, 0);
    *suspect = (uint32_t)sqlite3_column_int64(stmt, 1);
    sqlite3_reset(stmt);
    return 0;
}

int store_task_suspect(struct store *st, int64_t task_id, uint32_t deaths, int64_t retry_at_ms,
                       struct err *err)
{
    char retry_at[CLOCK_ISO_LEN];
    int rc = db_enter(st, err);

    if (rc < 0)
        return rc;
    clock_iso8601(retry_at_ms, retry_at);
    rc = db_run(st, err,
                "UPDATE task SET suspect = ?2, "
                "retry_at = CASE state WHEN 'pending' THEN coalesce(?3, retry_at) "
                "ELSE retry_at END WHERE task_id = ?1",
                "iit", task_id, (int64_t)deaths, retry_at_ms ? retry_at : NULL);
    return db_leave(st, rc, err);
}

int store_event(struct store *st, const char *kind, int64_t media_id, const char *device,
                const char *text, struct err *err)
{
    char now[CLOCK_ISO_LEN];
    int rc = db_enter(st, err);

    if (rc < 0)
        return rc;
    db_now(now);
    rc = db_run(st, err,
                "INSERT INTO event (at, kind, media_id, device, text) "
                "SELECT ?1, ?2, nullif(?3, 0), ?4, ?5 WHERE ?3 = 0 OR EXISTS "
                "(SELECT 1 FROM media WHERE media_id = ?3)",
                "ttitt", now, kind, media_id, device && *device ? device : NULL, text ? text : "");
    return db_leave(st, rc, err);
}

/* The stage whose first task is due first comes first; the lower stage_id among equals. */
#define BY_POSITION                                                         \
    "(SELECT t.priority FROM task t INDEXED BY task_runnable WHERE "        \
    "t.stage_id = s.stage_id AND " RUNNABLE "AND " DUE "?1) ORDER BY " TURN \
    " LIMIT 1) DESC, s.stage_id"
#define STAGES(index, condition, order)                                         \
    "SELECT s.stage_id, s.name, s.model, s.model_dir, s.model_hash, s.params, " \
    "ifnull(s.source_id, 0) FROM stage s "                                      \
    "WHERE NOT EXISTS (SELECT 1 FROM setting WHERE name = 'paused') "           \
    "AND EXISTS (SELECT 1 FROM task t INDEXED BY " index                        \
    " WHERE t.stage_id = s.stage_id AND " condition "AND " DUE "?1)) "          \
    "ORDER BY " order
static const char sql_stages_runnable[] = STAGES("task_runnable", RUNNABLE, BY_POSITION);
static const char sql_stages_unfinalized[] = STAGES("task_unsettled", UNFINALIZED, "s.stage_id");

static int stages_of(struct store *st, const char *sql, int64_t now_ms,
                     struct store_stage_row **ret, size_t *n, struct err *err)
{
    struct store_stage_row *list = NULL;
    char now[CLOCK_ISO_LEN];
    struct db_rows rows;
    size_t count = 0;
    int rc;

    clock_iso8601(now_ms, now);
    db_rows_again(&rows, st, err, db_cached(st, sql, err), "t", now);
    while (db_rows_next(&rows)) {
        struct store_stage_row *more = realloc(list, (count + 1) * sizeof(*list));

        if (more)
            list = more;
        rows.rc = more ? stage_row_of(rows.stmt, &list[count], err) : err_no_memory(err, "catalog");
        count += rows.rc == 0;
    }
    rc = db_rows_end(&rows);
    if (rc < 0) {
        for (size_t i = 0; i < count; i++)
            store_stage_row_free(&list[i]);
        free(list);
        return rc;
    }
    *ret = list;
    *n = count;
    return 0;
}

int store_stages_runnable(struct store *st, int64_t now_ms, struct store_stage_row **ret, size_t *n,
                          struct err *err)
{
    return stages_of(st, sql_stages_runnable, now_ms, ret, n, err);
}

int store_stages_unfinalized(struct store *st, int64_t now_ms, struct store_stage_row **ret,
                             size_t *n, struct err *err)
{
    return stages_of(st, sql_stages_unfinalized, now_ms, ret, n, err);
}
