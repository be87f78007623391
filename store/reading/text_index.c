#include "store/reading/text_index.h"

/* Segments above this number are of the transaction, and not indexed yet. */
static int64_t indexed(const struct store *st)
{
    return st->before_commit ? st->indexed : INT64_MAX;
}

#define IS_CURRENT "(SELECT current FROM task t WHERE t.task_id = g.task_id)"
#define TAKE                                              \
    "INSERT INTO segment_fts (segment_fts, rowid, text) " \
    "SELECT 'delete', segment_id, text FROM segment g "
#define PUT "INSERT INTO segment_fts (rowid, text) SELECT segment_id, text FROM segment g "

int text_index_take(struct store *st, int64_t segment_id, struct err *err)
{
    return segment_id > indexed(st)
               ? 0
               : db_run(st, err, TAKE "WHERE segment_id = ? AND " IS_CURRENT, "i", segment_id);
}

int text_index_put(struct store *st, int64_t segment_id, struct err *err)
{
    return segment_id > indexed(st)
               ? 0
               : db_run(st, err, PUT "WHERE segment_id = ? AND " IS_CURRENT, "i", segment_id);
}

int text_index_take_task(struct store *st, int64_t task_id, struct err *err)
{
    return db_run(st, err, TAKE "WHERE task_id = ? AND segment_id <= ? AND " IS_CURRENT, "ii",
                  task_id, indexed(st));
}

int text_index_current(struct store *st, int64_t task_id, bool current, struct err *err)
{
    return db_run(st, err,
                  current ? PUT "WHERE task_id = ? AND segment_id <= ?"
                          : TAKE "WHERE task_id = ? AND segment_id <= ?",
                  "ii", task_id, indexed(st));
}

/* Without a join: SQLite would read all tasks for a Bloom filter of it. */
static int index_new(struct store *st, struct err *err)
{
    return db_run(st, err,
                  PUT "NOT INDEXED WHERE segment_id > ? AND " IS_CURRENT " ORDER BY segment_id",
                  "i", st->indexed);
}

int text_index_begin(struct store *st, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc;

    if (st->before_commit)
        return 0;
    rc = db_first(st, &stmt, err, "SELECT ifnull(max(segment_id), 0) FROM segment", "");
    if (rc != 1)
        return rc;
    st->indexed = sqlite3_column_int64(stmt, 0);
    st->before_commit = index_new;
    sqlite3_reset(stmt);
    return 0;
}

int store_index_texts(struct store *st, struct err *err)
{
    int rc = db_enter(st, err);

    if (rc == 0)
        rc = db_leave(
            st, db_run(st, err, "INSERT INTO segment_fts (segment_fts) VALUES ('rebuild')", ""),
            err);
    return rc;
}
