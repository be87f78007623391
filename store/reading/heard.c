#include "store/reading/heard.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

/* -------------------------------------------------------------------------------- the segments */

static int add_part(struct heard *h, uint32_t seq, const struct result_segment *s, int64_t part,
                    struct machine_part *machine, struct err *err)
{
    const struct heard_segment *last = h->count ? &h->segments[h->count - 1] : NULL;
    int64_t idx = last && last->seq == seq ? last->idx + 1 : 0;

    if (!list_grow(&h->segments, &h->capacity, h->count, sizeof(*h->segments)))
        return err_no_memory(err, "catalog");
    h->segments[h->count++] =
        (struct heard_segment){.seq = seq, .idx = idx, .part = part, .of = s, .machine = *machine};
    *machine = (struct machine_part){0};
    return 0;
}

static int add_segment(struct heard *h, uint32_t seq, const struct result_segment *s,
                       const struct machine_speakers *by, struct err *err)
{
    struct machine_part *parts = NULL;
    size_t n = 0;
    int rc = machine_parts(s, by, &parts, &n, err);

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = add_part(h, seq, s, (int64_t)i, &parts[i], err);
    for (size_t i = 0; i < n; i++)
        machine_part_free(&parts[i]);
    free(parts);
    return rc;
}

int heard_add(struct heard *h, uint32_t seq, const struct result_segment *segments, size_t n,
              const struct machine_speakers *by, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        if (!segments[i].dropped)
            rc = add_segment(h, seq, &segments[i], by, err);
    return rc;
}

/* ---------------------------------------------------------------------------------- the times */

static int64_t time_at(const struct rebuild_row *row, const struct rebuild_span *span, size_t at)
{
    return rebuild_time(row->start_ms, row->end_ms, at - span->from, span->to - span->from);
}

/* Sets the words' times from their rows, both in order. A word is within rows: they are all of what
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
        to[i] = (struct match_word){g->machine.text + from, g->words[i].len,
                                    time_at(&rows[r], &spans[r], from),
                                    time_at(&rows[last], &spans[last], until)};
        if (to[i].end_ms < to[i].start_ms)
            to[i].end_ms = to[i].start_ms;
    }
}

static int time_segment(const struct heard_segment *g, struct match_word *to, struct err *err)
{
    const struct rebuilt *rows = &g->machine.rows;
    struct rebuild_span *spans = calloc(rows->count + 1, sizeof(*spans));
    const struct rebuild_row whole = {.start_ms = g->machine.start_ms, .end_ms = g->machine.end_ms};
    const struct rebuild_span all = {0, strlen(g->machine.text)};

    if (!spans)
        return err_no_memory(err, "catalog");
    if (rows->count && rebuild_map(g->machine.text, rows->rows, rows->count, spans))
        time_words(g, rows->rows, spans, rows->count, to);
    else
        time_words(g, &whole, &all, 1, to);
    free(spans);
    return 0;
}

int heard_words(struct heard *h, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < h->count && rc == 0; i++) {
        struct heard_segment *g = &h->segments[i];

        rc = hunk_words(g->machine.text, &g->words, &g->word_count, err);
        g->first = h->word_count;
        h->word_count += rc == 0 ? g->word_count : 0;
    }
    h->words = calloc(h->word_count + 1, sizeof(*h->words));
    if (rc == 0 && !h->words)
        rc = err_no_memory(err, "catalog");
    for (size_t i = 0; i < h->count && rc == 0; i++)
        rc = time_segment(&h->segments[i], h->words + h->segments[i].first, err);
    return rc;
}

/* ----------------------------------------------------------------------------------- the facts */

static int add_turn(struct overlap_turn **list, size_t *count, size_t *capacity, sqlite3_stmt *s,
                    struct err *err)
{
    if (!list_grow(list, capacity, *count, sizeof(**list)))
        return err_no_memory(err, "catalog");
    (*list)[(*count)++] = (struct overlap_turn){
        sqlite3_column_int64(s, 1), sqlite3_column_int64(s, 2), sqlite3_column_int64(s, 0)};
    return 0;
}

static int load_turns(struct store *st, int64_t task_id, struct overlaps **ret, struct err *err)
{
    struct overlap_turn *list = NULL;
    size_t count = 0, capacity = 0;
    struct db_rows rows;
    int rc;

    db_rows_open(&rows, st, err, "SELECT speaker_id, start_ms, end_ms FROM turn WHERE task_id = ?",
                 "i", task_id);
    while (db_rows_next(&rows))
        rows.rc = add_turn(&list, &count, &capacity, rows.stmt, err);
    rc = db_rows_end(&rows);
    if (rc == 0)
        rc = overlap_make(list, count, ret, err);
    free(list);
    return rc;
}

int heard_diarization(struct store *st, int64_t media_id, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT t.task_id FROM task t JOIN stage s ON s.stage_id = t.stage_id "
                      "WHERE t.media_id = ? AND t.current AND s." DB_FINALIZES
                      " AND EXISTS (SELECT 1 FROM speaker k WHERE k.task_id = t.task_id)",
                      "i", media_id);

    *ret = 0;
    if (rc != 1)
        return rc;
    *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 0;
}

int heard_speakers(struct store *st, int64_t media_id, struct machine_speakers *ret,
                   struct err *err)
{
    int rc;

    *ret = (struct machine_speakers){0};
    rc = heard_diarization(st, media_id, &ret->diarization, err);
    return rc < 0 || !ret->diarization ? rc : load_turns(st, ret->diarization, &ret->turns, err);
}

