#include "store/parting/parting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/db.h"
#include "store/parting/share.h"

/* ---- what a part says of itself */

#define MOST_PARTS 1000000u

static void read_part_id(sqlite3_stmt *stmt, int column, char ret[PARTING_ID_LEN], bool *good)
{
    const char *text = db_text(stmt, column);

    *good = *good && strlen(text) == PARTING_ID_LEN - 1 &&
            strspn(text, "0123456789abcdef") == PARTING_ID_LEN - 1;
    if (*good)
        memcpy(ret, text, PARTING_ID_LEN);
}

static int read_part_identity(struct store *part, struct parting_about *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int64_t number, parts;
    bool good = true;
    int rc = db_first(part, &stmt, err,
                      "SELECT max(iif(name = 'part_of', value, NULL)), "
                      "max(iif(name = 'split', value, NULL)), "
                      "max(iif(name = 'part', CAST(value AS INTEGER), NULL)), "
                      "max(iif(name = 'parts', CAST(value AS INTEGER), NULL)) FROM setting",
                      "");

    if (rc != 1)
        return rc;
    if (sqlite3_column_type(stmt, 0) == SQLITE_NULL) {
        sqlite3_reset(stmt);
        return err_set(err, ERR_INPUT,
                       "'%s' is a catalog, but no part of one: `nightshift split` makes those",
                       part->path);
    }
    read_part_id(stmt, 0, ret->origin, &good);
    read_part_id(stmt, 1, ret->split, &good);
    number = sqlite3_column_int64(stmt, 2);
    parts = sqlite3_column_int64(stmt, 3);
    sqlite3_reset(stmt);
    if (!good || parts < 1 || parts > MOST_PARTS || number < 0 || number >= parts)
        return err_set(err, ERR_INPUT, "'%s': what it says of itself makes no sense", part->path);
    ret->number = (uint32_t)number;
    ret->parts = (uint32_t)parts;
    return 0;
}

/* A number is how many shards a try found done. Of an older program's nobody knows. */
#define FOUND "iif(text GLOB '[0-9]*', CAST(text AS INTEGER), -1 - event_id)"

/* A try that ended in order has an end event; a killed one has none. A try that left a checkpoint
 * has not failed, however it ended: nodes die, and time runs out without a word. Each try says how
 * many shards it found done; the clocks of nodes cannot be compared. Only the last thousand tries
 * are read. */
static const char sql_tries[] =
    "WITH try AS (SELECT event_id, " FOUND " AS found, "
    "lead(event_id, 1, 9e18) OVER w AS next_id, "
    "lead(" FOUND ", 1, (SELECT count(*) FROM shard)) OVER w AS next_found "
    "FROM event WHERE kind = 'part-try' "
    "WINDOW w AS (ORDER BY event_id) ORDER BY event_id DESC LIMIT 1000), "
    "judged AS (SELECT t.event_id, t.found = t.next_found AND NOT EXISTS "
    "(SELECT 1 FROM event e WHERE e.kind = 'part-end' "
    "AND e.event_id > t.event_id AND e.event_id < t.next_id) AS failed FROM try t) "
    "SELECT (SELECT count(*) FROM event WHERE kind = 'part-try'), ifnull(sum(failed), 0), "
    "ifnull((SELECT failed FROM judged ORDER BY event_id DESC LIMIT 1), 0) FROM judged";

static int read_part_tries(struct store *part, struct parting_about *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int64_t began;
    int rc = db_first(part, &stmt, err, sql_tries, "");

    if (rc != 1)
        return rc;
    began = sqlite3_column_int64(stmt, 0);
    ret->tries = began > 0 && began < UINT32_MAX ? (uint32_t)began : 0;
    ret->failed_tries = (uint32_t)sqlite3_column_int(stmt, 1);
    ret->last_failed = sqlite3_column_int(stmt, 2);
    sqlite3_reset(stmt);
    return 0;
}

int parting_about(struct store *part, struct parting_about *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc;

    *ret = (struct parting_about){0};
    rc = read_part_identity(part, ret, err);
    if (rc == 0)
        rc = read_part_tries(part, ret, err);
    if (rc == 0)
        rc = db_first(part, &stmt, err,
                      "SELECT (SELECT count(*) FROM media), "
                      "count(*) FILTER (WHERE state = 'done' OR (state = 'pending' AND paused)), "
                      "count(*) FILTER (WHERE state = 'failed'), count(*) FROM task",
                      "");
    if (rc != 1)
        return rc;
    ret->recordings = (uint64_t)sqlite3_column_int64(stmt, 0);
    ret->done = (uint64_t)sqlite3_column_int64(stmt, 1);
    ret->failed = (uint64_t)sqlite3_column_int64(stmt, 2);
    ret->open = (uint64_t)sqlite3_column_int64(stmt, 3) - ret->done - ret->failed;
    sqlite3_reset(stmt);
    return 0;
}

