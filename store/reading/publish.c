#include "store/reading/publish.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/full_text.h"
#include "store/reading/place.h"

/* --------------------------------------------------------------------------- as it is to be read
 */

struct to_read {              /* a segment with the corrections in it */
    const char *text, *heard; /* heard: the machine's words, where `text` are others; else NULL */
    const struct rebuilt *rows;
    struct buf own_text;
    struct rebuilt own_rows;
};

static void to_read_free(struct to_read *t)
{
    buf_free(&t->own_text);
    rebuilt_free(&t->own_rows);
}

static int build_corrected_text(const struct heard_segment *g, const struct place_part *parts,
                                size_t n, struct to_read *ret, struct err *err)
{
    const struct rebuilt *rows = &g->machine.rows;
    struct rebuild_part *list = calloc(n, sizeof(*list));
    int rc;

    if (!list)
        return err_no_memory(err, "catalog");
    for (size_t i = 0; i < n; i++)
        list[i] = parts[i].part;
    rebuild_text(&ret->own_text, g->machine.text, list, n);
    rc = buf_cstr(&ret->own_text) ? 0 : err_no_memory(err, "catalog");
    if (rc == 0)
        rc = rebuild_rows(g->machine.text, rows->rows, rows->count, list, n, &ret->own_rows, err);
    free(list);
    ret->text = (const char *)ret->own_text.data;
    ret->heard = g->machine.text;
    ret->rows = &ret->own_rows;
    return rc;
}

/* number: of the segment in h. To be freed, on error too. */
static int build_published_text(const struct heard *h, const struct place_parts *corrected,
                                size_t number, struct to_read *ret, struct err *err)
{
    const struct heard_segment *g = &h->segments[number];
    size_t n = 0;
    const struct place_part *parts =
        corrected && corrected->count ? place_parts_of(corrected, number, &n) : NULL;

    *ret = (struct to_read){.text = g->machine.text, .rows = &g->machine.rows};
    return n ? build_corrected_text(g, parts, n, ret, err) : 0;
}

/* ------------------------------------------------------------------------------- as it stands */

struct row { /* of `segment` */
    int64_t segment_id, part, start_ms, source;
    char *text; /* owned */
    bool stays;
};

struct rows { /* owned: rows_free */
    struct row *list;
    size_t count, capacity;
};

static void rows_free(struct rows *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->list[i].text);
    free(r->list);
}

static double get_column_or_nan(sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? NAN
                                                            : sqlite3_column_double(stmt, column);
}

static int add_row(struct rows *r, sqlite3_stmt *s, struct err *err)
{
    struct row *row;

    if (!list_grow(&r->list, &r->capacity, r->count, sizeof(*r->list)))
        return err_no_memory(err, "catalog");
    row = &r->list[r->count++];
    *row = (struct row){.segment_id = sqlite3_column_int64(s, 0),
                        .part = sqlite3_column_int64(s, 1),
                        .start_ms = sqlite3_column_int64(s, 2),
                        .source = sqlite3_column_int64(s, 3),
                        .text = db_dup(s, 4)};
    return row->text ? 0 : err_no_memory(err, "catalog");
}

static int rows_read(struct store *st, int64_t task_id, uint32_t seq, struct rows *ret,
                     struct err *err)
{
    struct db_rows rows;

    db_rows_again(&rows, st, err,
                  db_cached(st,
                            "SELECT segment_id, part, start_ms, source, text FROM segment "
                            "WHERE task_id = ? AND seq = ? ORDER BY idx",
                            err),
                  "ii", task_id, (int64_t)seq);
    while (db_rows_next(&rows))
        rows.rc = add_row(ret, rows.stmt, err);
    return db_rows_end(&rows);
}

/* ------------------------------------------------------------------------------------- words */

