#include "store/search/term_marks.h"

#include <stdlib.h>

#include "store/db.h"

/* What there was, and what is added, in one order. */
struct merging {
    const struct marks *was;
    size_t taken; /* of it */
    struct mark *list;
    size_t count, room;
};

static int put(struct merging *g, struct mark mark, struct err *err)
{
    if (g->count == g->room) {
        size_t room = g->room + g->room / 2 + 256;
        struct mark *list = realloc(g->list, room * sizeof(*list));

        if (!list)
            return err_set(err, ERR_NOMEM, "catalog: out of memory");
        g->list = list;
        g->room = room;
    }
    g->list[g->count++] = mark;
    return 0;
}

/* Those that stand before this segment; all with the largest of numbers. */
static int put_before(struct merging *g, int64_t segment_id, struct err *err)
{
    int rc = 0;

    while (rc == 0 && g->taken < g->was->count && g->was->list[g->taken].segment_id < segment_id)
        rc = put(g, g->was->list[g->taken++], err);
    return rc;
}

static int merge(struct merging *g, struct mark mark, struct err *err)
{
    int rc = put_before(g, mark.segment_id, err);

    if (rc == 0 && g->taken < g->was->count && g->was->list[g->taken].segment_id == mark.segment_id)
        mark.has |= g->was->list[g->taken++].has;
    return rc == 0 ? put(g, mark, err) : rc;
}

int marks_add(struct store *st, struct marks *m, const char *match, unsigned bit, struct err *err)
{
    struct merging g = {.was = m};
    struct db_rows rows;
    size_t n = 0;
    int rc;

    db_rows_open(&rows, st, err,
                 "SELECT rowid FROM segment_fts WHERE segment_fts MATCH ?1 ORDER BY rowid", "t",
                 match);
    for (; db_rows_next(&rows); n++)
        rows.rc =
            merge(&g, (struct mark){sqlite3_column_int64(rows.stmt, 0), (uint32_t)1 << bit}, err);
    rc = db_rows_end(&rows);
    if (rc == 0)
        rc = put_before(&g, INT64_MAX, err);
    if (rc != 0) {
        free(g.list);
        return rc;
    }
    free(m->list);
    m->list = g.list;
    m->count = g.count;
    m->of[bit] += n;
    return 0;
}

uint32_t marks_of(const struct marks *m, int64_t segment_id)
{
    size_t low = 0, high = m->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (m->list[mid].segment_id < segment_id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < m->count && m->list[low].segment_id == segment_id ? m->list[low].has : 0;
}

void marks_free(struct marks *m)
{
    free(m->list);
    *m = (struct marks){0};
}
