/* Words that are said near each other in time (store/search/within.h). The index says which
 * segments have which term. When these are said is looked up, where one term is rare only in its
 * recordings; put in the order of recordings and times they are walked through once: a window
 * that slides. Names are looked up only for results that are shown. If the first recordings are
 * known to be enough, the recordings are read in the order of their names, and no more than
 * needed. */
#include "store/search/within.h"

#include <stdlib.h>
#include <string.h>

#include "store/read/filter.h"
#include "store/search/query.h"
#include "store/search/span.h"
#include "store/search/widen.h"

#define LEFT_OUT WITHIN_TERMS /* the bit of what must not be there */
_Static_assert(LEFT_OUT < MARKS_MOST, "a bit for each term, and one more");

#define FEW 2000    /* recordings, or segments of the rarest term: looked at one by one */
#define SCAN_FROM 3 /* so many times faster a segment is read in a row than by itself */
#define TRIES 16    /* segments looked up by names for each that is wanted, and FEW at least */

struct said { /* a segment that has something */
    int64_t task_id, segment_id, start_ms;
    uint32_t has;
};

struct stretch {
    int64_t task_id;
    size_t number;     /* in the order of recordings and times */
    uint64_t apart_ms; /* its last segment from its first, by their beginnings; one alone: 0 */
    size_t first, n;   /* of `ids`: its segments */
};

struct within { /* owned, but for the first ones */
    struct store *st;
    const struct read_search *search;
    int64_t within_ms;
    size_t terms;
    struct filter_path path;
    struct marks marks;
    int64_t *tasks; /* that are looked at, or listed */
    size_t task_count, task_room;
    struct said *said;
    size_t said_count, said_room;
    uint64_t looked_up; /* segments, one by one */
    struct stretch *found;
    size_t count, capacity;
    int64_t *ids; /* of the segments of what was found */
    size_t id_count, id_room;
};

/* Room for one more of an array's elements; NULL: none. */
static void *grow_array(void *list, size_t count, size_t *capacity, size_t size)
{
    size_t more = *capacity + *capacity / 2 + 64;
    void *ret = count < *capacity ? list : realloc(list, more * size);

    if (ret && count >= *capacity)
        *capacity = more;
    return ret;
}
#define GROW(list, count, capacity, err)                                      \
    do {                                                                      \
        void *grown_ = grow_array(list, count, &(capacity), sizeof(*(list))); \
        if (!grown_)                                                          \
            return err_no_memory(err, "catalog");                             \
        (list) = grown_;                                                      \
    } while (0)