static bool same_number(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static bool is_word(sqlite3_stmt *s, const struct rebuild_row *w)
{
    return sqlite3_column_int64(s, 0) == w->start_ms && sqlite3_column_int64(s, 1) == w->end_ms &&
           strcmp(db_text(s, 2), w->text) == 0 &&
           same_number(get_column_or_nan(s, 3), w->probability) &&
           sqlite3_column_int64(s, 4) == w->speaker_id;
}

/* *ret: they are these, in their order. */
static int words_stand(struct store *st, int64_t segment_id, const struct rebuilt *words, bool *ret,
                       struct err *err)
{
    struct db_rows rows;
    size_t i = 0;

    *ret = true;
    db_rows_again(&rows, st, err,
                  db_cached(st,
                            "SELECT start_ms, end_ms, text, probability, ifnull(speaker_id, 0) "
                            "FROM word WHERE segment_id = ? ORDER BY idx",
                            err),
                  "i", segment_id);
    while (db_rows_next(&rows)) {
        *ret = *ret && i < words->count && is_word(rows.stmt, &words->rows[i]);
        i++;
    }
    *ret = *ret && i == words->count;
    return db_rows_end(&rows);
}

static int put_words(struct store *st, int64_t segment_id, const struct rebuilt *words,
                     struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < words->count && rc == 0; i++) {
        const struct rebuild_row *w = &words->rows[i];

        rc = db_run(st, err,
                    "INSERT INTO word (segment_id, idx, start_ms, end_ms, text, probability, "
                    "speaker_id) VALUES (?, ?, ?, ?, ?, ?, nullif(?, 0))",
                    "iiiitdi", segment_id, (int64_t)i, w->start_ms, w->end_ms, w->text,
                    w->probability, w->speaker_id);
    }
    return rc;
}

static int write_words(struct store *st, int64_t segment_id, const struct rebuilt *words,
                       struct err *err)
{
    bool stand = false;
    int rc = words_stand(st, segment_id, words, &stand, err);

    if (rc < 0 || stand)
        return rc;
    rc = db_run(st, err, "DELETE FROM word WHERE segment_id = ?", "i", segment_id);
    return rc < 0 ? rc : put_words(st, segment_id, words, err);
}

/* ---------------------------------------------------------------------------------- segments */

/* NAN (NULL in the column) if it was not measured. */
static double speech_prob(const struct result_segment *s)
{
    return s->speech_prob >= 0 ? fmin(s->speech_prob, 1) : NAN;
}

static int insert_segment(struct store *st, int64_t task_id, struct heard_segment *g,
                          const struct to_read *t, struct err *err)
{
    const struct result_segment *s = g->of;
    int rc = text_index_begin(st, err);

    if (rc == 0)
        rc = db_run(
            st, err,
            "INSERT INTO segment (task_id, seq, idx, part, start_ms, end_ms, text, heard, "
            "language, "
            "reason, speaker_id, avg_logprob, no_speech_prob, compression_ratio, temperature, "
            "attempts, speech_prob, source) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), ?, "
            "?, "
            "?, ?, nullif(?, 0), ?, ?)",
            "iiiiiittttiddddidi", task_id, (int64_t)g->seq, g->idx, g->part, g->machine.start_ms,
            g->machine.end_ms, t->text, t->heard, s->language ? s->language : "",
            s->reason ? s->reason : "", g->machine.speaker_id, g->machine.avg_logprob,
            s->no_speech_prob, s->compression_ratio, s->temperature, (int64_t)s->attempts,
            speech_prob(s), (int64_t)s->source);

    if (rc < 0)
        return rc;
    g->segment_id = sqlite3_last_insert_rowid(st->db);
    rc = text_index_put(st, g->segment_id, err); /* the number of one that went */
    return rc < 0 ? rc : put_words(st, g->segment_id, t->rows, err);
}

/* A segment's columns behind segment_id, without its place and its text. */
#define SAID                                                                                \
    "idx, part, end_ms, heard, language, reason, speaker_id, avg_logprob, no_speech_prob, " \
    "compression_ratio, temperature, attempts, speech_prob"
#define SAID_NOW "?2, ?3, ?4, ?5, ?6, ?7, nullif(?8, 0), ?9, ?10, ?11, ?12, nullif(?13, 0), ?14"