int heard_sources(struct store *st, int64_t task_id, struct machine_speakers *by, struct err *err)
{
    struct db_rows rows;

    memset(by->by_source, 0, sizeof(by->by_source));
    if (!by->diarization)
        return 0;
    db_rows_open(&rows, st, err,
                 "SELECT x.source, k.speaker_id FROM source x JOIN speaker k ON k.label = x.label "
                 "WHERE x.task_id = ?1 AND k.task_id = ?2 AND x.source BETWEEN 1 AND ?3",
                 "iii", task_id, by->diarization, (int64_t)RESULT_SOURCES_MAX);
    while (db_rows_next(&rows))
        by->by_source[sqlite3_column_int64(rows.stmt, 0)] = sqlite3_column_int64(rows.stmt, 1);
    return db_rows_end(&rows);
}

static int add_result(struct heard *h, sqlite3_stmt *s, struct err *err)
{
    int64_t seq = sqlite3_column_int64(s, 0);
    struct fact_result *r;
    int rc;

    if (seq < 0 || seq >= UINT32_MAX)
        return err_set(err, ERR_INPUT, "a shard of number %lld", (long long)seq);
    if (!list_grow(&h->results, &h->result_cap, h->result_count, sizeof(*h->results)))
        return err_no_memory(err, "catalog");
    r = &h->results[h->result_count];
    rc = fact_result_get(sqlite3_column_blob(s, 1), (size_t)sqlite3_column_bytes(s, 1), r, err);
    if (rc < 0)
        return err_prefix(err, "shard %lld", (long long)seq);
    r->seq = (uint32_t)seq;
    h->result_count++;
    return 0;
}

int heard_load(struct store *st, int64_t task_id, const struct machine_speakers *by,
               struct heard *ret, struct err *err)
{
    struct heard h = {.task_id = task_id};
    struct db_rows rows;
    int rc;

    db_rows_open(&rows, st, err,
                 "SELECT seq, result FROM shard WHERE task_id = ? AND result IS NOT NULL "
                 "ORDER BY seq",
                 "i", task_id);
    while (db_rows_next(&rows))
        rows.rc = add_result(&h, rows.stmt, err);
    rc = db_rows_end(&rows);
    for (size_t i = 0; i < h.result_count && rc == 0; i++)
        rc = heard_add(&h, h.results[i].seq, h.results[i].segments, h.results[i].count, by, err);
    if (rc == 0)
        *ret = h;
    else
        heard_free(&h);
    return rc < 0 ? err_prefix(err, "task %lld", (long long)task_id) : 0;
}

/* --------------------------------------------------------------------------- as it is published */

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

/* One more row of what is published, which is what was made. */
static int read_published_row(struct heard *h, size_t i, sqlite3_stmt *s, struct err *err)
{
    struct heard_segment *g = i < h->count ? &h->segments[i] : NULL;

    if (!g || sqlite3_column_int64(s, 1) != g->seq || sqlite3_column_int64(s, 2) != g->idx)
        return err_set(err, ERR_INPUT, "what is read of recording %lld is not what its results say",
                       (long long)h->media_id);
    g->segment_id = sqlite3_column_int64(s, 0);
    g->text = db_dup(s, 3);
    return g->text ? 0 : err_no_memory(err, "catalog");
}

static int load_published(struct store *st, struct heard *h, struct err *err)
{
    struct db_rows rows;
    size_t i = 0;
    int rc;

    db_rows_open(&rows, st, err,
                 "SELECT segment_id, seq, idx, text FROM segment WHERE task_id = ? "
                 "ORDER BY seq, idx",
                 "i", h->task_id);
    while (db_rows_next(&rows))
        rows.rc = read_published_row(h, i++, rows.stmt, err);
    rc = db_rows_end(&rows);
    if (rc == 0 && i < h->count)
        rc = err_set(err, ERR_INPUT, "some of what recording %lld says is not published",
                     (long long)h->media_id);
    return rc;
}

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
    return list && h->by_id ? 0 : err_no_memory(err, "catalog");
}

int heard_current(struct store *st, int64_t media_id, struct heard *ret, struct err *err)
{
    struct machine_speakers by = {0};
    struct heard h = {0};
    int64_t task_id = 0;
    int rc = current_of(st, media_id, &task_id, err);

    if (rc == 0 && task_id)
        rc = heard_speakers(st, media_id, &by, err);
    if (rc == 0 && task_id)
        rc = heard_sources(st, task_id, &by, err);
    if (rc == 0 && task_id)
        rc = heard_load(st, task_id, &by, &h, err);
    h.media_id = media_id;
    if (rc == 0)
        rc = load_published(st, &h, err);
    if (rc == 0)
        rc = heard_words(&h, err);
    if (rc == 0)
        rc = sort_ids(&h, err);
    machine_speakers_free(&by);
    if (rc == 0)
        *ret = h;
    else
        heard_free(&h);
    return rc;
}

void heard_free(struct heard *h)
{
    for (size_t i = 0; i < h->count; i++) {
        machine_part_free(&h->segments[i].machine);
        free(h->segments[i].text);
        free(h->segments[i].words);
    }
    for (size_t i = 0; i < h->result_count; i++)
        fact_result_free(&h->results[i]);
    free(h->results);
    free(h->segments);
    free(h->words);
    free(h->by_id);
    *h = (struct heard){0};
}

/* ---------------------------------------------------------------------------------- finding */

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