int parting_try_begins(struct store *part, const char *text, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    char with_found[256];
    long long found;
    int rc = db_first(part, &stmt, err, "SELECT count(*) FROM shard", "");

    if (rc != 1)
        return rc;
    found = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    snprintf(with_found, sizeof(with_found), "%lld shard%s done before, %s", found,
             found == 1 ? "" : "s", text);
    return store_event(part, "part-try", 0, "", with_found, err);
}

int parting_try_ends(struct store *part, const char *text, struct err *err)
{
    return store_event(part, "part-end", 0, "", text, err);
}

/* ---- what is open in a catalog, recording by recording */

/* Speakers that are to be told apart cost next to nothing, and need all shards: they stay. */
static const char sql_work[] =
    "SELECT t.media_id, ifnull(m.duration_ms, -1), m.size_bytes, sum(s.source_id IS NULL), "
    "sum(s.source_id IS NOT NULL), sum(iif(s.source_id IS NULL, t.audio_done_ms, 0)), "
    "max(" SHARE_OF "t.task_id)), "
    "sum(s.source_id IS NULL OR t.waits IS NULL) "
    "FROM task t JOIN stage s ON s.stage_id = t.stage_id JOIN media m ON m.media_id = t.media_id "
    "WHERE " OPEN_TASKS " GROUP BY t.media_id ORDER BY t.media_id";

static int read_work_row(const struct db_rows *rows, parting_work_fn fn, void *arg)
{
    sqlite3_stmt *stmt = rows->stmt;
    struct parting_work w = {
        .media_id = sqlite3_column_int64(stmt, 0),
        .duration_ms = sqlite3_column_int64(stmt, 1),
        .size_bytes = (uint64_t)sqlite3_column_int64(stmt, 2),
        .hearing = (uint32_t)sqlite3_column_int64(stmt, 3),
        .texts = (uint32_t)sqlite3_column_int64(stmt, 4),
        .done_ms = sqlite3_column_int64(stmt, 5),
    };

    if (sqlite3_column_int64(stmt, 7) == 0) /* all waits for what is not open */
        return 0;
    if (sqlite3_column_type(stmt, 6) != SQLITE_NULL &&
        !share_parse(db_text(stmt, 6), &w.first, &w.end))
        return err_set(rows->err, ERR_CORRUPT, "catalog: the share of recording %lld is none",
                       (long long)w.media_id);
    return fn(arg, &w, rows->err);
}

int parting_work_each(struct store *st, parting_work_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err, sql_work, "");
    while (db_rows_next(&rows))
        rows.rc = read_work_row(&rows, fn, arg);
    return db_rows_end(&rows);
}

int parting_out(struct store *st, const char *split, bool *before, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT 1 FROM setting WHERE name = 'split_out'", "");

    *before = rc == 1;
    if (rc == 1)
        sqlite3_reset(stmt);
    if (rc < 0 || (rc == 0 && !split))
        return rc;
    rc = db_enter(st, err);
    if (rc < 0)
        return rc;
    if (split)
        rc = db_run(st, err,
                    "INSERT INTO setting (name, value) VALUES ('split_out', ?) "
                    "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                    "t", split);
    else
        rc = db_run(st, err, "DELETE FROM setting WHERE name = 'split_out'", "");
    return db_leave(st, rc, err);
}

int parting_place(struct store *st, int64_t media_id, parting_place_fn fn, void *arg,
                  struct err *err)
{
    struct parting_place place = {0};
    sqlite3_stmt *stmt = NULL;
    char *path, *member;
    int rc = db_first(st, &stmt, err,
                      "SELECT p.path_raw, p.member_raw, p.nth FROM media m "
                      "JOIN place p ON p.place_id = m.place_id "
                      "WHERE m.media_id = ? AND p.state = 'present'",
                      "i", media_id);

    if (rc != 1)
        return rc < 0 ? rc : err_set(err, ERR_EMPTY, "the recording lies nowhere");
    path = db_dup(stmt, 0);
    member = db_dup(stmt, 1);
    place = (struct parting_place){path, member, (uint32_t)sqlite3_column_int64(stmt, 2)};
    sqlite3_reset(stmt);
    if (path && member)
        fn(arg, &place);
    rc = path && member ? 0 : err_no_memory(err, "catalog");
    free(path);
    free(member);
    return rc;
}

/* ---- A catalog as one file, while somebody writes it */

int parting_snapshot(struct store *st, const char *path, struct err *err)
{
    sqlite3_stmt *stmt;
    int rc = db_exec(st, "PRAGMA query_only = OFF", err);

    if (rc < 0)
        return rc;
    stmt = db_prepare(st, "VACUUM INTO ?", err);
    rc = stmt ? db_bind(stmt, "t", path) : SQLITE_ERROR;
    rc = rc == SQLITE_OK ? db_next(st, stmt, err) : err_no_memory(err, NULL);
    sqlite3_finalize(stmt);
    if (rc < 0)
        unlink(path);
    if (st->mode == STORE_READ && db_exec(st, "PRAGMA query_only = ON", err) < 0 && rc == 0)
        rc = err->code;
    return rc < 0 ? err_prefix(err, "'%s'", path) : 0;
}
