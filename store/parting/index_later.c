#include "store/parting/index_later.h"

#include <stdlib.h>
#include <string.h>

/* Those of migration 6, which count and index segments whose task is current. */
static const char *const names[] = {"segment_insert", "segment_delete", "segment_update",
                                    "task_current", "task_not_current"};
#define COUNT (sizeof(names) / sizeof(names[0]))

struct index_later {
    int64_t last;     /* the highest number of a segment before */
    char *sql[COUNT]; /* what made each trigger */
};

/* The same of the segments up to the last. One that takes the number of a deleted one is an old
 * one. */
#define OLD " <= %lld "
static const char *const of_old[COUNT] = {
    "CREATE TRIGGER segment_insert AFTER INSERT ON segment "
    "WHEN new.segment_id" OLD "AND (SELECT current FROM task WHERE task_id = new.task_id) BEGIN "
    "INSERT INTO segment_fts (rowid, text) VALUES (new.segment_id, new.text); "
    "UPDATE catalog_total SET segments = segments + 1; END",
    "CREATE TRIGGER segment_delete AFTER DELETE ON segment "
    "WHEN old.segment_id" OLD "AND (SELECT current FROM task WHERE task_id = old.task_id) BEGIN "
    "INSERT INTO segment_fts (segment_fts, rowid, text) "
    "VALUES ('delete', old.segment_id, old.text); "
    "UPDATE catalog_total SET segments = segments - 1; END",
    "CREATE TRIGGER segment_update AFTER UPDATE OF text ON segment "
    "WHEN new.segment_id" OLD "AND (SELECT current FROM task WHERE task_id = new.task_id) BEGIN "
    "INSERT INTO segment_fts (segment_fts, rowid, text) "
    "VALUES ('delete', old.segment_id, old.text); "
    "INSERT INTO segment_fts (rowid, text) VALUES (new.segment_id, new.text); END",
    "CREATE TRIGGER task_current AFTER UPDATE OF current ON task "
    "WHEN new.current = 1 AND old.current = 0 BEGIN "
    "INSERT INTO segment_fts (rowid, text) SELECT segment_id, text FROM segment "
    "WHERE task_id = new.task_id AND segment_id" OLD "; "
    "UPDATE catalog_total SET segments = segments + (SELECT count(*) FROM segment "
    "WHERE task_id = new.task_id AND segment_id" OLD "); END",
    "CREATE TRIGGER task_not_current AFTER UPDATE OF current ON task "
    "WHEN new.current = 0 AND old.current = 1 BEGIN "
    "INSERT INTO segment_fts (segment_fts, rowid, text) SELECT 'delete', segment_id, text "
    "FROM segment WHERE task_id = new.task_id AND segment_id" OLD "; "
    "UPDATE catalog_total SET segments = segments - (SELECT count(*) FROM segment "
    "WHERE task_id = new.task_id AND segment_id" OLD "); END",
};

static int read_trigger(struct store *st, const char *name, char **ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc =
        db_first(st, &stmt, err,
                 "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = ?", "t", name);

    if (rc != 1)
        return rc < 0 ? rc
                      : err_set(err, ERR_CORRUPT, "catalog '%s': it has no trigger %s", st->path,
                                name);
    *ret = db_dup(stmt, 0);
    sqlite3_reset(stmt);
    return *ret ? 0 : err_set(err, ERR_NOMEM, "catalog: out of memory");
}

static int drop(struct store *st, const char *name, struct err *err)
{
    char *sql = sqlite3_mprintf("DROP TRIGGER %s", name);
    int rc = sql ? db_exec(st, sql, err) : err_set(err, ERR_NOMEM, "catalog: out of memory");

    sqlite3_free(sql);
    return rc;
}

static int make_of_old(struct store *st, size_t i, int64_t last, struct err *err)
{
    /* Those with one number leave the other aside. */
    char *sql = sqlite3_mprintf(of_old[i], last, last);
    int rc = sql ? db_exec(st, sql, err) : err_set(err, ERR_NOMEM, "catalog: out of memory");

    sqlite3_free(sql);
    return rc;
}

static void later_free(struct index_later *l)
{
    for (size_t i = 0; l && i < COUNT; i++)
        free(l->sql[i]);
    free(l);
}

int index_later_begin(struct store *st, struct index_later **ret, struct err *err)
{
    struct index_later *l = calloc(1, sizeof(*l));
    sqlite3_stmt *stmt = NULL;
    int rc = l ? db_first(st, &stmt, err, "SELECT ifnull(max(segment_id), 0) FROM segment", "")
               : err_set(err, ERR_NOMEM, "catalog: out of memory");

    if (rc == 1) {
        l->last = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
        rc = 0;
    }
    for (size_t i = 0; i < COUNT && rc == 0; i++) {
        rc = read_trigger(st, names[i], &l->sql[i], err);
        if (rc == 0)
            rc = drop(st, names[i], err);
        if (rc == 0)
            rc = make_of_old(st, i, l->last, err);
    }
    if (rc < 0)
        later_free(l);
    else
        *ret = l;
    return rc;
}

/* In the order of their numbers, as the index has them. */
static int index_new(struct store *st, int64_t last, struct err *err)
{
    int rc = db_run(st, err,
                    "INSERT INTO segment_fts (rowid, text) SELECT g.segment_id, g.text "
                    "FROM segment g CROSS JOIN task t ON t.task_id = g.task_id "
                    "WHERE g.segment_id > ? AND t.current ORDER BY g.segment_id",
                    "i", last);

    return rc < 0 ? rc
                  : db_run(st, err,
                           "UPDATE catalog_total SET segments = segments + (SELECT count(*) "
                           "FROM segment g CROSS JOIN task t ON t.task_id = g.task_id "
                           "WHERE g.segment_id > ? AND t.current)",
                           "i", last);
}

int index_later_end(struct store *st, struct index_later *l, int rc, struct err *err)
{
    if (!l)
        return rc;
    if (rc >= 0)
        rc = index_new(st, l->last, err);
    for (size_t i = 0; i < COUNT && rc == 0; i++) {
        rc = drop(st, names[i], err);
        if (rc == 0)
            rc = db_exec(st, l->sql[i], err);
    }
    later_free(l);
    return rc;
}