static int update_text(struct store *st, int64_t segment_id, const char *text, struct err *err)
{
    int rc = text_index_take(st, segment_id, err);

    if (rc == 0)
        rc = db_run(st, err, "UPDATE segment SET text = ?2 WHERE segment_id = ?1", "it", segment_id,
                    text);
    return rc < 0 ? rc : text_index_put(st, segment_id, err);
}

static int remove_segment(struct store *st, int64_t segment_id, struct err *err)
{
    int rc = text_index_take(st, segment_id, err);

    return rc < 0 ? rc
                  : db_run(st, err, "DELETE FROM segment WHERE segment_id = ?", "i", segment_id);
}

static int update_segment(struct store *st, const struct row *row, const struct heard_segment *g,
                          const struct to_read *t, struct err *err)
{
    const struct machine_part *m = &g->machine;
    const struct result_segment *s = g->of;
    int rc = db_run(st, err,
                    "UPDATE segment SET (" SAID ") = (" SAID_NOW ") WHERE segment_id = ?1 "
                    "AND (" SAID ") IS NOT (" SAID_NOW ")",
                    "iiiitttiddddid", row->segment_id, g->idx, g->part, m->end_ms, t->heard,
                    s->language ? s->language : "", s->reason ? s->reason : "", m->speaker_id,
                    m->avg_logprob, s->no_speech_prob, s->compression_ratio, s->temperature,
                    (int64_t)s->attempts, speech_prob(s));

    if (rc == 0 && strcmp(row->text, t->text) != 0)
        rc = update_text(st, row->segment_id, t->text, err);
    return rc < 0 ? rc : write_words(st, row->segment_id, t->rows, err);
}

struct shard { /* segments [from, to) of h are its */
    struct store *st;
    struct heard *h;
    const struct place_parts *corrected;
    size_t from, to;
    struct rows rows;
    struct row **of; /* [to - from]: the row that a segment keeps; NULL: a new one */
};

/* A segment keeps the row that begins when it does, so that its number stays as long as it can. */
static bool keep_rows(struct shard *s)
{
    size_t kept = 0, k = 0;

    for (size_t i = s->from; i < s->to; i++) {
        const struct heard_segment *g = &s->h->segments[i];

        while (k < s->rows.count && s->rows.list[k].start_ms < g->machine.start_ms)
            k++;
        if (k < s->rows.count && s->rows.list[k].start_ms == g->machine.start_ms &&
            s->rows.list[k].source == (int64_t)g->of->source &&
            (s->rows.list[k].part == 0) == (g->part == 0)) {
            s->rows.list[k].stays = true;
            s->of[i - s->from] = &s->rows.list[k++];
            kept++;
        }
    }
    return kept == s->rows.count && kept == s->to - s->from;
}

/* Their numbers give way: they get theirs anew, below. */
static int clear_rows(struct shard *s, struct err *err)
{
    int rc = 0;

    for (size_t k = 0; k < s->rows.count && rc == 0; k++)
        if (!s->rows.list[k].stays)
            rc = remove_segment(s->st, s->rows.list[k].segment_id, err);
    return rc < 0
               ? rc
               : db_run(s->st, err, "UPDATE segment SET idx = ~idx WHERE task_id = ? AND seq = ?",
                        "ii", s->h->task_id, (int64_t)s->h->segments[s->from].seq);
}

static int write_segment(struct shard *s, size_t i, struct err *err)
{
    struct heard_segment *g = &s->h->segments[i];
    const struct row *row = s->of[i - s->from];
    struct to_read t;
    int rc = build_published_text(s->h, s->corrected, i, &t, err);

    if (rc == 0 && row)
        g->segment_id = row->segment_id;
    if (rc == 0)
        rc = row ? update_segment(s->st, row, g, &t, err)
                 : insert_segment(s->st, s->h->task_id, g, &t, err);
    to_read_free(&t);
    return rc;
}

