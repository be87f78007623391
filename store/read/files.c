/* The files on disk, and what is known of their bytes. */
#include <string.h>

#include "store/read/filter.h"
#include "store/read/read.h"

/* A plain file's bytes are its recording's, whose hash is known; but not where nobody has compared
 * them. A file that was written since may hold others, and nobody has seen them. */
#define HEARD "iif(p.member_raw = x'' AND NOT p.unproven, m.content_hash, NULL)"
#define SELECT_FILES                                                                    \
    "SELECT p.path_raw, p.path, p.file_size_bytes, p.mtime_ns, "                        \
    "iif(f.size_bytes = p.file_size_bytes AND f.mtime_ns = p.mtime_ns, f.hash, "        \
    "iif(f.path_raw IS NULL AND "                                                       \
    "p.mtime_ns / 1000000000 <= unixepoch(m.decoded_at), " HEARD ", NULL)), " HEARD " " \
    "FROM place p JOIN media m ON m.media_id = p.media_id "                             \
    "LEFT JOIN fixity f ON f.path_raw = p.path_raw "                                    \
    "WHERE p.state = 'present' AND (?1 IS NULL OR " DB_BELOW(                           \
        "p.path_raw", "?1", "?2",                                                       \
        "?3") ") "                                                                      \
              "GROUP BY p.path_raw ORDER BY f.verified_at IS NOT NULL, f.verified_at, p.path_raw"

static const uint8_t *hash_at(sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_bytes(stmt, column) == 16 ? sqlite3_column_blob(stmt, column) : NULL;
}

int read_files(struct store *st, const char *path, read_file_fn fn, void *arg, struct err *err)
{
    struct filter_path at;
    struct db_rows rows;
    int rc = filter_path_make(path, &at, err);

    if (rc != 0)
        return rc;
    db_rows_open(&rows, st, err, SELECT_FILES, "");
    if (path)
        db_rows_bind(&rows, "bbb", FILTER_PATH_VALUES(&at));
    while (db_rows_next(&rows)) {
        const struct read_file row = {.path_raw = sqlite3_column_blob(rows.stmt, 0),
                                      .path_raw_len = (size_t)sqlite3_column_bytes(rows.stmt, 0),
                                      .path = db_text(rows.stmt, 1),
                                      .size_bytes = (uint64_t)sqlite3_column_int64(rows.stmt, 2),
                                      .mtime_ns = sqlite3_column_int64(rows.stmt, 3),
                                      .hash = hash_at(rows.stmt, 4),
                                      .heard = hash_at(rows.stmt, 5)};

        rows.rc = row.path_raw ? fn(arg, &row) : 0;
    }
    rc = db_rows_end(&rows);
    filter_path_free(&at);
    return rc;
}
