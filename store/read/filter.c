#include "store/read/filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int filter_path_make(const char *path, struct filter_path *ret, struct err *err)
{
    struct filter_path f = {0};
    const char *member, *name;
    int rc;

    if (!path) {
        *ret = f;
        return 0;
    }
    member = strstr(path, "//");
    f.in_archive = member && member > path && member[2] != 0;
    f.display = strchr(path, '\\') != NULL;
    name = f.in_archive ? member + 2 : path;
    if (f.in_archive && !(f.archive = strndup(path, (size_t)(member - path))))
        return err_no_memory(err, "catalog");
    rc = db_prefix(name, strlen(name), &f.below, err);
    if (rc != 0) {
        free(f.archive);
        return rc;
    }
    f.at = f.in_archive ? f.archive : f.below.low;
    f.at_len = f.in_archive ? strlen(f.archive) : f.below.len - 1;
    *ret = f;
    return 0;
}

void filter_path_free(struct filter_path *f)
{
    db_prefix_free(&f->below);
    free(f->archive);
    *f = (struct filter_path){0};
}

#define MEDIA_OF "SELECT media_id FROM place WHERE state <> 'replaced' AND "
#define AT "?%1$d"
#define LOW "?%2$d"
#define HIGH "?%3$d"

/* A path that is given as it is shown makes SQLite read all places. */
const char *filter_path_sql(struct filter_path *f, int first)
{
    int a = first, b = first + 1, c = first + 2;

    if (f->in_archive && f->display)
        snprintf(f->sql, sizeof(f->sql),
                 MEDIA_OF "(path_raw = " AT " OR path = CAST(" AT " AS TEXT)) "
                          "AND " FILTER_MEMBER(LOW, HIGH),
                 a, b, c);
    else if (f->in_archive)
        snprintf(f->sql, sizeof(f->sql), MEDIA_OF "path_raw = " AT " AND " FILTER_MEMBER(LOW, HIGH),
                 a, b, c);
    else if (f->display)
        snprintf(f->sql, sizeof(f->sql),
                 MEDIA_OF FILTER_BELOW(AT, LOW, HIGH) " UNION " MEDIA_OF FILTER_BELOW_SHOWN(AT, LOW,
                                                                                            HIGH),
                 a, b, c);
    else
        snprintf(f->sql, sizeof(f->sql), MEDIA_OF FILTER_BELOW(AT, LOW, HIGH), a, b, c);
    return f->sql;
}
