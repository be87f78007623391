#include "store/read/filter.h"

#include <stdio.h>
#include <string.h>

int filter_path_make(const char *path, struct filter_path *ret, struct err *err)
{
    struct filter_path f = {0};
    int rc;

    if (!path) {
        *ret = f;
        return 0;
    }
    f.display = strchr(path, '\\') != NULL;
    rc = db_prefix(path, strlen(path), &f.below, err);
    if (rc == 0)
        *ret = f;
    return rc;
}

void filter_path_free(struct filter_path *f) { db_prefix_free(&f->below); }

const char *filter_path_sql(struct filter_path *f, int first)
{
    int a = first, b = first + 1, c = first + 2, n;

    n = snprintf(f->sql, sizeof(f->sql),
                 "SELECT media_id FROM place WHERE state <> 'replaced' "
                 "AND " DB_BELOW("path_raw", "?%1$d", "?%2$d", "?%3$d"),
                 a, b, c);
    if (f->display)
        snprintf(f->sql + n, sizeof(f->sql) - (size_t)n,
                 " UNION SELECT media_id FROM place WHERE state <> 'replaced' "
                 "AND (path = CAST(?%d AS TEXT) "
                 "OR (path >= CAST(?%d AS TEXT) AND path < CAST(?%d AS TEXT)))",
                 a, b, c); /* no index: all are read anyway */
    return f->sql;
}

int filter_prepare(struct store *st, struct buf *sql, sqlite3_stmt **ret, struct err *err)
{
    const char *text = buf_cstr(sql);

    if (!text)
        return err_set(err, ERR_NOMEM, "catalog: out of memory");
    *ret = db_prepare(st, text, err);
    return *ret ? 0 : err->code;
}

int filter_bound(int sqlite_rc, struct err *err)
{
    if (sqlite_rc == SQLITE_OK)
        return 0;
    return db_error_of(sqlite_rc, 0, sqlite3_errstr(sqlite_rc), "catalog", err);
}
