/* Which recording lies at a place, and the files on disk. */

#include <string.h>

#include "store/read/filter.h"
#include "store/read/read.h"

/* 1: *ret; 0: there is none. */
static int one_of(struct store *st, const char *sql, const char *path, const char *member,
                  int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, sql, "bt", path, strlen(path), member);

    if (rc == 1) {
        *ret = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return rc;
}

int read_place(struct store *st, const char *path, const char *member, int64_t *ret,
               struct err *err)
{
    int64_t other;
    int rc = one_of(st,
                    "SELECT media_id FROM place WHERE path_raw = ?1 AND member = ?2 "
                    "AND state <> 'replaced' LIMIT 1",
                    path, member, ret, err);

    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = one_of(st,
                "SELECT media_id FROM place WHERE path_raw = ?1 AND ?2 = '' "
                "AND state <> 'replaced' LIMIT 1",
                path, member, &other, err);
    if (rc == 1)
        return err_set(err, ERR_USAGE,
                       "'%.300s' is an archive: its recordings are named ARCHIVE//MEMBER", path);
    if (rc == 0)
        rc = err_set(err, ERR_MISSING, "'%.200s%s%.200s' is not in the catalog", path,
                     member[0] ? "//" : "", member);
    return rc;
}

int read_places(struct store *st, read_place_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT media_id, path, member FROM place WHERE state <> 'replaced'", "");
    while (db_rows_next(&rows))
        rows.rc = fn(arg, sqlite3_column_int64(rows.stmt, 0), db_text(rows.stmt, 1),
                     db_text(rows.stmt, 2));
    return db_rows_end(&rows);
}

#define PLACE_COLUMNS                                                     \
    "p.media_id, p.place_id, p.path, p.member, p.path_raw, " MEMBER_BYTES \
    ", p.nth, p.state = 'present' FROM place p JOIN media m ON m.media_id = p.media_id "

static int each_place(struct db_rows *rows, read_other_fn fn, void *arg)
{
    while (db_rows_next(rows)) {
        struct read_other row = {.media_id = sqlite3_column_int64(rows->stmt, 0),
                                 .place_id = sqlite3_column_int64(rows->stmt, 1),
                                 .path = db_text(rows->stmt, 2),
                                 .member = db_text(rows->stmt, 3),
                                 .path_raw = sqlite3_column_blob(rows->stmt, 4),
                                 .member_raw = sqlite3_column_blob(rows->stmt, 5),
                                 .path_raw_len = (size_t)sqlite3_column_bytes(rows->stmt, 4),
                                 .member_raw_len = (size_t)sqlite3_column_bytes(rows->stmt, 5),
                                 .nth = (uint32_t)sqlite3_column_int64(rows->stmt, 6),
                                 .present = sqlite3_column_int(rows->stmt, 7)};

        if (!row.path_raw)
            row.path_raw = "";
        if (!row.member_raw)
            row.member_raw = "";
        rows->rc = fn(arg, &row);
    }
    return db_rows_end(rows);
}

int read_places_of(struct store *st, int64_t media_id, read_other_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT " PLACE_COLUMNS "WHERE p.media_id = ? AND p.state <> 'replaced' "
                 "ORDER BY p.place_id <> m.place_id, p.state <> 'present', p.path, p.member, p.nth",
                 "i", media_id);
    return each_place(&rows, fn, arg);
}

int read_others(struct store *st, read_other_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT " PLACE_COLUMNS "WHERE p.state <> 'replaced' AND p.place_id <> m.place_id "
                 "ORDER BY p.media_id, p.place_id",
                 "");
    return each_place(&rows, fn, arg);
}

int read_origin(struct store *st, int64_t media_id, read_origin_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT p.path_raw, p.member_raw, p.nth, p.state = 'present', m.fingerprint, "
                 "m.content_hash "
                 "FROM media m JOIN place p ON p.place_id = m.place_id WHERE m.media_id = ?",
                 "i", media_id);
    if (db_rows_next(&rows)) {
        struct read_origin row = {.path_raw = sqlite3_column_blob(rows.stmt, 0),
                                  .member_raw = sqlite3_column_blob(rows.stmt, 1),
                                  .path_raw_len = (size_t)sqlite3_column_bytes(rows.stmt, 0),
                                  .member_raw_len = (size_t)sqlite3_column_bytes(rows.stmt, 1),
                                  .nth = (uint32_t)sqlite3_column_int64(rows.stmt, 2),
                                  .present = sqlite3_column_int(rows.stmt, 3) != 0,
                                  .fingerprint = sqlite3_column_blob(rows.stmt, 4),
                                  .hash = sqlite3_column_bytes(rows.stmt, 5) == 16
                                              ? sqlite3_column_blob(rows.stmt, 5)
                                              : NULL};

        if (!row.path_raw)
            row.path_raw = "";
        if (!row.member_raw)
            row.member_raw = "";
        rows.rc = row.fingerprint ? fn(arg, &row) : err_no_memory(err, "catalog");
    } else if (rows.rc == 0) {
        rows.rc = err_set(err, ERR_MISSING, "there is no recording %lld", (long long)media_id);
    }
    return db_rows_end(&rows);
}

/* ---- the files on disk, and what is known of their bytes */

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
