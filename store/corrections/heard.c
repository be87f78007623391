#include "store/corrections/heard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/corrections/script.h"

/* Beyond what a recording can have, and far from where sums of two overflow. */
#define MS_MOST ((int64_t)1 << 52)

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "corrections: out of memory");
}

static int64_t time_of(sqlite3_stmt *stmt, int column)
{
    int64_t ms = sqlite3_column_int64(stmt, column);

    return ms < 0 ? 0 : ms > MS_MOST ? MS_MOST : ms;
}

/* ----------------------------------------------------------------------------------- the rows */

int heard_rows(struct store *st, const char *sql, int64_t segment_id, struct rebuilt *ret,
               struct err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = db_first(st, &s, err, sql, "i", segment_id);

    while (rc == 1) {
        struct rebuild_row row = {.start_ms = time_of(s, 0),
                                  .end_ms = time_of(s, 1),
                                  .text = db_text(s, 2),
                                  .probability = sqlite3_column_type(s, 3) == SQLITE_NULL
                                                     ? NAN
                                                     : sqlite3_column_double(s, 3),
                                  .speaker_id = sqlite3_column_int64(s, 4)};

        row.len = strlen(row.text);
        row.end_ms = row.end_ms < row.start_ms ? row.start_ms : row.end_ms;
        rc = rebuilt_add(ret, &row, err);
        if (rc < 0)
            sqlite3_reset(s);
        else
            rc = db_next(st, s, err);
    }
    return rc;
}

static int current_of(struct store *st, int64_t media_id, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT t.task_id FROM task t JOIN stage s ON s.stage_id = t.stage_id "
                      "WHERE t.media_id = ? AND t.current AND s." DB_TRANSCRIBES " LIMIT 1",
                      "i", media_id);

    if (rc != 1)
        return rc;
    *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 0;
}

static int add_segment(struct heard *h, sqlite3_stmt *s, struct err *err)
{
    bool corrected = sqlite3_column_type(s, 4) != SQLITE_NULL;
    struct heard_segment g = {.segment_id = sqlite3_column_int64(s, 0),
                              .start_ms = time_of(s, 1),
                              .end_ms = time_of(s, 2)};

    if (!list_grow(&h->segments, &h->cap, h->count, sizeof(*h->segments)))
        return no_memory(err);
    g.end_ms = g.end_ms < g.start_ms ? g.start_ms : g.end_ms;
    g.heard = db_dup(s, corrected ? 4 : 3);
    g.text = corrected ? db_dup(s, 3) : NULL;
    h->segments[h->count++] = g;
    return g.heard && (g.text || !corrected) ? 0 : no_memory(err);
}

static int load_segments(struct store *st, struct heard *h, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT segment_id, start_ms, end_ms, text, heard FROM segment "
                 "WHERE task_id = ? ORDER BY seq, idx",
                 "i", h->task_id);
    while (db_rows_next(&rows)) {
        struct heard_segment *g;

        rows.rc = add_segment(h, rows.stmt, err);
        if (rows.rc < 0)
            break;
        g = &h->segments[h->count - 1];
        rows.rc = hunk_words(g->heard, &g->words, &g->word_count, err);
        g->first = h->word_count;
        h->word_count += g->word_count;
    }
    return db_rows_end(&rows);
}

/* ---------------------------------------------------------------------------------- the times */

static int64_t time_at(const struct rebuild_row *row, const struct rebuild_span *span, size_t at)
{
    return rebuild_time(row->start_ms, row->end_ms, at - span->from, span->to - span->from);
}

/* Of words by the rows that they are of, both in order. A word is within rows: they are all of what
 * was heard. */
static void time_words(const struct heard_segment *g, const struct rebuild_row *rows,
                       const struct rebuild_span *spans, size_t n, struct match_word *to)
{
    for (size_t i = 0, r = 0; i < g->word_count; i++) {
        size_t from = g->words[i].at, until = from + g->words[i].len, last;

        while (r + 1 < n && spans[r].to <= from)
            r++;
        for (last = r; last + 1 < n && spans[last].to < until;)
            last++;
        to[i] = (struct match_word){g->heard + from, g->words[i].len,
                                    time_at(&rows[r], &spans[r], from),
                                    time_at(&rows[last], &spans[last], until)};
        if (to[i].end_ms < to[i].start_ms)
            to[i].end_ms = to[i].start_ms;
    }
}

