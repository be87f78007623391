/* A part of a catalog's open work as a catalog of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/choice.h"
#include "store/db.h"
#include "store/parting/parting.h"
#include "store/parting/share.h"
#include "store/parting/task_results.h"

static int copy_row(struct store *to, const char *insert, sqlite3_stmt *row, struct err *err)
{
    sqlite3_stmt *stmt = db_cached(to, insert, err);
    int rc = stmt ? SQLITE_OK : SQLITE_ERROR;

    if (!stmt)
        return err->code;
    for (int i = 0; i < sqlite3_column_count(row) && rc == SQLITE_OK; i++)
        rc = sqlite3_bind_value(stmt, i + 1, sqlite3_column_value(row, i));
    if (rc != SQLITE_OK)
        return db_error_of(rc, 0, sqlite3_errstr(rc), "catalog", err);
    return db_next(to, stmt, err);
}

/* Each row of `select`, which id is bound to, through `insert`. */
static int copy_rows(struct store *from, struct store *to, const char *select, int64_t id,
                     const char *insert, struct err *err)
{
    struct db_rows rows;

    db_rows_again(&rows, from, err, db_cached(from, select, err), "i", id);
    while (db_rows_next(&rows))
        rows.rc = copy_row(to, insert, rows.stmt, err);
    return db_rows_end(&rows);
}

/* Columns of one table, from one catalog into the other, where `condition` holds of ?1. */
#define COPY(from, to, table, columns, values, condition, id, err)                  \
    copy_rows(from, to, "SELECT " columns " FROM " table " t WHERE " condition, id, \
              "INSERT INTO " table " (" columns ") VALUES (" values ")", err)

static int copy_stages(struct store *from, struct store *to, struct err *err)
{
    /* A source stands before what works on it. */
    int rc = COPY(from, to, "stage",
                  "stage_id, name, model, model_dir, model_hash, params, created_at, source_id",
                  "?, ?, ?, ?, ?, ?, ?, ?", "?1 = 0 ORDER BY source_id IS NOT NULL, stage_id",
                  INT64_C(0), err);

    if (rc == 0)
        rc = COPY(from, to, "job", "job_id, stage_id, language, command, created_at, ended_at",
                  "?, ?, ?, ?, ?, ?", "?1 = 0 ORDER BY job_id", INT64_C(0), err);
    if (rc == 0)
        rc = COPY(from, to, "tuning",
                  "device_id, driver, model_hash, precision, decoding, slots, windows, rate, "
                  "predicted_bytes, peak_bytes, oom_count, at, ways",
                  "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?", "?1 = 0", INT64_C(0), err);
    return rc == 0 ? COPY(from, to, "setting", "name, value", "?, ?",
                          "?1 = 0 AND name = 'shard_ms'", INT64_C(0), err)
                   : rc;
}

#define PLACE_COLUMNS                                                                \
    "place_id, media_id, path, path_raw, member, member_raw, nth, file_size_bytes, " \
    "mtime_ns, inode, device, state, job_id, seen_job"
#define PLACE_INSERT \
    "INSERT INTO place (" PLACE_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
static const char sql_places[] =
    "SELECT " PLACE_COLUMNS " FROM place WHERE media_id = ? AND state = 'present' "
    "ORDER BY place_id";

static int copy_places(struct store *from, struct store *to, int64_t media_id, struct err *err)
{
    struct db_rows rows;

    db_rows_again(&rows, from, err, db_cached(from, sql_places, err), "i", media_id);
    while (db_rows_next(&rows)) {
        rows.rc = copy_row(to, PLACE_INSERT, rows.stmt, err);
        if (rows.rc == 0)
            rows.rc = main_place_came(to, media_id, sqlite3_column_int64(rows.stmt, 0), err);
    }
    return db_rows_end(&rows);
}

static int copy_recording(struct store *from, struct store *to, int64_t media_id, struct err *err)
{
    int rc = COPY(from, to, "media",
                  "media_id, size_bytes, fingerprint, content_hash, duration_ms, sample_rate_hz, "
                  "channels, container, codec, title, damage, created_at, decoded_at, audio_tracks",
                  "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?", "media_id = ?1", media_id, err);

    return rc == 0 ? copy_places(from, to, media_id, err) : rc;
}

/* The state is not copied, because it follows from the results. */
#define TASK_COLUMNS                                                                           \
    "task_id, media_id, stage_id, job_id, language, attempts, suspect, retry_at, error_code, " \
    "error, asked, priority"
#define TASK_INSERT \
    "INSERT INTO task (" TASK_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

/* Hearing ones first: what works on text waits for them. Also what is done, where that is what
 * others work on, or a transcription by the same model, whose text they may take. */
static const char sql_tasks[] =
    "SELECT " TASK_COLUMNS " FROM (SELECT t.*, s.source_id FROM task t "
    "JOIN stage s ON s.stage_id = t.stage_id WHERE t.media_id = ?1 AND (" OPEN_TASKS
    " OR (t.state = 'done' AND t.stage_id IN (SELECT o.source_id FROM task t "
    "  JOIN stage o ON o.stage_id = t.stage_id WHERE t.media_id = ?1 AND " OPEN_TASKS ")) "
    " OR (t.state = 'done' AND s.source_id IS NULL AND (s.name, s.model_hash) IN "
    "  (SELECT o.name, o.model_hash FROM task t JOIN stage o ON o.stage_id = t.stage_id "
    "   WHERE t.media_id = ?1 AND " OPEN_TASKS ")))) "
    "ORDER BY source_id IS NOT NULL, task_id";
