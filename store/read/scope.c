#include "store/read/scope.h"

#include <stdio.h>

#include "store/read/scope_filter.h"

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

/* Reads only the indexes on speakers' names: the rows hold voice prints and are large. */
void scope_filter_put(struct scope_filter *f, struct buf *sql, const char *media, int first)
{
    if (f->scope->path)
        buf_printf(sql, " AND %s IN (%s)", media, filter_path_sql(&f->path, first));
    if (f->scope->speaker)
        buf_printf(sql,
                   " AND %s IN (SELECT media_id FROM speaker WHERE speaker_id IN "
                   "(SELECT speaker_id FROM speaker WHERE label = ?%d COLLATE NOCASE UNION ALL "
                   "SELECT speaker_id FROM speaker WHERE name IS NOT NULL "
                   "AND name = ?%d COLLATE NOCASE) UNION ALL SELECT media_id FROM task WHERE "
                   "task_id IN (SELECT task_id FROM source WHERE label = ?%d COLLATE NOCASE))",
                   media, first + 3, first + 3, first + 3);
    if (f->scope->language)
        buf_printf(sql,
                   " AND %s IN (SELECT media_id FROM task WHERE current AND task_id IN "
                   "(SELECT task_id FROM segment WHERE language = ?%d))",
                   media, first + 4);
}

void scope_filter_bind(const struct scope_filter *f, struct db_rows *rows, int first)
{
    static const char skip[] = "----------------";
    char format[sizeof(skip) + 8];

    snprintf(format, sizeof(format), "%.*sbbb", first - 1, skip);
    if (f->scope->path)
        db_rows_bind(rows, format, FILTER_PATH_VALUES(&f->path));
    snprintf(format, sizeof(format), "%.*st", first + 2, skip);
    if (f->scope->speaker)
        db_rows_bind(rows, format, f->scope->speaker);
    snprintf(format, sizeof(format), "%.*st", first + 3, skip);
    if (f->scope->language)
        db_rows_bind(rows, format, f->scope->language);
}

int scope_part(struct store *st, const struct scope *scope, double *ret, struct err *err)
{
    struct scope_filter f = {0};
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc = scope_filter_make(scope, &f, err);

    if (rc < 0)
        return rc;
    buf_printf(&sql,
               "SELECT count(*), (SELECT count(*) FROM media WHERE NOT replaced) FROM media m "
               "WHERE 1");
    scope_filter_put(&f, &sql, "m.media_id", 1);
    db_rows_open(&rows, st, err, buf_cstr(&sql), "");
    scope_filter_bind(&f, &rows, 1);
    if (db_rows_next(&rows)) {
        double in = sqlite3_column_double(rows.stmt, 0);
        double all = sqlite3_column_double(rows.stmt, 1);

        *ret = in < all ? in / all : 1;
    }
    rc = db_rows_end(&rows);
    scope_filter_free(&f);
    buf_free(&sql);
    return rc;
}
