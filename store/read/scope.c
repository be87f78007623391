#include "store/read/scope.h"

#include <stdio.h>

#include "store/read/filter.h"

bool scope_is_all(const struct scope *scope)
{
    return !scope->path && !scope->speaker && !scope->language;
}

int scope_filter_make(const struct scope *scope, struct scope_filter *ret, struct err *err)
{
    struct scope_filter f = {.scope = scope};
    int rc = filter_path_make(scope->path, &f.path, err);

    if (rc == 0)
        *ret = f;
    return rc;
}

void scope_filter_free(struct scope_filter *f) { filter_path_free(&f->path); }

/* Of the speakers' names the indexes are read, without the rows, which hold their voices. */
void scope_filter_put(struct scope_filter *f, struct buf *sql, const char *media, int first)
{
    if (f->scope->path)
        buf_printf(sql, " AND %s IN (%s)", media, filter_path_sql(&f->path, first));
    if (f->scope->speaker)
        buf_printf(sql,
                   " AND %s IN (SELECT media_id FROM speaker WHERE speaker_id IN "
                   "(SELECT speaker_id FROM speaker WHERE label = ?%d COLLATE NOCASE UNION ALL "
                   "SELECT speaker_id FROM speaker WHERE name IS NOT NULL "
                   "AND name = ?%d COLLATE NOCASE))",
                   media, first + 3, first + 3);
    if (f->scope->language)
        buf_printf(sql,
                   " AND %s IN (SELECT media_id FROM task WHERE current AND task_id IN "
                   "(SELECT task_id FROM segment WHERE language = ?%d))",
                   media, first + 4);
}

int scope_filter_bind(const struct scope_filter *f, sqlite3_stmt *stmt, int first, struct err *err)
{
    static const char skip[] = "----------------";
    char format[sizeof(skip) + 8];
    int rc = SQLITE_OK;

    snprintf(format, sizeof(format), "%.*sbbb", first - 1, skip);
    if (f->scope->path)
        rc = db_bind(stmt, format, FILTER_PATH_VALUES(&f->path));
    snprintf(format, sizeof(format), "%.*st", first + 2, skip);
    if (rc == SQLITE_OK && f->scope->speaker)
        rc = db_bind(stmt, format, f->scope->speaker);
    snprintf(format, sizeof(format), "%.*st", first + 3, skip);
    if (rc == SQLITE_OK && f->scope->language)
        rc = db_bind(stmt, format, f->scope->language);
    return filter_bound(rc, err);
}

int scope_part(struct store *st, const struct scope *scope, double *ret, struct err *err)
{
    struct scope_filter f = {0};
    struct buf sql = BUF_INIT;
    sqlite3_stmt *stmt = NULL;
    int rc = scope_filter_make(scope, &f, err);

    if (rc < 0)
        return rc;
    buf_printf(&sql, "SELECT count(*), (SELECT recordings FROM catalog_total) FROM media m "
                     "WHERE 1");
    scope_filter_put(&f, &sql, "m.media_id", 1);
    rc = filter_prepare(st, &sql, &stmt, err);
    if (rc == 0)
        rc = scope_filter_bind(&f, stmt, 1, err);
    if (rc == 0 && (rc = db_next(st, stmt, err)) == 1) {
        double in = sqlite3_column_double(stmt, 0), all = sqlite3_column_double(stmt, 1);

        *ret = in < all ? in / all : 1;
        rc = 0;
    }
    sqlite3_finalize(stmt);
    scope_filter_free(&f);
    buf_free(&sql);
    return rc;
}
