/* Words that are said near each other in time (store/search/within.h). The index says which
 * segments have which term; of the rarest one's recordings the segments that have any are read, put
 * in the order of their times, and walked through once: a window that slides. */
#include "store/search/within.h"

#include <stdlib.h>
#include <string.h>

#include "store/read/filter.h"
#include "store/search/term_marks.h"
#include "store/search/query.h"
#include "store/search/span.h"

#define LEFT_OUT WITHIN_TERMS /* the bit of what must not be there */
_Static_assert(LEFT_OUT < MARKS_MOST, "a bit for each term, and one more");

struct said { /* a segment that has something */
    int64_t segment_id, start_ms;
    uint32_t has;
};

struct stretch {
    size_t number;     /* in the order of recordings and times */
    uint64_t apart_ms; /* its last segment from its first, by their beginnings */
    size_t first, n;   /* of `ids` */
};

struct within { /* owned, but for the first ones */
    struct store *st;
    const struct read_search *search;
    int64_t within_ms;
    size_t terms;
    struct marks marks;
    int64_t *tasks; /* that have the rarest term */
    size_t task_count, task_room;
    sqlite3_stmt *segments, *segment; /* of a task, their ids; one, if it is asked for */
    struct said *said;                /* of one task */
    size_t said_count, said_room;
    struct stretch *found;
    size_t count, room;
    int64_t *ids; /* of the segments of what was found */
    size_t id_count, id_room;
};

/* Room for one more of an array's elements; NULL: none. */
static void *grow(void *list, size_t count, size_t *room, size_t size)
{
    size_t more = *room + *room / 2 + 64;
    void *ret = count < *room ? list : realloc(list, more * size);

    if (ret && count >= *room)
        *room = more;
    return ret;
}
#define GROW(list, count, room, err)                                  \
    do {                                                              \
        void *grown_ = grow(list, count, &(room), sizeof(*(list)));   \
        if (!grown_)                                                  \
            return err_set(err, ERR_NOMEM, "catalog: out of memory"); \
        (list) = grown_;                                              \
    } while (0)

static void within_free(struct within *w)
{
    marks_free(&w->marks);
    free(w->tasks);
    free(w->said);
    free(w->found);
    free(w->ids);
    sqlite3_finalize(w->segments);
    sqlite3_finalize(w->segment);
}

/* ------------------------------------------------------------------------------- where to look */

static int mark_terms(struct within *w, const struct query *q, struct err *err)
{
    char *match = NULL;
    int rc = 0;

    for (size_t k = 0; k < w->terms && rc == 0 && (k == 0 || w->marks.of[k - 1] > 0); k++) {
        rc = query_match_term(q, k, &match, err);
        if (rc == 0)
            rc = marks_add(w->st, &w->marks, match, (unsigned)k, err);
        free(match);
        match = NULL;
    }
    if (rc == 0 && (rc = query_match_none(q, &match, err)) == 0 && match)
        rc = marks_add(w->st, &w->marks, match, LEFT_OUT, err);
    free(match);
    return rc;
}

static size_t rarest(const struct within *w)
{
    size_t k = 0;

    for (size_t i = 1; i < w->terms; i++)
        if (w->marks.of[i] < w->marks.of[k])
            k = i;
    return k;
}

