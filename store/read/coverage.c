#include "store/read/coverage.h"

#include "store/read/filter.h"

int coverage_read(struct store *st, const char *stage, const char *path, struct coverage *ret,
                  struct err *err)
{
    struct filter_path below = {0};
    struct coverage c = {0};
    struct buf sql = BUF_INIT;
    sqlite3_stmt *stmt = NULL;
    int rc = filter_path_make(path, &below, err);

    if (rc < 0)
        return rc;
    buf_printf(&sql, "SELECT count(*) FILTER (WHERE best = 2), count(*) FILTER (WHERE best = 1), "
                     "count(*) FILTER (WHERE best = 0), count(*) FILTER (WHERE best IS NULL) "
                     "FROM (SELECT (SELECT max(CASE t.state WHEN 'done' THEN 2 WHEN 'pending' "
                     "THEN 1 ELSE 0 END) FROM task t WHERE t.media_id = m.media_id AND t.stage_id "
                     "IN (SELECT stage_id FROM stage WHERE name = ?1)) AS best "
                     "FROM media m WHERE m.places > 0");
    if (path)
        buf_printf(&sql, " AND m.media_id IN (%s)", filter_path_sql(&below, 2));
    buf_printf(&sql, ")");
    rc = filter_prepare(st, &sql, &stmt, err);
    if (rc == 0)
        rc = filter_bound(db_bind(stmt, "t", stage), err);
    if (rc == 0 && path)
        rc = filter_bound(db_bind(stmt, "-bbb", FILTER_PATH_VALUES(&below)), err);
    if (rc == 0 && (rc = db_next(st, stmt, err)) == 1) {
        c = (struct coverage){
            (uint64_t)sqlite3_column_int64(stmt, 0), (uint64_t)sqlite3_column_int64(stmt, 1),
            (uint64_t)sqlite3_column_int64(stmt, 2), (uint64_t)sqlite3_column_int64(stmt, 3)};
        *ret = c;
        rc = 0;
    }
    sqlite3_finalize(stmt);
    buf_free(&sql);
    filter_path_free(&below);
    return rc;
}
