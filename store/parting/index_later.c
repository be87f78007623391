#include "store/parting/index_later.h"

#include <stdlib.h>
#include <string.h>

/* Those that count and index segments whose task is current: where each says whose segments, and
 * the same of the segments up to a number. One that takes the number of a deleted one is an old
 * one. */
static const struct {
    const char *name, *says, *of_old;
} triggers[] = {
    {"segment_insert", "WHEN (", "WHEN new.segment_id <= %lld AND ("},
    {"segment_delete", "WHEN (", "WHEN old.segment_id <= %lld AND ("},
    {"segment_update", "WHEN (", "WHEN new.segment_id <= %lld AND ("},
    {"task_current", "FROM segment WHERE ", "FROM segment WHERE segment_id <= %lld AND "},
    {"task_not_current", "FROM segment WHERE ", "FROM segment WHERE segment_id <= %lld AND "},
};
#define COUNT (sizeof(triggers) / sizeof(triggers[0]))

struct index_later {
    int64_t last;     /* the highest number of a segment before */
    char *sql[COUNT]; /* what made each trigger */
};

/* *of_old: the same of the segments up to the last. */
static int read_trigger(struct store *st, size_t i, int64_t last, char **ret, char **of_old,
                        struct err *err)
{
    char *put = sqlite3_mprintf(triggers[i].of_old, last);
    sqlite3_stmt *stmt = NULL;
    int rc = put ? db_first(st, &stmt, err,
                            "SELECT sql, replace(sql, ?1, ?2) FROM sqlite_schema "
                            "WHERE type = 'trigger' AND name = ?3 AND instr(sql, ?1)",
                            "ttt", triggers[i].says, put, triggers[i].name)
                 : err_set(err, ERR_NOMEM, "catalog: out of memory");

    sqlite3_free(put);
    if (rc != 1)
        return rc < 0
                   ? rc
                   : err_set(err, ERR_CORRUPT, "catalog '%s': it has no trigger %s as it was made",
                             st->path, triggers[i].name);
    *ret = db_dup(stmt, 0);
    *of_old = db_dup(stmt, 1);
    sqlite3_reset(stmt);
    return *ret && *of_old ? 0 : err_set(err, ERR_NOMEM, "catalog: out of memory");
}

static int drop(struct store *st, const char *name, struct err *err)
{
    char *sql = sqlite3_mprintf("DROP TRIGGER %s", name);
    int rc = sql ? db_exec(st, sql, err) : err_set(err, ERR_NOMEM, "catalog: out of memory");

    sqlite3_free(sql);
    return rc;
}

static int make_of_old(struct store *st, size_t i, int64_t last, char **sql, struct err *err)
{
    char *of_old = NULL;
    int rc = read_trigger(st, i, last, sql, &of_old, err);

    if (rc == 0)
        rc = drop(st, triggers[i].name, err);
    if (rc == 0)
        rc = db_exec(st, of_old, err);
    free(of_old);
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
    for (size_t i = 0; i < COUNT && rc == 0; i++)
        rc = make_of_old(st, i, l->last, &l->sql[i], err);
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
        rc = drop(st, triggers[i].name, err);
        if (rc == 0)
            rc = db_exec(st, l->sql[i], err);
    }
    later_free(l);
    return rc;
}
