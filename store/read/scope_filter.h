/* store/read/scope_filter.h - a scope (scope.h) within a statement. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_READ_SCOPE_FILTER_H
#define NIGHTSHIFT_STORE_READ_SCOPE_FILTER_H

#include "store/read/filter.h"
#include "store/read/scope.h"

/* A scope as conditions on the recording of a row. */
struct scope_filter {
    const struct scope *scope; /* borrowed */
    struct filter_path path;
};
bool scope_is_all(const struct scope *scope);
int scope_filter_make(const struct scope *scope, struct scope_filter *ret, struct err *err);
void scope_filter_free(struct scope_filter *f);
/* Appends " AND media IN (...)" for each; media is the SQL of a media_id. The parameters have the
 * numbers first ... first + 4, first at most 12. */
void scope_filter_put(struct scope_filter *f, struct buf *sql, const char *media, int first);
void scope_filter_bind(const struct scope_filter *f, struct db_rows *rows, int first);

#endif