/* is_new: there are no rows of it. */
static int write_shard(struct shard *s, bool is_new, struct err *err)
{
    uint32_t seq = s->h->segments[s->from].seq;
    int rc = 0;

    s->of = calloc(s->to - s->from, sizeof(struct row *));
    if (!s->of)
        return err_no_memory(err, "catalog");
    if (!is_new)
        rc = rows_read(s->st, s->h->task_id, seq, &s->rows, err);
    if (rc == 0 && s->rows.count && !keep_rows(s))
        rc = clear_rows(s, err);
    for (size_t i = s->from; i < s->to && rc == 0; i++)
        rc = write_segment(s, i, err);
    rows_free(&s->rows);
    free(s->of);
    return rc;
}

static int write_shards(struct store *st, struct heard *h, const struct place_parts *corrected,
                        bool is_new, struct err *err)
{
    int rc = 0;

    for (size_t i = 0, to; i < h->count && rc == 0; i = to) {
        for (to = i + 1; to < h->count && h->segments[to].seq == h->segments[i].seq;)
            to++;
        rc = write_shard(&(struct shard){st, h, corrected, i, to, {0}, NULL}, is_new, err);
    }
    return rc;
}

/* ------------------------------------------------------------------------------- corrections */

static const char *const state_names[] = {[PLACE_APPLIED] = "applied",
                                          [PLACE_AGREED] = "agreed",
                                          [PLACE_CONFLICT] = "conflict",
                                          [PLACE_CONFIRMED] = "confirmed"};

/* Words [at->word, at->word + at->words) of a segment's are the correction's: *until is behind
 * them, as numbers of the recording. */
static const struct heard_segment *piece_at(const struct heard *h, const struct place *p,
                                            size_t word, size_t *until)
{
    const struct heard_segment *g = heard_segment_at(h, word);
    size_t end = p->at.word + p->at.words;

    *until = g->first + g->word_count < end ? g->first + g->word_count : end;
    return g;
}

static bool is_piece(const struct heard *h, const struct place *p, sqlite3_stmt *row)
{
    for (size_t i = p->at.word, next; i < p->at.word + p->at.words; i = next) {
        const struct heard_segment *g = piece_at(h, p, i, &next);

        if (g->segment_id == sqlite3_column_int64(row, 0))
            return sqlite3_column_int64(row, 1) == (int64_t)(i - g->first) &&
                   sqlite3_column_int64(row, 2) == (int64_t)(next - i);
    }
    return false;
}

/* *ret: its rows say where it stands, and no others are there. */
static int place_stands(struct store *st, const struct heard *h, const struct place *p, bool *ret,
                        struct err *err)
{
    struct db_rows rows;
    size_t wanted = 0, there = 0;

    for (size_t i = p->at.word, next; i < p->at.word + p->at.words; i = next, wanted++)
        piece_at(h, p, i, &next);
    *ret = true;
    db_rows_again(&rows, st, err,
                  db_cached(st,
                            "SELECT segment_id, word, words FROM correction_at "
                            "WHERE correction_id = ?",
                            err),
                  "i", p->correction_id);
    for (; db_rows_next(&rows); there++)
        *ret = *ret && is_piece(h, p, rows.stmt);
    *ret = *ret && wanted == there;
    return db_rows_end(&rows);
}

static int put_place(struct store *st, const struct heard *h, const struct place *p,
                     struct err *err)
{
    int rc =
        db_run(st, err, "DELETE FROM correction_at WHERE correction_id = ?", "i", p->correction_id);

    for (size_t i = p->at.word, next; i < p->at.word + p->at.words && rc == 0; i = next) {
        const struct heard_segment *g = piece_at(h, p, i, &next);

        rc = db_run(st, err,
                    "INSERT INTO correction_at (correction_id, segment_id, word, words) "
                    "VALUES (?, ?, ?, ?)",
                    "iiii", p->correction_id, g->segment_id, (int64_t)(i - g->first),
                    (int64_t)(next - i));
    }
    return rc;
}

