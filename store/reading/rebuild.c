#include "store/reading/rebuild.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/reading/hunks.h"

int64_t rebuild_time(int64_t start_ms, int64_t end_ms, size_t at, size_t of)
{
    if (at >= of)
        return end_ms;
    return start_ms + (int64_t)((double)(end_ms - start_ms) * ((double)at / (double)of));
}

/* --------------------------------------------------------------------------------------- text */

static bool blank_at(const char *s, size_t *step)
{
    return *s && script_of(s, step) == SCRIPT_BLANK;
}

static size_t skip_blanks(const char *s, size_t at)
{
    for (size_t step; blank_at(s + at, &step); at += step)
        ;
    return at;
}

/* Behind the last character that is no blank. */
static size_t measure_trimmed(const char *s, size_t len)
{
    size_t end = 0;

    for (size_t at = 0, step; at < len; at += step)
        if (script_of(s + at, &step) != SCRIPT_BLANK)
            end = at + step;
    return end;
}

/* heard[at..to) with the parts in it. */
static void put_range(struct buf *out, const char *heard, size_t at, size_t to,
                      const struct rebuild_part *parts, size_t n)
{
    size_t begin = out->len;

    for (size_t i = 0; i < n; i++) {
        buf_put(out, heard + at, parts[i].from - at);
        buf_put(out, parts[i].text, parts[i].len);
        at = parts[i].to;
        if (parts[i].len)
            continue;
        at = skip_blanks(heard, at);
        at = at < to ? at : to;
        if (at == to && out->len > begin && buf_cstr(out)) /* trimmed reads up to a NUL */
            out->len = begin + measure_trimmed((char *)out->data + begin, out->len - begin);
    }
    buf_put(out, heard + at, to - at);
}

void rebuild_text(struct buf *out, const char *heard, const struct rebuild_part *parts, size_t n)
{
    put_range(out, heard, 0, strlen(heard), parts, n);
}

/* --------------------------------------------------------------------------------------- rows */

/* One row: *at of heard moves behind it. */
static bool map_row(const char *heard, const struct rebuild_row *row, size_t *at,
                    struct rebuild_span *ret)
{
    size_t h = skip_blanks(heard, *at), from = h, to = h;

    for (size_t r = 0, step; r < row->len; r += step) {
        if (script_of(row->text + r, &step) == SCRIPT_BLANK)
            continue;
        h = skip_blanks(heard, h);
        if (strncmp(heard + h, row->text + r, step) != 0)
            return false;
        h += step;
        to = h;
    }
    *ret = (struct rebuild_span){from, to};
    *at = h;
    return true;
}

bool rebuild_map(const char *heard, const struct rebuild_row *rows, size_t n,
                 struct rebuild_span *spans)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++)
        if (!map_row(heard, &rows[i], &at, &spans[i]))
            return false;
    return n > 0 && !heard[skip_blanks(heard, at)];
}

static int put_row(struct rebuilt *to, struct rebuild_row row, struct err *err)
{
    if (!list_grow(&to->rows, &to->capacity, to->count, sizeof(*to->rows)))
        return err_no_memory(err, "corrections");
    to->rows[to->count++] = row;
    return 0;
}

/* Keeps a copy: blank and all. */
static const char *store_row_text(struct rebuilt *to, const char *s, size_t len, bool blank)
{
    char *copy;

    if (!list_grow(&to->texts, &to->text_cap, to->text_count, sizeof(*to->texts)))
        return NULL;
    copy = malloc(len + blank + 1);
    if (!copy)
        return NULL;
    memcpy(copy, " ", blank);
    memcpy(copy + blank, s, len);
    copy[blank + len] = 0;
    to->texts[to->text_count++] = copy;
    return copy;
}

static size_t count_characters(const char *s, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}

/* Rows that give way to new words. */
struct group {
    const struct rebuild_row *rows;
    size_t count;
    const char *text; /* the new words */
    bool blank;       /* there is one before them */
};

static int64_t speaker_of(const struct group *g, int64_t start_ms, int64_t end_ms)
{
    int64_t middle = start_ms + (end_ms - start_ms) / 2;

    for (size_t i = 0; i < g->count; i++)
        if (middle < g->rows[i].end_ms)
            return g->rows[i].speaker_id;
    return g->rows[g->count - 1].speaker_id;
}

static int put_new(struct rebuilt *to, const struct group *g, struct err *err)
{
    int64_t start = g->rows[0].start_ms, end = g->rows[g->count - 1].end_ms;
    struct hunk_word *words = NULL;
    size_t n = 0, all = 0, before = 0;
    int rc = hunk_words(g->text, &words, &n, err);

    for (size_t i = 0; rc == 0 && i < n; i++)
        all += count_characters(g->text + words[i].at, words[i].len);
    if (end < start)
        end = start;
    for (size_t i = 0; i < n && rc == 0; i++) {
        bool first = i == 0, apart = !first && words[i].at > words[i - 1].at + words[i - 1].len;
        struct rebuild_row row = {.probability = NAN};

        row.text =
            store_row_text(to, g->text + words[i].at, words[i].len, first ? g->blank : apart);
        row.len = words[i].len + (first ? g->blank : apart);
        row.start_ms = rebuild_time(start, end, before, all);
        before += count_characters(g->text + words[i].at, words[i].len);
        row.end_ms = rebuild_time(start, end, before, all);
        row.speaker_id = speaker_of(g, row.start_ms, row.end_ms);
        rc = row.text ? put_row(to, row, err) : err_no_memory(err, "corrections");
    }
    free(words);
    return rc;
}

