#include "store/search/coverage.h"

#include "store/read/filter.h"

/* What was asked for and has nothing is counted from each recipe's folder down, by the index on
 * paths: the other way is each recording by each recipe. (+p.state: or SQLite makes an index of its
 * own of all that is present, and goes through that for each recipe.) */
int coverage_read(struct store *st, const char *stage, const char *path, struct coverage *ret,
                  struct err *err)
{
    struct filter_path below = {0};
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc = filter_path_make(path, &below, err);

    if (rc < 0)
        return rc;
    buf_printf(&sql,
               "SELECT count(*) FILTER (WHERE best = 3), count(*) FILTER (WHERE best = 2), "
               "count(*) FILTER (WHERE best = 1), count(*) FILTER (WHERE best = 0), "
               "count(*) FILTER (WHERE best IS NULL AND NOT asked), "
               "count(*) FILTER (WHERE best IS NULL AND asked) "
               "FROM (SELECT (SELECT max(CASE t.state WHEN 'done' THEN 3 WHEN 'pending' "
               "THEN 2 WHEN 'failed' THEN 1 ELSE 0 END) FROM task t WHERE t.media_id = m.media_id "
               "AND t.stage_id "
               "IN (SELECT stage_id FROM stage WHERE name = ?1)) AS best, "
               "m.media_id IN (SELECT p.media_id FROM recipe a CROSS JOIN place p ON " DB_PATHS_OF(
                   "a.path_raw",
                   "p.path_raw") " WHERE a.kind = ?1 AND +p.state = 'present' AND p.media_id "
                                 "IS NOT NULL) AS asked "
                                 "FROM media m WHERE m.places > 0");
    if (path)
        buf_printf(&sql, " AND m.media_id IN (%s)", filter_path_sql(&below, 2));
    buf_printf(&sql, ")");
    db_rows_open(&rows, st, err, buf_cstr(&sql), "t", stage);
    if (path)
        db_rows_bind(&rows, "-bbb", FILTER_PATH_VALUES(&below));
    if (db_rows_next(&rows))
        *ret = (struct coverage){(uint64_t)sqlite3_column_int64(rows.stmt, 0),
                                 (uint64_t)sqlite3_column_int64(rows.stmt, 1),
                                 (uint64_t)sqlite3_column_int64(rows.stmt, 2),
                                 (uint64_t)sqlite3_column_int64(rows.stmt, 3),
                                 (uint64_t)sqlite3_column_int64(rows.stmt, 4),
                                 (uint64_t)sqlite3_column_int64(rows.stmt, 5)};
    rc = db_rows_end(&rows);
    buf_free(&sql);
    filter_path_free(&below);
    return rc;
}
