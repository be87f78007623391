#include "store/vectors/vector_rows.h"

#include <stdlib.h>

#include "base/list.h"
#include "store/read/scope_filter.h"

void vector_rows_free(struct vector_rows *r)
{
    free(r->list);
    *r = (struct vector_rows){0};
}

static int put(struct vector_rows *r, size_t *room, int64_t id, struct err *err)
{
    r->rows++;
    if (r->count && r->list[r->count - 1].last == id - 1) {
        r->list[r->count - 1].last = id;
        return 0;
    }
    if (!list_grow(&r->list, room, r->count, sizeof(*r->list)))
        return err_set(err, ERR_NOMEM, "vectors: out of memory");
    r->list[r->count++] = (struct vector_range){id, id};
    return 0;
}

static int rising(const void *a, const void *b)
{
    int64_t x = ((const struct vector_range *)a)->first;
    int64_t y = ((const struct vector_range *)b)->first;

    return (x > y) - (x < y);
}

/* In order, and those that touch joined: shards of several recordings are committed in turn. */
static void tidy(struct vector_rows *r)
{
    size_t kept = 0;

    if (r->count)
        qsort(r->list, r->count, sizeof(*r->list), rising);
    for (size_t i = 0; i < r->count; i++)
        if (kept && r->list[kept - 1].last == r->list[i].first - 1)
            r->list[kept - 1].last = r->list[i].last;
        else
            r->list[kept++] = r->list[i];
    r->count = kept;
}

/* Takes the numbers that a statement yields, and ends it. */
static int take_all(struct db_rows *rows, struct vector_rows *ret)
{
    struct vector_rows r = {0};
    size_t room = 0;
    int rc;

    while (db_rows_next(rows))
        rows->rc = put(&r, &room, sqlite3_column_int64(rows->stmt, 0), rows->err);
    rc = db_rows_end(rows);
    if (rc < 0) {
        vector_rows_free(&r);
        return rc;
    }
    tidy(&r);
    *ret = r;
    return 0;
}

int vector_rows_superseded(struct store *st, int64_t stage_id, struct vector_rows *ret,
                           struct err *err)
{
    struct db_rows rows;
    int rc;

    db_rows_open(&rows, st, err,
                 "SELECT e.embedding_id FROM task t INDEXED BY task_superseded "
                 "CROSS JOIN embedding e ON e.task_id = t.task_id "
                 "WHERE t.stage_id = ? AND t.current = 0 AND e.embedding_id > 0",
                 "i", stage_id);
    rc = take_all(&rows, ret);
    if (rc == 0)
        ret->out = true;
    return rc;
}

int vector_rows_find(struct store *st, int64_t stage_id, const struct scope *scope,
                     struct vector_rows *ret, struct err *err)
{
    struct scope_filter f = {0};
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc = scope_filter_make(scope, &f, err);

    if (rc < 0)
        return rc;
    buf_printf(&sql, "SELECT e.embedding_id FROM task t CROSS JOIN embedding e "
                     "ON e.task_id = t.task_id WHERE t.stage_id = ?1 AND t.current "
                     "AND e.embedding_id > 0");
    scope_filter_put(&f, &sql, "t.media_id", 2);
    db_rows_open(&rows, st, err, buf_cstr(&sql), "i", stage_id);
    scope_filter_bind(&f, &rows, 2);
    rc = take_all(&rows, ret);
    scope_filter_free(&f);
    buf_free(&sql);
    return rc;
}

size_t vector_rows_at(const struct vector_rows *r, int64_t id)
{
    size_t low = 0, high = r->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (r->list[mid].last < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}
