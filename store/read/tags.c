/* What the archive says of a recording. */
#include "store/read/find.h"

#include "store/db.h"

int find_tags(struct store *st, int64_t media_id, find_tag_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT source, key, value, ifnull(start_ms, 0), ifnull(end_ms, 0) FROM tag "
                 "WHERE media_id = ?1 ORDER BY CASE source WHEN 'csv' THEN 0 WHEN 'bext' THEN 1 "
                 "WHEN 'container' THEN 2 WHEN 'stream' THEN 3 WHEN 'ixml' THEN 4 "
                 "WHEN 'chapter' THEN 6 ELSE 5 END, source, key, seq",
                 "i", media_id);
    while (db_rows_next(&rows)) {
        const struct result_tag row = {db_text(rows.stmt, 0), db_text(rows.stmt, 1),
                                       db_text(rows.stmt, 2), sqlite3_column_int64(rows.stmt, 3),
                                       sqlite3_column_int64(rows.stmt, 4)};

        rows.rc = fn(arg, &row);
    }
    return db_rows_end(&rows);
}