static void within_free(struct within *w)
{
    marks_free(&w->marks);
    free(w->tasks);
    free(w->said);
    free(w->found);
    free(w->ids);
    filter_path_free(&w->path);
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

static size_t find_rarest_term(const struct within *w)
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

/* The recordings of the rarest term, which are few. */
static int find_tasks(struct within *w, struct err *err)
{
    static const char sql[] = "SELECT task_id FROM segment WHERE segment_id = ?";
    uint32_t bit = (uint32_t)1 << find_rarest_term(w);
    int rc = 0;

    for (size_t i = 0; i < w->marks.count && rc == 0; i++) {
        struct db_rows rows;

        if (!(w->marks.list[i].has & bit))
            continue;
        db_rows_again(&rows, w->st, err, db_cached(w->st, sql, err), "i",
                      w->marks.list[i].segment_id);
        if (db_rows_next(&rows))
            rows.rc = add_task(w, sqlite3_column_int64(rows.stmt, 0), err);
        rc = db_rows_end(&rows);
    }
    sort_tasks(w);
    return rc;
}

/* The recordings below the path, if they are few: else none, and *few is false. */
static int find_tasks_below(struct within *w, bool *few, struct err *err)
{
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc;

    buf_printf(&sql, "SELECT task_id FROM task t WHERE t.current AND t.media_id IN (%s) LIMIT %d",
               filter_path_sql(&w->path, 1), FEW + 1);
    db_rows_open(&rows, w->st, err, buf_cstr(&sql), "bbb", FILTER_PATH_VALUES(&w->path));
    buf_free(&sql);
    while (db_rows_next(&rows))
        rows.rc = add_task(w, sqlite3_column_int64(rows.stmt, 0), err);
    rc = db_rows_end(&rows);
    sort_tasks(w);
    *few = w->task_count <= FEW;
    if (!*few)
        w->task_count = 0;
    return rc;
}

/* ------------------------------------------------------------------------------------- when */

static int by_time(const void *a, const void *b)
{
    const struct said *x = a, *y = b;

    if (x->task_id != y->task_id)
        return x->task_id < y->task_id ? -1 : 1;
    if (x->start_ms != y->start_ms)
        return x->start_ms < y->start_ms ? -1 : 1;
    return (x->segment_id > y->segment_id) - (x->segment_id < y->segment_id);
}

/* Rows of segments by their numbers, which are bound later; what the search asks for beside its
 * words holds for each. */
static void open_segments(struct within *w, const char *where, struct db_rows *ret, struct err *err)
{
    struct buf sql = BUF_INIT;

    buf_printf(&sql, "SELECT g.segment_id, g.task_id, g.start_ms FROM segment g %sWHERE %s",
               w->search->speaker ? "LEFT JOIN speaker k ON k.speaker_id = g.speaker_id " : "",
               where);
    if (w->search->speaker)
        buf_printf(&sql, " AND " FILTER_SPEAKER("?3"));
    if (w->search->language)
        buf_printf(&sql, " AND " FILTER_LANGUAGE("?4"));
    buf_printf(&sql, " ORDER BY g.segment_id");
    db_rows_open(ret, w->st, err, buf_cstr(&sql), "");
    buf_free(&sql);
    if (w->search->speaker)
        db_rows_bind(ret, "--t", w->search->speaker);
    if (w->search->language)
        db_rows_bind(ret, "---t", w->search->language);
}

static int add_said(struct within *w, sqlite3_stmt *stmt, uint32_t has, struct err *err)
{
    GROW(w->said, w->said_count, w->said_room, err);
    w->said[w->said_count++] =
        (struct said){sqlite3_column_int64(stmt, 1), sqlite3_column_int64(stmt, 0),
                      sqlite3_column_int64(stmt, 2), has};
    return 0;
}

/* Has it all the terms by itself, and nothing that is left out? */
static bool is_whole(const struct within *w, uint32_t has)
{
    return has == ((uint32_t)1 << w->terms) - 1;
}

/* One that has something. */
static int look_up(struct within *w, const struct db_rows *one, int64_t segment_id, uint32_t has,
                   struct err *err)
{
    struct db_rows rows;

    w->looked_up++;
    db_rows_again(&rows, w->st, err, one->stmt, "i", segment_id);
    if (db_rows_next(&rows))
        rows.rc = add_said(w, rows.stmt, has, err);
    return db_rows_end(&rows);
}

/* Reads one recording's marked segments, by an index that has the numbers alone. */
static int read_task(struct within *w, const struct db_rows *one, int64_t task_id, bool whole,
                     struct err *err)
{
    static const char sql[] = "SELECT segment_id FROM segment WHERE task_id = ?";
    struct db_rows rows;

    db_rows_again(&rows, w->st, err, db_cached(w->st, sql, err), "i", task_id);
    while (db_rows_next(&rows)) {
        int64_t id = sqlite3_column_int64(rows.stmt, 0);
        uint32_t has = marks_of(&w->marks, id);

        if (whole ? is_whole(w, has) : has != 0)
            rows.rc = look_up(w, one, id, has, err);
    }
    return db_rows_end(&rows);
}

/* Reads the chosen recordings. */
static int read_tasks(struct within *w, const struct db_rows *one, struct err *err)
{
    int rc = one->rc;

    for (size_t i = 0; i < w->task_count && rc == 0; i++)
        rc = read_task(w, one, w->tasks[i], false, err);
    return rc;
}

static int read_each(struct within *w, const struct db_rows *one, struct err *err)
{
    int rc = one->rc;

    for (size_t i = 0; i < w->marks.count && rc == 0; i++)
        rc = look_up(w, one, w->marks.list[i].segment_id, w->marks.list[i].has, err);
    return rc;
}

/* All segments in a row, of which those count that have something. */
static int scan_segment_range(struct within *w, struct err *err)
{
    const struct mark *list = w->marks.list, *end = list + w->marks.count;
    struct db_rows rows;

    open_segments(w, "g.segment_id BETWEEN ?1 AND ?2", &rows, err);
    db_rows_bind(&rows, "ii", list->segment_id, end[-1].segment_id);
    while (db_rows_next(&rows)) {
        int64_t id = sqlite3_column_int64(rows.stmt, 0);

        while (list < end && list->segment_id < id)
            list++;
        if (list < end && list->segment_id == id)
            rows.rc = add_said(w, rows.stmt, list->has, err);
    }
    return db_rows_end(&rows);
}

static bool is_dense(const struct marks *m)
{
    uint64_t span = (uint64_t)m->list[m->count - 1].segment_id - (uint64_t)m->list[0].segment_id;

    return span / SCAN_FROM < m->count;
}

static void sort_said(struct within *w)
{
    if (w->said_count > 1)
        qsort(w->said, w->said_count, sizeof(*w->said), by_time);
}

static int read_said(struct within *w, bool few, struct err *err)
{
    struct db_rows one;
    int rc;

    if (!few && is_dense(&w->marks)) {
        rc = scan_segment_range(w, err);
    } else {
        open_segments(w, "g.segment_id = ?1", &one, err);
        rc = few ? read_tasks(w, &one, err) : read_each(w, &one, err);
        db_rows_end(&one);
    }
    if (rc == 0)
        sort_said(w);
    return rc;
}

/* Chooses the recordings to read first. */
static int choose_tasks_to_scan(struct within *w, bool *few, struct err *err)
{
    int rc = 0;

    *few = w->marks.of[find_rarest_term(w)] <= FEW;
    if (*few)
        rc = find_tasks(w, err);
    else if (w->search->path)
        rc = find_tasks_below(w, few, err);
    return rc;
}

/* --------------------------------------------------------------------------------- what is near */

/* The distance of two segments in order. A catalog may hold any numbers. */
static uint64_t compute_distance_ms(const struct said *from, const struct said *to)
{
    return (uint64_t)to->start_ms - (uint64_t)from->start_ms;
}

/* last: of each term the segment that has it, the last one till now. */
static int add_stretch(struct within *w, const size_t *last, size_t from, size_t to,
                       struct err *err)
{
    struct stretch s = {w->said[from].task_id, w->count,
                        compute_distance_ms(&w->said[from], &w->said[to]), w->id_count, 0};

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
    GROW(w->found, w->count, w->capacity, err);
    w->found[w->count++] = s;
    return 0;
}

static size_t find_minimum(const size_t *list, size_t n)
{
    size_t ret = SIZE_MAX;

    for (size_t i = 0; i < n; i++)
        if (list[i] < ret)
            ret = list[i];
    return ret;
}

/* A stretch is added when the window's beginning has moved on: then it contains no shorter one, and
 * no later one with that beginning is shorter. */
static int slide_window(struct within *w, size_t begin, size_t end, struct err *err)
{
    size_t last[WITHIN_TERMS], left_out = 0, begun = 0; /* one more than where */
    uint32_t seen = 0, all = ((uint32_t)1 << w->terms) - 1;
    int rc = 0;

    memset(last, 0, sizeof(last));
    for (size_t i = begin; i < end && rc == 0; i++) {
        size_t from;

        for (size_t k = 0; k < w->terms; k++)
            if (w->said[i].has >> k & 1)
                last[k] = i;
        if (w->said[i].has >> LEFT_OUT & 1)
            left_out = i + 1;
        seen |= w->said[i].has;
        from = find_minimum(last, w->terms);
        if ((seen & all) != all || from + 1 == begun)
            continue;
        begun = from + 1;
        if (left_out <= from &&
            compute_distance_ms(&w->said[from], &w->said[i]) <= (uint64_t)w->within_ms)
            rc = add_stretch(w, last, from, i, err);
    }
    return rc;
}

/* Recording by recording. */
static int slide_all(struct within *w, struct err *err)
{
    size_t end;
    int rc = 0;

    for (size_t at = 0; at < w->said_count && rc == 0; at = end) {
        for (end = at; end < w->said_count && w->said[end].task_id == w->said[at].task_id;)
            end++;
        rc = slide_window(w, at, end, err);
    }
    return rc;
}

/* ------------------------------------------------------------------------------------ their order
 */

/* One segment before several that begin together. */
static int compare_nearness(const struct stretch *x, const struct stretch *y)
{
    if (x->apart_ms != y->apart_ms)
        return x->apart_ms < y->apart_ms ? -1 : 1;
    return (x->n > 1) - (y->n > 1);
}

static int by_nearness(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    int order = compare_nearness(x, y);

    return order ? order : (x->number > y->number) - (x->number < y->number);
}

static int by_number_of(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;

    return (x->number > y->number) - (x->number < y->number);
}

static void sort_found(struct within *w, int (*order)(const void *a, const void *b))
{
    if (w->count > 1)
        qsort(w->found, w->count, sizeof(*w->found), order);
}

/* 0: all. */
static uint64_t wanted_of(const struct read_search *s)
{
    return s->limit && s->limit < UINT64_MAX - s->offset ? s->offset + s->limit : 0;
}

/* Keeps the nearest stretches up to the limit, and those as near as the last of them: names decide
 * between these. If a path is given, it is checked with the names. */
static void drop_beyond_limit(struct within *w)
{
    const struct read_search *s = w->search;
    uint64_t wanted = wanted_of(s);

    if (s->by_time || s->path || wanted == 0 || wanted >= w->count)
        return;
    sort_found(w, by_nearness);
    while (wanted < w->count && compare_nearness(&w->found[wanted], &w->found[wanted - 1]) == 0)
        wanted++;
    w->count = wanted;
    sort_found(w, by_number_of);
}

/* The tasks of what was found in the order of their recordings' names; json: all of them. */
static void open_names(struct within *w, const char *json, struct db_rows *rows, struct err *err)
{
    struct buf sql = BUF_INIT;

    buf_printf(&sql, "SELECT t.task_id FROM json_each(?1) j "
                     "CROSS JOIN task t ON t.task_id = j.value "
                     "CROSS JOIN media m ON m.media_id = t.media_id "
                     "CROSS JOIN place p ON p.place_id = m.place_id WHERE 1");
    if (w->search->path)
        buf_printf(&sql, " AND t.media_id IN (%s)", filter_path_sql(&w->path, 2));
    buf_printf(&sql, " ORDER BY p.path, p.member, t.task_id");
    db_rows_open(rows, w->st, err, json ? buf_cstr(&sql) : NULL, "t", json);
    buf_free(&sql);
    if (w->search->path)
        db_rows_bind(rows, "-bbb", FILTER_PATH_VALUES(&w->path));
}

/* The stretches are sorted by task, and in a task by time. */
static size_t first_of(const struct within *w, int64_t task_id)
{
    size_t low = 0, high = w->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (w->found[mid].task_id < task_id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Numbers what was found by the names of recordings; what the path leaves out is left out. */
static int number_found_stretches(struct within *w, struct err *err)
{
    struct buf json = BUF_INIT;
    struct db_rows rows;
    size_t n = 0, kept = 0;
    int rc;

    for (size_t i = 0; i < w->count; i++) {
        if (i == 0 || w->found[i].task_id != w->found[i - 1].task_id)
            buf_printf(&json, "%s%lld", i > 0 ? "," : "[", (long long)w->found[i].task_id);
        w->found[i].number = SIZE_MAX;
    }
    buf_printf(&json, "%s]", w->count > 0 ? "" : "[");
    open_names(w, buf_cstr(&json), &rows, err);
    while (db_rows_next(&rows)) {
        int64_t task_id = sqlite3_column_int64(rows.stmt, 0);

        for (size_t i = first_of(w, task_id); i < w->count && w->found[i].task_id == task_id; i++)
            w->found[i].number = n++;
    }
    rc = db_rows_end(&rows);
    for (size_t i = 0; i < w->count; i++)
        if (w->found[i].number != SIZE_MAX)
            w->found[kept++] = w->found[i];
    w->count = kept;
    buf_free(&json);
    return rc;
}

/* ---------------------------------------------------------------------------- the first by name */

/* All recordings in the order of names. Read no further than is needed: by the index on paths. */
static void open_all_names(struct within *w, struct db_rows *rows, struct err *err)
{
    struct buf sql = BUF_INIT;

    buf_printf(&sql, "SELECT t.task_id FROM place p CROSS JOIN media m ON m.place_id = p.place_id "
                     "AND m.media_id = +p.media_id CROSS JOIN task t ON t.media_id = m.media_id "
                     "WHERE t.current");
    if (w->search->path)
        buf_printf(&sql, " AND t.media_id IN (%s)", filter_path_sql(&w->path, 1));
    buf_printf(&sql, " ORDER BY p.path, p.member, t.task_id");
    db_rows_open(rows, w->st, err, buf_cstr(&sql), "");
    buf_free(&sql);
    if (w->search->path)
        db_rows_bind(rows, "bbb", FILTER_PATH_VALUES(&w->path));
}

/* Finds what comes first, in its order: until there are as many as are wanted, or no more, which
 * is *done; or until too few of what is looked up are of the speaker or language, and then nothing
 * is found. whole: of segments that have it all by themselves, which are not all there is. */
static int walk_names(struct within *w, bool whole, bool *done, struct err *err)
{
    const uint64_t wanted = wanted_of(w->search);
    struct db_rows one, rows;
    bool more = true;
    int rc;

    open_segments(w, "g.segment_id = ?1", &one, err);
    open_all_names(w, &rows, err);
    if (one.rc != 0)
        rows.rc = one.rc;
    while (w->count < wanted && (w->looked_up < FEW || w->looked_up / TRIES < wanted) &&
           (more = db_rows_next(&rows))) {
        w->said_count = 0;
        rows.rc = read_task(w, &one, sqlite3_column_int64(rows.stmt, 0), whole, err);
        sort_said(w);
        if (rows.rc == 0)
            rows.rc = slide_window(w, 0, w->said_count, err);
    }
    rc = db_rows_end(&rows);
    db_rows_end(&one);
    *done = w->count >= wanted || (!more && !whole);
    if (!*done)
        w->count = w->id_count = w->said_count = 0;
    return rc;
}

/* Are there segments enough that have it all? Nothing is nearer than these. */
static bool has_whole(const struct within *w)
{
    uint64_t n = 0;

    for (size_t i = 0; i < w->marks.count; i++)
        n += is_whole(w, w->marks.list[i].has);
    return n >= wanted_of(w->search);
}

/* Sets *done where no more is to be looked at. few: by gather, and nothing is gained. */
static int find_first(struct within *w, bool few, bool *done, struct err *err)
{
    bool by_time = w->search->by_time;

    *done = false;
    if (few || wanted_of(w->search) == 0 || (!by_time && !has_whole(w)))
        return 0;
    return walk_names(w, !by_time, done, err);
}

/* ------------------------------------------------------------------------------------- the whole
 */

static int emit_found_spans(struct within *w, const struct query *q, read_span_fn fn, void *arg,
                            struct err *err)
{
    const struct read_search *s = w->search;
    struct db_rows texts = {0};
    char *match = NULL;
    uint64_t end = s->limit && s->limit < w->count ? s->offset + s->limit : w->count;
    int rc = query_match_any(q, &match, err);

    sort_found(w, s->by_time ? by_number_of : by_nearness);
    if (rc == 0)
        span_prepare(w->st, match, s, &texts, err);
    for (uint64_t i = s->offset; i < w->count && i < end && rc == 0; i++)
        rc = span_give(&texts, w->ids + w->found[i].first, w->found[i].n, fn, arg, err);
    db_rows_end(&texts);
    free(match);
    return rc;
}

static int find_all(struct within *w, bool few, struct err *err)
{
    int rc = read_said(w, few, err);

    if (rc == 0)
        rc = slide_all(w, err);
    if (rc == 0)
        drop_beyond_limit(w);
    return rc == 0 ? number_found_stretches(w, err) : rc;
}

static int run_within_search(struct within *w, const struct query *q, read_span_fn fn, void *arg,
                             struct err *err)
{
    bool few = false, done = false;
    int rc = filter_path_make(w->search->path, &w->path, err);

    if (rc == 0)
        rc = choose_tasks_to_scan(w, &few, err);
    if (rc == 0)
        rc = find_first(w, few, &done, err);
    if (rc == 0 && !done)
        rc = find_all(w, few, err);
    return rc == 0 ? emit_found_spans(w, q, fn, arg, err) : rc;
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
    bool held = false;
    size_t at;
    int rc = read_query(st, search->text, &q, &at, err);

    if (rc == 0)
        rc = check_terms(q, err);
    if (rc == 0)
        rc = store_hold(st, &held, err);
    if (rc == 0)
        rc = widen(st, q, err);
    if (rc == 0) {
        w.terms = query_terms(q);
        rc = mark_terms(&w, q, err);
    }
    if (rc == 0 && w.marks.of[find_rarest_term(&w)] > 0)
        rc = run_within_search(&w, q, fn, arg, err);
    within_free(&w);
    store_let_go(st, held);
    query_free(q);
    return rc;
}
