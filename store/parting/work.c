/* What is open in a catalog, recording by recording. */
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/parting/open_tasks.h"
#include "store/parting/parting.h"
#include "store/parting/share.h"

/* Speakers that are to be told apart cost next to nothing, and need all shards: they stay. */
static const char sql_work[] =
    "SELECT t.media_id, ifnull(m.duration_ms, -1), m.size_bytes, sum(s.source_id IS NULL), "
    "sum(s.source_id IS NOT NULL), sum(iif(s.source_id IS NULL, t.audio_done_ms, 0)), "
    "max(" SHARE_OF "t.task_id)), "
    "sum(s.source_id IS NULL OR t.waits IS NULL) "
    "FROM task t JOIN stage s ON s.stage_id = t.stage_id JOIN media m ON m.media_id = t.media_id "
    "WHERE " OPEN_TASKS " GROUP BY t.media_id ORDER BY t.media_id";

static int take(const struct db_rows *rows, parting_work_fn fn, void *arg)
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
        rows.rc = take(&rows, fn, arg);
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
    rc = path && member ? 0 : err_set(err, ERR_NOMEM, "catalog: out of memory");
    free(path);
    free(member);
    return rc;
}
