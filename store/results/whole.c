#include "store/results/whole.h"

#include <math.h>
#include <stdlib.h>

#include "base/list.h"
#include "store/results/seams.h"

static int no_memory(struct err *err) { return err_set(err, ERR_NOMEM, "catalog: out of memory"); }

/* ------------------------------------------------------------------------------- as they are */

static double number(sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? NAN
                                                            : sqlite3_column_double(stmt, column);
}

static int add_row(struct whole_rows *s, sqlite3_stmt *stmt, struct err *err)
{
    bool whole = sqlite3_column_type(stmt, 7) != SQLITE_NULL;
    struct whole_row *r;

    if (!list_grow(&s->list, &s->cap, s->count, sizeof(*s->list)))
        return no_memory(err);
    r = &s->list[s->count++];
    *r = (struct whole_row){.segment_id = sqlite3_column_int64(stmt, 0),
                            .start_ms = sqlite3_column_int64(stmt, 1),
                            .end_ms = sqlite3_column_int64(stmt, 2),
                            .part = sqlite3_column_int64(stmt, 3),
                            .text = db_dup(stmt, 4),
                            .avg_logprob = number(stmt, 5),
                            .corrected = sqlite3_column_int(stmt, 6) != 0,
                            .whole = whole ? db_dup(stmt, 7) : NULL,
                            .whole_end_ms = sqlite3_column_int64(stmt, 8),
                            .whole_logprob = number(stmt, 9),
                            .speaker = sqlite3_column_int64(stmt, 10)};
    return r->text && (r->whole || !whole) ? 0 : no_memory(err);
}

int whole_rows_read(struct store *st, int64_t task_id, uint32_t seq, int64_t diarization,
                    struct whole_rows *ret, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT g.segment_id, g.start_ms, g.end_ms, g.part, ifnull(g.heard, g.text), "
                 "g.avg_logprob, g.heard IS NOT NULL, p.text, p.end_ms, p.avg_logprob, "
                 "ifnull(" WHOLE_SOURCE_SPEAKER "?3), 0) "
                 "FROM segment g LEFT JOIN parted p ON p.segment_id = g.segment_id "
                 "WHERE g.task_id = ?1 AND g.seq = ?2 ORDER BY g.idx",
                 "iii", task_id, seq, diarization);
    while (db_rows_next(&rows))
        rows.rc = add_row(ret, rows.stmt, err);
    return db_rows_end(&rows);
}

void whole_rows_free(struct whole_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->list[i].text);
        free(rows->list[i].whole);
    }
    free(rows->list);
}

/* The segment that begins with a row. */
static void whole_of(struct whole_rows *s, size_t at, struct whole *w)
{
    struct whole_row *r = &s->list[at];
    bool parted = r->whole && r->part == 0;

    *w = (struct whole){.text = parted ? r->whole : r->text,
                        .start_ms = r->start_ms,
                        .end_ms = parted ? r->whole_end_ms : r->end_ms,
                        .avg_logprob = parted ? r->whole_logprob : r->avg_logprob,
                        .rows = r,
                        .row_count = 1};
    while (parted && at + w->row_count < s->count && r[w->row_count].part == (int64_t)w->row_count)
        w->row_count++;
}

static int read_words(struct store *st, struct whole *w, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < w->row_count && rc == 0; i++) {
        size_t before = w->timed.count;

        rc = heard_rows(st, w->rows[i].corrected ? HEARD_ROWS("word_heard") : HEARD_ROWS("word"),
                        w->rows[i].segment_id, &w->timed, err);
        w->rows[i].words = w->timed.count - before;
    }
    if (rc == 0)
        rc = hunk_words(w->text, &w->words, &w->word_count, err);
    w->spans = calloc(w->timed.count + 1, sizeof(*w->spans));
    if (rc == 0 && !w->spans)
        rc = no_memory(err);
    if (rc == 0)
        w->mapped = rebuild_map(w->text, w->timed.rows, w->timed.count, w->spans);
    return rc;
}

int whole_read(struct store *st, struct whole_rows *rows, size_t *at, struct whole *ret,
               struct err *err)
{
    whole_of(rows, *at, ret);
    *at += ret->row_count;
    return read_words(st, ret, err);
}

void whole_free(struct whole *w)
{
    rebuilt_free(&w->timed);
    free(w->spans);
    free(w->words);
    free(w->parts);
}

size_t whole_word_at(const struct whole *w, size_t row)
{
    size_t word = 0;

    if (row >= w->timed.count)
        return w->word_count;
    while (word < w->word_count && w->words[word].at < w->spans[row].from)
        word++;
    return word;
}