static int time_segment(const struct heard_segment *g, struct match_word *to, struct err *err)
{
    size_t n = g->rows.count;
    struct rebuild_span *spans = calloc(n + 1, sizeof(*spans));
    const struct rebuild_row whole = {.start_ms = g->start_ms, .end_ms = g->end_ms};
    const struct rebuild_span all = {0, strlen(g->heard)};

    if (!spans)
        return no_memory(err);
    if (n && rebuild_map(g->heard, g->rows.rows, n, spans))
        time_words(g, g->rows.rows, spans, n, to);
    else
        time_words(g, &whole, &all, 1, to);
    free(spans);
    return 0;
}

static int put_words(struct heard *h, struct err *err)
{
    int rc = 0;

    h->words = calloc(h->word_count + 1, sizeof(*h->words));
    if (!h->words)
        return no_memory(err);
    for (size_t i = 0; i < h->count && rc == 0; i++)
        rc = time_segment(&h->segments[i], h->words + h->segments[i].first, err);
    return rc;
}

int heard_time(struct store *st, struct heard *h, struct heard_segment *g, struct err *err)
{
    int rc;

    if (g->timed)
        return 0;
    rc = heard_rows(st, g->text ? HEARD_ROWS("word_heard") : HEARD_ROWS("word"), g->segment_id,
                    &g->rows, err);
    if (rc == 0)
        rc = time_segment(g, h->words + g->first, err);
    g->timed = rc == 0;
    return rc;
}

int heard_time_all(struct store *st, struct heard *h, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < h->count && rc == 0; i++)
        rc = heard_time(st, h, &h->segments[i], err);
    return rc;
}

/* ---------------------------------------------------------------------------------- finding */

struct numbered {
    int64_t id;
    size_t at;
};

static int by_id(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static int sort_ids(struct heard *h, struct err *err)
{
    struct numbered *list = calloc(h->count + 1, sizeof(*list));

    h->by_id = calloc(h->count + 1, sizeof(*h->by_id));
    for (size_t i = 0; list && i < h->count; i++)
        list[i] = (struct numbered){h->segments[i].segment_id, i};
    if (list)
        qsort(list, h->count, sizeof(*list), by_id);
    for (size_t i = 0; list && h->by_id && i < h->count; i++)
        h->by_id[i] = list[i].at;
    free(list);
    return list && h->by_id ? 0 : no_memory(err);
}

int heard_load(struct store *st, int64_t media_id, struct heard *ret, struct err *err)
{
    struct heard h = {.media_id = media_id};
    int rc = current_of(st, media_id, &h.task_id, err);

    if (rc == 0 && h.task_id)
        rc = load_segments(st, &h, err);
    if (rc == 0)
        rc = put_words(&h, err);
    if (rc == 0)
        rc = sort_ids(&h, err);
    if (rc == 0)
        *ret = h;
    else
        heard_free(&h);
    return rc;
}

void heard_free(struct heard *h)
{
    for (size_t i = 0; i < h->count; i++) {
        free(h->segments[i].heard);
        free(h->segments[i].text);
        free(h->segments[i].words);
        rebuilt_free(&h->segments[i].rows);
    }
    free(h->segments);
    free(h->words);
    free(h->by_id);
    *h = (struct heard){0};
}

struct heard_segment *heard_segment_of(const struct heard *h, int64_t segment_id)
{
    size_t low = 0, high = h->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct heard_segment *g = &h->segments[h->by_id[middle]];

        if (g->segment_id == segment_id)
            return g;
        if (g->segment_id < segment_id)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

struct heard_segment *heard_segment_at(const struct heard *h, size_t word)
{
    size_t low = 0, high = h->count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (h->segments[middle].first <= word)
            low = middle;
        else
            high = middle;
    }
    return &h->segments[low];
}

void heard_put(const struct heard *h, struct match_place at, struct buf *out)
{
    for (size_t i = at.word; i < at.word + at.words; i++) {
        const struct match_word *w = &h->words[i], *last = i > at.word ? w - 1 : NULL;

        if (last && w->text != last->text + last->len)
            buf_put_u8(out, ' ');
        buf_put(out, w->text, w->len);
    }
}