/* The open tasks that hear a recording which is cut. */
static const char sql_hearing[] =
    "SELECT " TASK_COLUMNS " FROM (SELECT t.*, s.source_id FROM task t "
    "JOIN stage s ON s.stage_id = t.stage_id WHERE t.media_id = ?1 AND " OPEN_TASKS
    " AND s.source_id IS NULL) ORDER BY task_id";

/* Completing it here took the time of now: two of the same taking apart would differ. */
static int keep_when(struct store *from, struct store *to, int64_t task, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(from, &stmt, err,
                      "SELECT settled_at FROM task WHERE task_id = ? AND settled_at IS NOT NULL",
                      "i", task);

    if (rc != 1)
        return rc;
    rc = db_run(to, err, "UPDATE task SET settled_at = ?2 WHERE task_id = ?1 AND state = 'done'",
                "it", task, db_text(stmt, 0));
    sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

static int copy_task(struct store *from, struct store *to, const struct parting_share *s,
                     sqlite3_stmt *row, struct shard_held *scratch, struct err *err)
{
    struct task_results none = {0};
    int64_t task = sqlite3_column_int64(row, 0);
    int rc = copy_row(to, TASK_INSERT, row, err);

    if (rc == 0)
        rc = choice_apply(to, s->media_id, err);
    if (rc == 0 && s->cut)
        rc = share_put(to, task, s->first, s->end, err);
    if (rc == 0)
        rc = task_results_copy(from, task, to, task, scratch, &none, err);
    return rc == 0 ? keep_when(from, to, task, err) : rc;
}

static int copy_share(struct store *from, struct store *to, const struct parting_share *s,
                      struct shard_held *scratch, struct err *err)
{
    struct db_rows rows;
    int rc = copy_recording(from, to, s->media_id, err);

    if (rc < 0)
        return rc;
    db_rows_again(&rows, from, err, db_cached(from, s->cut ? sql_hearing : sql_tasks, err), "i",
                  s->media_id);
    while (db_rows_next(&rows))
        rows.rc = copy_task(from, to, s, rows.stmt, scratch, err);
    return db_rows_end(&rows);
}

/* ---------------------------------------------------------------------------------- who it is */

int parting_origin(struct store *st, char ret[PARTING_ID_LEN], struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT value FROM setting WHERE name IN ('part_of', 'identity') "
                      "ORDER BY name DESC LIMIT 1",
                      "");

    if (rc == 1) {
        bool fits = strlen(db_text(stmt, 0)) == PARTING_ID_LEN - 1;

        if (fits)
            memcpy(ret, db_text(stmt, 0), PARTING_ID_LEN);
        sqlite3_reset(stmt);
        if (fits)
            return 0;
    }
    return rc < 0 ? rc : err_set(err, ERR_CORRUPT, "catalog '%s': it has no identity", st->path);
}

/* Files beside it are known by its identity, which is the same for the same part. */
static int put_identity(struct store *to, const struct parting_part *p, struct err *err)
{
    char text[PARTING_ID_LEN + 16], hex[HASH_HEX_LEN];
    uint8_t hash[HASH_BYTES];

    snprintf(text, sizeof(text), "%.32s %u", p->split, p->number);
    hash_of(text, strlen(text), hash);
    hash_hex(hash, hex);
    return db_run(to, err, "UPDATE setting SET value = ? WHERE name = 'identity'", "t", hex);
}

static int put_about(struct store *from, struct store *to, const struct parting_part *p,
                     struct err *err)
{
    char origin[PARTING_ID_LEN];
    int rc = parting_origin(from, origin, err);

    if (rc == 0)
        rc = db_run(to, err,
                    "INSERT INTO setting (name, value) VALUES ('part_of', ?1), ('split', ?2), "
                    "('part', CAST(?3 AS TEXT)), ('parts', CAST(?4 AS TEXT))",
                    "ttii", origin, p->split, (int64_t)p->number, (int64_t)p->parts);
    return rc == 0 ? put_identity(to, p, err) : rc;
}

static int write_all(struct store *from, struct store *to, const struct parting_part *p,
                     struct shard_held *scratch, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(to, &stmt, err, "SELECT 1 FROM stage UNION ALL SELECT 1 FROM media", "");

    if (rc == 1) {
        sqlite3_reset(stmt);
        return err_set(err, ERR_INPUT, "'%s' is not empty", to->path);
    }
    if (rc == 0)
        rc = put_about(from, to, p, err);
    if (rc == 0)
        rc = copy_stages(from, to, err);
    for (size_t i = 0; i < p->share_count && rc == 0; i++)
        rc = copy_share(from, to, &p->shares[i], scratch, err);
    return rc;
}

int parting_write(struct store *from, struct store *to, const struct parting_part *p,
                  struct err *err)
{
    struct shard_held *scratch = shard_held_new();
    int rc;

    if (!scratch)
        return err_no_memory(err, "catalog");
    rc = store_begin(to, err);
    if (rc == 0) {
        rc = write_all(from, to, p, scratch, err);
        if (rc == 0)
            rc = store_commit(to, err);
        if (rc < 0)
            store_rollback(to);
    }
    shard_held_free(scratch);
    return rc;
}
