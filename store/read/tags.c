/* What the archive says of a recording. */
#include "store/read/find.h"

#include "store/db.h"

int find_tags(struct store *st, int64_t media_id, find_tag_fn fn, void *arg, struct err *err)
{
    sqlite3_stmt *stmt =
        db_prepare(st,
                   "SELECT source, key, value, ifnull(start_ms, 0), ifnull(end_ms, 0) FROM tag "
                   "WHERE media_id = ?1 ORDER BY CASE source WHEN 'csv' THEN 0 WHEN 'bext' THEN 1 "
                   "WHEN 'container' THEN 2 WHEN 'stream' THEN 3 WHEN 'ixml' THEN 4 "
                   "WHEN 'chapter' THEN 6 ELSE 5 END, source, key, seq",
                   err);
    int rc = 1, stop = 0;

    if (!stmt)
        return err->code;
    if (db_bind(stmt, "i", media_id) != SQLITE_OK)
        rc = err_set(err, ERR_NOMEM, "catalog: out of memory");
    while (rc == 1 && !stop && (rc = db_next(st, stmt, err)) == 1) {
        const struct result_tag row = {db_text(stmt, 0), db_text(stmt, 1), db_text(stmt, 2),
                                       sqlite3_column_int64(stmt, 3),
                                       sqlite3_column_int64(stmt, 4)};

        stop = fn(arg, &row);
    }
    sqlite3_finalize(stmt);
    return rc < 0 ? rc : stop;
}
