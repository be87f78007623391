#include "store/search/coverage.h"

#include "store/read/filter.h"

int coverage_read(struct store *st, const char *stage, const char *path, struct coverage *ret,
                  struct err *err)
{
    struct filter_path below = {0};
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc = filter_path_make(path, &below, err);

    if (rc < 0)
        return rc;
    buf_printf(
        &sql,
        "SELECT count(*) FILTER (WHERE best = 2), count(*) FILTER (WHERE best = 1), "
        "count(*) FILTER (WHERE best = 0), count(*) FILTER (WHERE best IS NULL AND NOT asked), "
        "count(*) FILTER (WHERE best IS NULL AND asked) "
        "FROM (SELECT (SELECT max(CASE t.state WHEN 'done' THEN 2 WHEN 'pending' "
        "THEN 1 ELSE 0 END) FROM task t WHERE t.media_id = m.media_id AND t.stage_id "
        "IN (SELECT stage_id FROM stage WHERE name = ?1)) AS best, "
        "EXISTS (SELECT 1 FROM asking a JOIN place p ON p.media_id = m.media_id "
        "AND p.state = 'present' WHERE a.kind = ?1 "
        "AND " DB_UNDER("p.path_raw", "a.path_raw") ") AS asked "
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
                                 (uint64_t)sqlite3_column_int64(rows.stmt, 4)};
    rc = db_rows_end(&rows);
    buf_free(&sql);
    filter_path_free(&below);
    return rc;
}