static int write_places(struct store *st, const struct heard *h, const struct places *p,
                        struct err *err)
{
    bool stands = false;
    int rc = db_run(st, err,
                    "DELETE FROM correction_at WHERE correction_id IN "
                    "(SELECT correction_id FROM correction WHERE media_id = ?1 "
                    "AND state = 'undone')",
                    "i", h->media_id);

    for (size_t i = 0; i < p->count && rc == 0; i++) {
        rc = db_run(st, err,
                    "UPDATE correction SET state = ?2 WHERE correction_id = ?1 AND state <> ?2",
                    "it", p->list[i].correction_id, state_names[p->list[i].state]);
        if (rc == 0)
            rc = place_stands(st, h, &p->list[i], &stands, err);
        if (rc == 0 && !stands)
            rc = put_place(st, h, &p->list[i], err);
    }
    return rc;
}

/* The transcription that is current; none: no correction stands anywhere. */
static int publish_corrected(struct store *st, struct heard *h, struct err *err)
{
    struct places p = {0};
    struct place_parts parts = {0};
    int rc = heard_words(h, err);

    if (rc == 0)
        rc = places_load(st, h, &p, err);
    if (rc == 0)
        rc = place_parts_make(h, &p, &parts, err);
    if (rc == 0)
        rc = write_shards(st, h, &parts, false, err);
    if (rc == 0)
        rc = write_places(st, h, &p, err);
    place_parts_free(&parts);
    places_free(&p);
    return rc;
}

/* ------------------------------------------------------------------------------- a recording */

static int has_corrections(struct store *st, int64_t media_id, bool *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT 1 FROM correction WHERE media_id = ? LIMIT 1", "i",
                      media_id);

    *ret = rc == 1;
    if (rc == 1)
        sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

struct publishing {
    struct store *st;
    int64_t media_id;
    int64_t task_id; /* of this transcription alone; 0: of all */
    struct machine_speakers by;
    bool corrections, placed; /* it has some; and they have their places */
    bool strict;              /* nothing is passed over, and nothing else may stand there */
};

/* Removes the segments of shards that have no texts. */
static int remove_strays(struct store *st, int64_t task_id, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT segment_id FROM segment WHERE task_id = ?1 AND NOT EXISTS "
                 "(SELECT 1 FROM shard h WHERE h.task_id = ?1 AND h.seq = segment.seq "
                 "AND h.result IS NOT NULL) ORDER BY segment_id",
                 "i", task_id);
    while (db_rows_next(&rows))
        rows.rc = remove_segment(st, sqlite3_column_int64(rows.stmt, 0), err);
    return db_rows_end(&rows);
}

static int publish_task(struct publishing *p, int64_t task_id, bool current, struct err *err)
{
    struct heard h = {0};
    int rc = heard_sources(p->st, task_id, &p->by, err);

    if (rc == 0 && p->strict)
        rc = remove_strays(p->st, task_id, err);
    if (rc == 0)
        rc = heard_load(p->st, task_id, &p->by, &h, err);
    h.media_id = p->media_id;
    if (rc == ERR_INPUT && !current && !p->strict) {
        rc = 0; /* a result of old that is damaged is in nobody's way */
    } else if (rc == 0 && current && p->corrections) {
        rc = publish_corrected(p->st, &h, err);
        p->placed = true;
    } else if (rc == 0) {
        rc = write_shards(p->st, &h, NULL, false, err);
    }
    heard_free(&h);
    return rc;
}

static int publish_tasks(struct publishing *p, struct err *err)
{
    struct heard none = {.media_id = p->media_id};
    struct db_rows rows;
    int rc;

    db_rows_open(&rows, p->st, err,
                 "SELECT t.task_id, t.current FROM task t JOIN stage s ON s.stage_id = t.stage_id "
                 "WHERE t.media_id = ?1 AND s." DB_TRANSCRIBES
                 " AND (?2 = 0 OR t.task_id = ?2) ORDER BY t.task_id",
                 "ii", p->media_id, p->task_id);
    while (db_rows_next(&rows))
        rows.rc = publish_task(p, sqlite3_column_int64(rows.stmt, 0),
                               sqlite3_column_int(rows.stmt, 1), err);
    rc = db_rows_end(&rows);
    if (rc == 0 && p->corrections && !p->placed && !p->task_id)
        rc = publish_corrected(p->st, &none, err);
    heard_free(&none);
    return rc;
}