static int add_task(struct within *w, int64_t task_id, struct err *err)
{
    if (w->task_count > 0 && w->tasks[w->task_count - 1] == task_id)
        return 0;
    GROW(w->tasks, w->task_count, w->task_room, err);
    w->tasks[w->task_count++] = task_id;
    return 0;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void sort_tasks(struct within *w)
{
    size_t kept = 0;

    if (w->task_count > 1)
        qsort(w->tasks, w->task_count, sizeof(*w->tasks), by_number);
    for (size_t i = 0; i < w->task_count; i++)
        if (kept == 0 || w->tasks[kept - 1] != w->tasks[i])
            w->tasks[kept++] = w->tasks[i];
    w->task_count = kept;
}

static int find_tasks(struct within *w, struct err *err)
{
    uint32_t bit = (uint32_t)1 << rarest(w);
    sqlite3_stmt *stmt = db_prepare(w->st, "SELECT task_id FROM segment WHERE segment_id = ?", err);
    int rc = stmt ? 0 : err->code;

    for (size_t i = 0; i < w->marks.count && rc == 0; i++) {
        if (!(w->marks.list[i].has & bit))
            continue;
        sqlite3_reset(stmt);
        rc = filter_bound(db_bind(stmt, "i", w->marks.list[i].segment_id), err);
        if (rc == 0 && (rc = db_next(w->st, stmt, err)) == 1)
            rc = add_task(w, sqlite3_column_int64(stmt, 0), err);
    }
    sqlite3_finalize(stmt);
    sort_tasks(w);
    return rc;
}

/* --------------------------------------------------------------------------------- one of them */

static int by_time(const void *a, const void *b)
{
    const struct said *x = a, *y = b;

    if (x->start_ms != y->start_ms)
        return x->start_ms < y->start_ms ? -1 : 1;
    return (x->segment_id > y->segment_id) - (x->segment_id < y->segment_id);
}

static int add_said(struct within *w, struct said said, struct err *err)
{
    int rc;

    sqlite3_reset(w->segment);
    rc = filter_bound(db_bind(w->segment, "i", said.segment_id), err);
    if (rc == 0)
        rc = db_next(w->st, w->segment, err);
    if (rc != 1)
        return rc;
    said.start_ms = sqlite3_column_int64(w->segment, 0);
    GROW(w->said, w->said_count, w->said_room, err);
    w->said[w->said_count++] = said;
    return 0;
}

static int read_said(struct within *w, int64_t task_id, struct err *err)
{
    int rc;

    w->said_count = 0;
    sqlite3_reset(w->segments);
    rc = filter_bound(db_bind(w->segments, "i", task_id), err);
    while (rc == 0 && (rc = db_next(w->st, w->segments, err)) == 1) {
        int64_t id = sqlite3_column_int64(w->segments, 0);
        uint32_t has = marks_of(&w->marks, id);

        rc = has ? add_said(w, (struct said){id, 0, has}, err) : 0;
    }
    if (rc == 0 && w->said_count > 1)
        qsort(w->said, w->said_count, sizeof(*w->said), by_time);
    return rc;
}

/* Of two in their order. A catalog may hold any numbers. */
static uint64_t apart(const struct said *from, const struct said *to)
{
    return (uint64_t)to->start_ms - (uint64_t)from->start_ms;
}

/* last: of each term the segment that has it, the last one till now. */
static int add_stretch(struct within *w, const size_t *last, size_t from, size_t to,
                       struct err *err)
{
    struct stretch s = {w->count, apart(&w->said[from], &w->said[to]), w->id_count, 0};

    for (size_t at = from; at <= to; at++) {
        bool shown = false;

        for (size_t k = 0; k < w->terms; k++)
            shown |= last[k] == at;
        if (!shown)
            continue;
        GROW(w->ids, w->id_count, w->id_room, err);
        w->ids[w->id_count++] = w->said[at].segment_id;
        s.n++;
    }
    GROW(w->found, w->count, w->room, err);
    w->found[w->count++] = s;
    return 0;
}

static size_t least(const size_t *list, size_t n)
{
    size_t ret = SIZE_MAX;

    for (size_t i = 0; i < n; i++)
        if (list[i] < ret)
            ret = list[i];
    return ret;
}

/* Where the window's beginning has moved on, no shorter one lies within it, and with that beginning
 * none will be shorter. */
static int slide(struct within *w, struct err *err)
{
    size_t last[WITHIN_TERMS], left_out = 0, begun = 0; /* one more than where */
    uint32_t seen = 0, all = ((uint32_t)1 << w->terms) - 1;
    int rc = 0;

    memset(last, 0, sizeof(last));
    for (size_t i = 0; i < w->said_count && rc == 0; i++) {
        size_t from;

        for (size_t k = 0; k < w->terms; k++)
            if (w->said[i].has >> k & 1)
                last[k] = i;
        if (w->said[i].has >> LEFT_OUT & 1)
            left_out = i + 1;
        seen |= w->said[i].has;
        from = least(last, w->terms);
        if ((seen & all) != all || from + 1 == begun)
            continue;
        begun = from + 1;
        if (left_out <= from && apart(&w->said[from], &w->said[i]) <= (uint64_t)w->within_ms)
            rc = add_stretch(w, last, from, i, err);
    }
    return rc;
}

/* ------------------------------------------------------------------------------------- the whole
 */

static int prepare(struct within *w, struct err *err)
{
    struct buf sql = BUF_INIT;
    int rc;

    w->segments = db_prepare(w->st, "SELECT segment_id FROM segment WHERE task_id = ?1", err);
    if (!w->segments)
        return err->code;
    buf_printf(&sql, "SELECT g.start_ms FROM segment g "
                     "LEFT JOIN speaker k ON k.speaker_id = g.speaker_id WHERE g.segment_id = ?1");
    if (w->search->speaker)
        buf_printf(&sql, " AND " FILTER_SPEAKER("?2"));
    if (w->search->language)
        buf_printf(&sql, " AND " FILTER_LANGUAGE("?3"));
    rc = filter_prepare(w->st, &sql, &w->segment, err);
    if (rc == 0 && w->search->speaker)
        rc = filter_bound(db_bind(w->segment, "-t", w->search->speaker), err);
    if (rc == 0 && w->search->language)
        rc = filter_bound(db_bind(w->segment, "--t", w->search->language), err);
    buf_free(&sql);
    return rc;
}

/* The tasks in the order of their recordings' names; json: all of them. */
static int list_tasks(struct within *w, const char *json, struct filter_path *path,
                      sqlite3_stmt **ret, struct err *err)
{
    struct buf sql = BUF_INIT;
    int rc;

    buf_printf(&sql, "SELECT t.task_id FROM json_each(?1) j "
                     "CROSS JOIN task t ON t.task_id = j.value "
                     "CROSS JOIN media m ON m.media_id = t.media_id "
                     "CROSS JOIN place p ON p.place_id = m.place_id WHERE 1");
    if (w->search->path)
        buf_printf(&sql, " AND t.media_id IN (%s)", filter_path_sql(path, 2));
    buf_printf(&sql, " ORDER BY p.path, p.member, t.task_id");
    rc = filter_prepare(w->st, &sql, ret, err);
    if (rc == 0)
        rc = filter_bound(db_bind(*ret, "t", json), err);
    if (rc == 0 && w->search->path)
        rc = filter_bound(db_bind(*ret, "-bbb", FILTER_PATH_VALUES(path)), err);
    buf_free(&sql);
    return rc;
}

static int walk_tasks(struct within *w, struct err *err)
{
    struct filter_path path = {0};
    struct buf json = BUF_INIT;
    sqlite3_stmt *stmt = NULL;
    int rc = filter_path_make(w->search->path, &path, err);

    for (size_t i = 0; i < w->task_count; i++)
        buf_printf(&json, "%s%lld", i > 0 ? "," : "[", (long long)w->tasks[i]);
    buf_printf(&json, "%s]", w->task_count > 0 ? "" : "[");
    if (rc == 0 && !buf_cstr(&json))
        rc = err_set(err, ERR_NOMEM, "catalog: out of memory");
    if (rc == 0)
        rc = list_tasks(w, buf_cstr(&json), &path, &stmt, err);
    while (rc == 0 && (rc = db_next(w->st, stmt, err)) == 1) {
        rc = read_said(w, sqlite3_column_int64(stmt, 0), err);
        if (rc == 0)
            rc = slide(w, err);
    }
    sqlite3_finalize(stmt);
    buf_free(&json);
    filter_path_free(&path);
    return rc;
}

static int by_nearness(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;

    if (x->apart_ms != y->apart_ms)
        return x->apart_ms < y->apart_ms ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static int give(struct within *w, const struct query *q, read_span_fn fn, void *arg,
                struct err *err)
{
    const struct read_search *s = w->search;
    sqlite3_stmt *stmt = NULL;
    char *match = NULL;
    uint64_t end = s->limit && s->limit < w->count ? s->offset + s->limit : w->count;
    int rc = query_match_any(q, &match, err);

    if (!s->by_time && w->count > 1)
        qsort(w->found, w->count, sizeof(*w->found), by_nearness);
    if (rc == 0)
        rc = span_prepare(w->st, match, s, &stmt, err);
    for (uint64_t i = s->offset; i < w->count && i < end && rc == 0; i++)
        rc = span_give(w->st, stmt, w->ids + w->found[i].first, w->found[i].n, fn, arg, err);
    sqlite3_finalize(stmt);
    free(match);
    return rc;
}

static int check_terms(const struct query *q, struct err *err)
{
    size_t n = query_terms(q);

    if (n < 2)
        return err_set(err, ERR_USAGE,
                       "within a time of each other there must be two things at least: words, "
                       "phrases or groups beside one another or with AND between");
    if (n > WITHIN_TERMS)
        return err_set(err, ERR_USAGE,
                       "%zu things within a time of each other are too many; %d may be", n,
                       WITHIN_TERMS);
    return 0;
}

int read_within(struct store *st, const struct read_search *search, int64_t within_ms,
                read_span_fn fn, void *arg, struct err *err)
{
    struct within w = {.st = st, .search = search, .within_ms = within_ms};
    struct query *q = NULL;
    size_t at;
    int rc = read_query(st, search->text, &q, &at, err);

    if (rc == 0)
        rc = check_terms(q, err);
    if (rc == 0) {
        w.terms = query_terms(q);
        rc = mark_terms(&w, q, err);
    }
    if (rc == 0 && w.marks.of[rarest(&w)] > 0) {
        rc = prepare(&w, err);
        if (rc == 0)
            rc = find_tasks(&w, err);
        if (rc == 0)
            rc = walk_tasks(&w, err);
        if (rc == 0)
            rc = give(&w, q, fn, arg, err);
    }
    within_free(&w);
    query_free(q);
    return rc;
}