struct walk {
    const char *heard;
    const struct rebuild_row *rows;
    const struct rebuild_span *spans;
    size_t row_count;
    const struct rebuild_part *parts;
    size_t part_count;
};

static bool span_overlaps_part(const struct rebuild_span *s, const struct rebuild_part *p)
{
    return s->from < p->to && p->from < s->to;
}

/* From row i and part k on, which meet: *rows and *parts are how many belong together. */
static void group_of(const struct walk *w, size_t i, size_t k, size_t *rows, size_t *parts)
{
    size_t r = i + 1, p = k + 1;

    for (bool more = true; more;) {
        more = false;
        for (; r < w->row_count && span_overlaps_part(&w->spans[r], &w->parts[p - 1]); r++)
            more = true;
        for (; p < w->part_count && span_overlaps_part(&w->spans[r - 1], &w->parts[p]); p++)
            more = true;
    }
    *rows = r - i;
    *parts = p - k;
}

static int put_group(struct rebuilt *to, const struct walk *w, size_t i, size_t rows, size_t k,
                     size_t parts, struct err *err)
{
    size_t from = w->spans[i].from, until = w->spans[i + rows - 1].to;
    struct buf text = BUF_INIT;
    struct group g = {w->rows + i, rows, NULL, w->rows[i].len && w->rows[i].text[0] == ' '};
    int rc;

    from = w->parts[k].from < from ? w->parts[k].from : from;
    until = w->parts[k + parts - 1].to > until ? w->parts[k + parts - 1].to : until;
    put_range(&text, w->heard, from, until, w->parts + k, parts);
    g.text = buf_cstr(&text);
    rc = g.text ? put_new(to, &g, err) : err_no_memory(err, "corrections");
    buf_free(&text);
    return rc;
}

static int put_rows(struct rebuilt *to, const struct walk *w, struct err *err)
{
    size_t k = 0, rows = 0, parts = 0;
    int rc = 0;

    for (size_t i = 0; i < w->row_count && rc == 0; i += rows) {
        while (k < w->part_count && w->parts[k].to <= w->spans[i].from)
            k++;
        rows = 1;
        if (k == w->part_count || !span_overlaps_part(&w->spans[i], &w->parts[k])) {
            rc = put_row(to, w->rows[i], err);
            continue;
        }
        group_of(w, i, k, &rows, &parts);
        rc = put_group(to, w, i, rows, k, parts, err);
        k += parts;
    }
    return rc;
}

static int put_all(struct rebuilt *to, const struct walk *w, struct err *err)
{
    struct buf text = BUF_INIT;
    struct group g = {w->rows, w->row_count, NULL, w->rows[0].len && w->rows[0].text[0] == ' '};
    int rc;

    rebuild_text(&text, w->heard, w->parts, w->part_count);
    g.text = buf_cstr(&text);
    rc = g.text ? put_new(to, &g, err) : err_no_memory(err, "corrections");
    buf_free(&text);
    return rc;
}

int rebuild_rows(const char *heard, const struct rebuild_row *rows, size_t row_count,
                 const struct rebuild_part *parts, size_t n, struct rebuilt *ret, struct err *err)
{
    struct rebuild_span *spans = calloc(row_count + 1, sizeof(*spans));
    struct walk w = {heard, rows, spans, row_count, parts, n};
    struct rebuilt to = {0};
    int rc = 0;

    if (!spans)
        return err_no_memory(err, "corrections");
    if (row_count)
        rc = rebuild_map(heard, rows, row_count, spans) ? put_rows(&to, &w, err)
                                                        : put_all(&to, &w, err);
    free(spans);
    if (rc == 0)
        *ret = to;
    else
        rebuilt_free(&to);
    return rc;
}

void rebuilt_free(struct rebuilt *r)
{
    for (size_t i = 0; i < r->text_count; i++)
        free(r->texts[i]);
    free(r->texts);
    free(r->rows);
    *r = (struct rebuilt){0};
}

/* -------------------------------------------------------------------------------- punctuation */

struct edges { /* bytes before the first and behind the last letter or number */
    size_t lead, trail;
};

static struct edges edges_of(const char *s, size_t len)
{
    struct edges e = {len, len};
    bool any = false;

    for (size_t at = 0, step; at < len; at += step) {
        if (script_is_punctuation(s + at, &step))
            continue;
        if (!any)
            e.lead = at;
        any = true;
        e.trail = at + step < len ? len - at - step : 0;
    }
    return any ? e : (struct edges){len, 0};
}

static bool bytes_equal(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

void rebuild_fit(struct buf *out, const char *there, size_t there_len, const char *said,
                 const char *meant)
{
    size_t s = strlen(said), m = strlen(meant);
    struct edges a = edges_of(there, there_len), b = edges_of(said, s), c = edges_of(meant, m);
    bool lead, trail;

    if (bytes_equal(there, there_len, said, s) || c.lead == m || b.lead == s ||
        a.lead == there_len) {
        buf_put(out, meant, m);
        return;
    }
    lead = bytes_equal(said, b.lead, meant, c.lead);
    trail = bytes_equal(said + s - b.trail, b.trail, meant + m - c.trail, c.trail);
    if (lead)
        buf_put(out, there, a.lead);
    buf_put(out, meant + (lead ? c.lead : 0), m - (lead ? c.lead : 0) - (trail ? c.trail : 0));
    if (trail)
        buf_put(out, there + there_len - a.trail, a.trail);
}