static int publish_recording(struct publishing *p, struct err *err)
{
    int rc = has_corrections(p->st, p->media_id, &p->corrections, err);

    if (rc == 0)
        rc = heard_speakers(p->st, p->media_id, &p->by, err);
    if (rc == 0)
        rc = publish_tasks(p, err);
    machine_speakers_free(&p->by);
    return rc;
}

static int publish_all(struct store *st, int64_t media_id, bool strict, struct err *err)
{
    struct publishing p = {.st = st, .media_id = media_id, .strict = strict};
    int rc = publish_recording(&p, err);

    return rc < 0 ? rc
                  : db_run(st, err, "DELETE FROM reading_due WHERE media_id = ?", "i", media_id);
}

/* Corrections stand in the current transcription alone. */
static int is_corrected(struct store *st, int64_t media_id, int64_t task_id, bool *ret,
                        struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT 1 FROM correction WHERE media_id = ?1 AND "
                      "(SELECT current FROM task WHERE task_id = ?2) LIMIT 1",
                      "ii", media_id, task_id);

    *ret = rc == 1;
    if (rc == 1)
        sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

int reading_publish_new(struct store *st, int64_t media_id, const struct store_shard_result *r,
                        struct err *err)
{
    struct publishing p = {.st = st, .media_id = media_id, .task_id = r->task_id};
    struct heard h = {.media_id = media_id, .task_id = r->task_id};
    struct machine_speakers by = {0};
    bool corrected = false;
    int rc = is_corrected(st, media_id, r->task_id, &corrected, err);

    if (rc < 0 || corrected)
        return rc < 0 ? rc : publish_recording(&p, err);
    rc = heard_speakers(st, media_id, &by, err);
    if (rc == 0)
        rc = heard_sources(st, r->task_id, &by, err);
    if (rc == 0)
        rc = heard_add(&h, r->seq, r->segments, r->segment_count, &by, err);
    if (rc == 0)
        rc = write_shards(st, &h, NULL, true, err);
    machine_speakers_free(&by);
    heard_free(&h);
    return rc;
}

/* 1: *media_id is the first behind it of which something may be read. */
static int next_recording(struct store *st, int64_t *media_id, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT m.media_id FROM media m WHERE m.media_id > ? AND EXISTS "
                      "(SELECT 1 FROM task t JOIN stage s ON s.stage_id = t.stage_id "
                      "WHERE t.media_id = m.media_id AND s." DB_TRANSCRIBES ") ORDER BY 1 LIMIT 1",
                      "i", *media_id);

    *media_id = rc == 1 ? sqlite3_column_int64(stmt, 0) : 0;
    if (rc == 1)
        sqlite3_reset(stmt);
    return rc;
}

int store_publish_next(struct store *st, int64_t *media_id, bool *changed, struct err *err)
{
    int64_t before;
    int rc = db_enter(st, err);

    if (rc < 0)
        return rc;
    before = sqlite3_total_changes64(st->db);
    rc = next_recording(st, media_id, err);
    if (rc == 1)
        rc = publish_all(st, *media_id, true, err);
    *changed = sqlite3_total_changes64(st->db) != before;
    rc = db_leave(st, rc, err);
    return rc < 0 ? rc : 0;
}

int reading_due(struct store *st, int64_t media_id, struct err *err)
{
    return db_run(st, err, "INSERT OR IGNORE INTO reading_due VALUES (?)", "i", media_id);
}

int reading_publish_due(struct store *st, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc;

    while ((rc = db_first(st, &stmt, err, "SELECT media_id FROM reading_due LIMIT 1", "")) == 1) {
        int64_t media_id = sqlite3_column_int64(stmt, 0);

        sqlite3_reset(stmt);
        rc = publish_all(st, media_id, false, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}
