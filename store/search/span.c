#include "store/search/span.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/read/find.h"
#include "store/read/text_rows.h"
#include "store/store.h"

#define BETWEEN " ... "

struct span {             /* owned */
    struct read_span row; /* numbers */
    char *path, *member, *language;
    char *speakers[FIND_SPEAKERS_MOST];
    uint64_t speech_ms[FIND_SPEAKERS_MOST];
    struct buf text, snippet;
    struct err err;
};

static void span_free(struct span *s)
{
    free(s->path);
    free(s->member);
    free(s->language);
    for (size_t i = 0; i < s->row.speaker_count; i++)
        free(s->speakers[i]);
    buf_free(&s->text);
    buf_free(&s->snippet);
}

void span_prepare(struct store *st, const char *match, const struct read_search *search,
                  struct db_rows *ret, struct err *err)
{
    struct buf sql = BUF_INIT;

    text_rows_select(&sql, "highlight(segment_fts, 0, ?2, ?3)",
                     "segment_fts CROSS JOIN segment g ON g.segment_id = segment_fts.rowid",
                     "segment_fts MATCH ?1 AND segment_fts.rowid = ?4");
    db_rows_open(ret, st, err, buf_cstr(&sql), "ttt", match, READ_MARK_BEGIN(search),
                 READ_MARK_END(search));
    buf_free(&sql);
}

/* Behind the first ones they are not told apart: of a span few are shown. */
static bool add_speaker(struct span *s, const char *name, uint64_t ms)
{
    size_t i = 0;

    if (!*name)
        return true;
    while (i < s->row.speaker_count && strcmp(s->speakers[i], name) != 0)
        i++;
    if (i == FIND_SPEAKERS_MOST)
        return true;
    if (i == s->row.speaker_count) {
        s->speakers[i] = strdup(name);
        if (!s->speakers[i])
            return false;
        s->row.speaker_count++;
    }
    s->speech_ms[i] += ms;
    return true;
}

static int on_segment(void *arg, const struct read_segment *g)
{
    struct span *s = arg;

    if (s->row.segments == 0) {
        s->row.media_id = g->media_id;
        s->row.start_ms = g->start_ms;
        s->path = strdup(g->path);
        s->member = strdup(g->member);
        s->language = strdup(g->language);
        if (!s->path || !s->member || !s->language)
            return err_no_memory(&s->err, "catalog");
    }
    buf_printf(&s->text, "%s%s", s->row.segments > 0 ? BETWEEN : "", g->text);
    buf_printf(&s->snippet, "%s%s", s->row.segments > 0 ? BETWEEN : "",
               g->snippet ? g->snippet : g->text);
    if (s->row.end_ms < g->end_ms)
        s->row.end_ms = g->end_ms;
    s->row.segments++;
    return add_speaker(s, g->speaker, (uint64_t)g->end_ms - (uint64_t)g->start_ms)
               ? 0
               : err_no_memory(&s->err, "catalog");
}

static int hand_out(struct span *s, read_span_fn fn, void *arg, struct err *err)
{
    size_t most = 0;

    for (size_t i = 1; i < s->row.speaker_count; i++)
        if (s->speech_ms[i] > s->speech_ms[most])
            most = i;
    s->row.path = s->path;
    s->row.member = s->member;
    s->row.language = s->language;
    s->row.speaker = s->row.speaker_count > 0 ? s->speakers[most] : "";
    s->row.speakers = (const char *const *)s->speakers;
    s->row.text = buf_cstr(&s->text);
    s->row.snippet = buf_cstr(&s->snippet);
    if (!s->row.text || !s->row.snippet)
        return err_no_memory(err, "catalog");
    return fn(arg, &s->row);
}

int span_give(const struct db_rows *prepared, const int64_t *segment_ids, size_t n, read_span_fn fn,
              void *arg, struct err *err)
{
    struct span s = {0};
    int rc = prepared->rc;

    for (size_t i = 0; i < n && rc == 0; i++) {
        struct db_rows rows;

        db_rows_again(&rows, prepared->st, err, prepared->stmt, "---i", segment_ids[i]);
        rc = text_rows_give(&rows, on_segment, &s);
    }
    if (s.err.code != 0)
        *err = s.err;
    if (rc == 0 && s.row.segments > 0)
        rc = hand_out(&s, fn, arg, err);
    span_free(&s);
    return rc;
}

/* ---- which of several things the segments of the catalog have */

/* Merges the old marks and the added ones in one order. */
struct merging {
    const struct marks *was;
    size_t taken; /* of it */
    struct mark *list;
    size_t count, capacity;
};

static int append_mark(struct merging *g, struct mark mark, struct err *err)
{
    if (g->count == g->capacity) {
        size_t capacity = g->capacity + g->capacity / 2 + 256;
        struct mark *list = realloc(g->list, capacity * sizeof(*list));

        if (!list)
            return err_no_memory(err, "catalog");
        g->list = list;
        g->capacity = capacity;
    }
    g->list[g->count++] = mark;
    return 0;
}

/* Those that stand before this segment; all with the largest of numbers. */
static int put_before(struct merging *g, int64_t segment_id, struct err *err)
{
    int rc = 0;

    while (rc == 0 && g->taken < g->was->count && g->was->list[g->taken].segment_id < segment_id)
        rc = append_mark(g, g->was->list[g->taken++], err);
    return rc;
}

static int merge_mark(struct merging *g, struct mark mark, struct err *err)
{
    int rc = put_before(g, mark.segment_id, err);

    if (rc == 0 && g->taken < g->was->count && g->was->list[g->taken].segment_id == mark.segment_id)
        mark.has |= g->was->list[g->taken++].has;
    return rc == 0 ? append_mark(g, mark, err) : rc;
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
        rows.rc = merge_mark(
            &g, (struct mark){sqlite3_column_int64(rows.stmt, 0), (uint32_t)1 << bit}, err);
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