/* ----------------------------------------------------------------------------- as they are to be
 */

/* Where a segment may be parted: words that begin with a row. *n of them; ret: [word_count]. */
static void find_places(const struct whole *w, struct whole_part *ret, size_t *n)
{
    *n = 0;
    for (size_t word = 0, row = 0; word < w->word_count; word++) {
        size_t at = w->words[word].at;

        while (row < w->timed.count && w->spans[row].from < at)
            row++;
        if (row < w->timed.count && w->spans[row].from == at)
            ret[(*n)++] = (struct whole_part){.row = row, .word = word, .at = at};
    }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* NAN: not every word has one. */
static double mean_log(const struct rebuild_row *rows, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += log(rows[i].probability > 1e-6 ? rows[i].probability
                   : rows[i].probability >= 0 ? 1e-6
                                              : NAN);
    return sum / (double)n;
}

/* From rows to times and what is thought of the text: a part is as much surer than the segment as
 * its words are than the segment's. */
static void measure(struct whole *w)
{
    const struct rebuild_row *rows = w->timed.rows;
    double all = mean_log(rows, w->timed.count);

    w->parts[0].start_ms = w->start_ms;
    for (size_t i = 1; i < w->count; i++)
        w->parts[i].start_ms =
            most(w->parts[i - 1].start_ms, least(rows[w->parts[i].row].start_ms, w->end_ms));
    for (size_t i = 0; i < w->count; i++) {
        struct whole_part *p = &w->parts[i];
        bool last = i + 1 == w->count;
        size_t end = last ? w->timed.count : p[1].row;
        double more = mean_log(&rows[p->row], end - p->row) - all;

        p->end_ms =
            last ? w->end_ms : most(p->start_ms, least(rows[end - 1].end_ms, p[1].start_ms));
        p->avg_logprob =
            isnan(more) || isnan(w->avg_logprob) ? w->avg_logprob : fmin(0, w->avg_logprob + more);
    }
}

static void part_words(struct whole *w, struct overlaps *turns, const struct whole_part *places,
                       size_t n, struct seams_word *said, struct seams_part *found)
{
    for (size_t i = 0; i < n; i++) {
        size_t last = i + 1 < n ? places[i + 1].row - 1 : w->timed.count - 1;

        said[i].start_ms = w->timed.rows[places[i].row].start_ms;
        said[i].end_ms = w->timed.rows[last].end_ms;
        said[i].speaker = overlap_speaker(turns, said[i].start_ms, said[i].end_ms, 0);
    }
    n = seams_find(said, n, turns, found);
    if (n < 2)
        return;
    for (size_t i = 0; i < n; i++) {
        w->parts[i] = places[found[i].first];
        w->parts[i].speaker = found[i].speaker;
    }
    w->count = n;
    measure(w);
}

int whole_part(struct whole *w, struct overlaps *turns, struct err *err)
{
    struct whole_part *places = calloc(w->word_count + 1, sizeof(*places));
    struct seams_word *said = calloc(w->word_count + 1, sizeof(*said));
    struct seams_part *found = calloc(w->word_count + 1, sizeof(*found));
    size_t n = 0;
    bool room;

    w->parts = calloc(w->word_count + 1, sizeof(*w->parts));
    room = places && said && found && w->parts;
    if (room) {
        w->count = 1;
        w->parts[0] = (struct whole_part){
            .start_ms = w->start_ms, .end_ms = w->end_ms, .avg_logprob = w->avg_logprob};
        if (w->rows[0].speaker)
            w->parts[0].speaker = w->rows[0].speaker;
        else if (turns)
            w->parts[0].speaker = overlap_speaker(turns, w->start_ms, w->end_ms, 0);
        if (turns && w->mapped && !w->rows[0].speaker)
            find_places(w, places, &n);
        if (n > 1 && places[0].row == 0)
            part_words(w, turns, places, n, said, found);
    }
    free(places);
    free(said);
    free(found);
    return room ? 0 : no_memory(err);
}

/* Of the rows of words of a part. */
static size_t end_of(const struct whole *w, size_t part)
{
    return part + 1 < w->count ? w->parts[part + 1].row : w->timed.count;
}

bool whole_stands(const struct whole *w)
{
    bool same = w->count == w->row_count && (w->count == 1) == !w->rows[0].whole;

    for (size_t i = 0; same && i < w->count; i++)
        same = w->rows[i].part == (int64_t)i && w->rows[i].words == end_of(w, i) - w->parts[i].row;
    return same;
}
