#include "store/results/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/corrections/heard.h"
#include "store/corrections/settle.h"
#include "store/results/seams.h"

struct row { /* of `segment`, as it is */
    int64_t segment_id, start_ms, end_ms, part;
    char *text; /* the machine's; owned */
    double avg_logprob;
    bool corrected;
    char *whole; /* of a part 0 that is parted: the machine's segment; owned. Else NULL */
    int64_t whole_end_ms;
    double whole_logprob;
    int64_t speaker; /* of its source, else 0 */
    size_t words;    /* that it has times of */
};

struct part {             /* as it is to be */
    size_t row, word, at; /* the first of the segment's rows of words, its words, its bytes */
    int64_t start_ms, end_ms, speaker;
    double avg_logprob;
};

struct whole { /* a segment of the machine's */
    const char *text;
    int64_t start_ms, end_ms;
    double avg_logprob;
    struct row *rows; /* of the shard's */
    size_t row_count;
    struct rebuilt timed; /* its words with their times, and which bytes they are */
    struct rebuild_span *spans;
    struct hunk_word *words;
    size_t word_count;
    bool mapped; /* what is timed are its words */
    struct part *parts;
    size_t count;
};

struct shard {
    struct store *st;
    int64_t task_id, seq;
    const struct parts_turns *by; /* NULL: nobody is told apart */
    struct row *rows;
    size_t count, cap;
    int64_t *ids; /* of the rows in their order, as they are to be */
    size_t id_count, id_cap;
    bool changed; /* the old rows are numbered ~idx till all are numbered anew */
};

static int no_memory(struct err *err) { return err_set(err, ERR_NOMEM, "catalog: out of memory"); }

/* ------------------------------------------------------------------------------- as they are */

static double number(sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? NAN
                                                            : sqlite3_column_double(stmt, column);
}

static int add_row(struct shard *s, sqlite3_stmt *stmt, struct err *err)
{
    bool whole = sqlite3_column_type(stmt, 7) != SQLITE_NULL;
    struct row *r;

    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        struct row *rows = realloc(s->rows, cap * sizeof(*rows));

        if (!rows)
            return no_memory(err);
        s->rows = rows;
        s->cap = cap;
    }
    r = &s->rows[s->count++];
    *r = (struct row){.segment_id = sqlite3_column_int64(stmt, 0),
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

static int load(struct shard *s, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, s->st, err,
                 "SELECT g.segment_id, g.start_ms, g.end_ms, g.part, ifnull(g.heard, g.text), "
                 "g.avg_logprob, g.heard IS NOT NULL, p.text, p.end_ms, p.avg_logprob, "
                 "ifnull(" PARTS_SOURCE_SPEAKER "?3), 0) "
                 "FROM segment g LEFT JOIN parted p ON p.segment_id = g.segment_id "
                 "WHERE g.task_id = ?1 AND g.seq = ?2 ORDER BY g.idx",
                 "iii", s->task_id, s->seq, s->by ? s->by->diarization : 0);
    while (db_rows_next(&rows))
        rows.rc = add_row(s, rows.stmt, err);
    return db_rows_end(&rows);
}

/* The segment that begins with a row. */
static void whole_of(struct shard *s, size_t at, struct whole *w)
{
    struct row *r = &s->rows[at];
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

static int read_words(struct shard *s, struct whole *w, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < w->row_count && rc == 0; i++) {
        size_t before = w->timed.count;

        rc = heard_rows(s->st, w->rows[i].corrected ? HEARD_ROWS("word_heard") : HEARD_ROWS("word"),
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

static void whole_free(struct whole *w)
{
    rebuilt_free(&w->timed);
    free(w->spans);
    free(w->words);
    free(w->parts);
}

/* The first word at or behind that row of them. */
static size_t word_at(const struct whole *w, size_t row)
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
static void find_places(const struct whole *w, struct part *ret, size_t *n)
{
    *n = 0;
    for (size_t word = 0, row = 0; word < w->word_count; word++) {
        size_t at = w->words[word].at;

        while (row < w->timed.count && w->spans[row].from < at)
            row++;
        if (row < w->timed.count && w->spans[row].from == at)
            ret[(*n)++] = (struct part){.row = row, .word = word, .at = at};
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
        struct part *p = &w->parts[i];
        bool last = i + 1 == w->count;
        size_t end = last ? w->timed.count : p[1].row;
        double more = mean_log(&rows[p->row], end - p->row) - all;

        p->end_ms =
            last ? w->end_ms : most(p->start_ms, least(rows[end - 1].end_ms, p[1].start_ms));
        p->avg_logprob =
            isnan(more) || isnan(w->avg_logprob) ? w->avg_logprob : fmin(0, w->avg_logprob + more);
    }
}

static void part_words(struct shard *s, struct whole *w, const struct part *places, size_t n,
                       struct seams_word *said, struct seams_part *found)
{
    for (size_t i = 0; i < n; i++) {
        size_t last = i + 1 < n ? places[i + 1].row - 1 : w->timed.count - 1;

        said[i].start_ms = w->timed.rows[places[i].row].start_ms;
        said[i].end_ms = w->timed.rows[last].end_ms;
        said[i].speaker = overlap_speaker(s->by->turns, said[i].start_ms, said[i].end_ms, 0);
    }
    n = seams_find(said, n, s->by->turns, found);
    if (n < 2)
        return;
    for (size_t i = 0; i < n; i++) {
        w->parts[i] = places[found[i].first];
        w->parts[i].speaker = found[i].speaker;
    }
    w->count = n;
    measure(w);
}

static int find_parts(struct shard *s, struct whole *w, struct err *err)
{
    struct part *places = calloc(w->word_count + 1, sizeof(*places));
    struct seams_word *said = calloc(w->word_count + 1, sizeof(*said));
    struct seams_part *found = calloc(w->word_count + 1, sizeof(*found));
    size_t n = 0;
    bool room;

    w->parts = calloc(w->word_count + 1, sizeof(*w->parts));
    room = places && said && found && w->parts;
    if (room) {
        w->count = 1;
        w->parts[0] = (struct part){
            .start_ms = w->start_ms, .end_ms = w->end_ms, .avg_logprob = w->avg_logprob};
        if (w->rows[0].speaker)
            w->parts[0].speaker = w->rows[0].speaker;
        else if (s->by)
            w->parts[0].speaker = overlap_speaker(s->by->turns, w->start_ms, w->end_ms, 0);
        if (s->by && w->mapped && !w->rows[0].speaker)
            find_places(w, places, &n);
        if (n > 1 && places[0].row == 0)
            part_words(s, w, places, n, said, found);
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

static bool stands(const struct whole *w)
{
    bool same = w->count == w->row_count && (w->count == 1) == !w->rows[0].whole;

    for (size_t i = 0; same && i < w->count; i++)
        same = w->rows[i].part == (int64_t)i && w->rows[i].words == end_of(w, i) - w->parts[i].row;
    return same;
}

/* ------------------------------------------------------------------------------- corrections */

struct standing { /* where corrections stand, in words of the machine's segment */
    struct {
        int64_t correction_id;
        size_t word, words;
    } * list; /* owned */
    size_t count, cap;
};

static int add_standing(struct standing *c, sqlite3_stmt *stmt, size_t before, struct err *err)
{
    int64_t word = sqlite3_column_int64(stmt, 1), words = sqlite3_column_int64(stmt, 2);

    if (word < 0 || words <= 0 || word > INT32_MAX || words > INT32_MAX)
        return 0;
    if (c->count == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 16;
        void *list = realloc(c->list, cap * sizeof(*c->list));

        if (!list)
            return no_memory(err);
        c->list = list;
        c->cap = cap;
    }
    c->list[c->count].correction_id = sqlite3_column_int64(stmt, 0);
    c->list[c->count].word = before + (size_t)word;
    c->list[c->count++].words = (size_t)words;
    return 0;
}

/* Takes them out of the rows, which read as the machine has them then. */
static int lift(struct shard *s, const struct whole *w, struct standing *ret, struct err *err)
{
    size_t row = 0;
    int rc = 0;

    for (size_t i = 0; i < w->row_count && rc == 0; i++) {
        int64_t id = w->rows[i].segment_id;
        struct db_rows rows;

        db_rows_open(&rows, s->st, err,
                     "SELECT correction_id, word, words FROM correction_at WHERE segment_id = ?",
                     "i", id);
        while (db_rows_next(&rows))
            rows.rc = add_standing(ret, rows.stmt, w->mapped ? word_at(w, row) : 0, err);
        rc = db_rows_end(&rows);
        if (rc == 0)
            rc = db_run(s->st, err, "DELETE FROM correction_at WHERE segment_id = ?", "i", id);
        if (rc == 0 && w->rows[i].corrected)
            rc = corrections_lift(s->st, id, err);
        row += w->rows[i].words;
    }
    return rc;
}

/* One that stands in several parts has a row in each; of several that were joined it has one. */
static int put_back(struct shard *s, const struct whole *w, const struct standing *c,
                    struct err *err)
{
    const int64_t *ids = s->ids + s->id_count - w->count;
    int rc = 0;

    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < w->count && rc == 0; k++) {
            size_t first = w->parts[k].word, from = c->list[i].word, to = from + c->list[i].words;
            size_t end = k + 1 < w->count ? w->parts[k + 1].word : w->word_count;

            from = from > first ? from : first;
            to = to < end ? to : end;
            if (from < to)
                rc = db_run(s->st, err,
                            "INSERT INTO correction_at (correction_id, segment_id, word, words) "
                            "VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
                            "SET word = min(word, excluded.word), words = words + excluded.words",
                            "iiii", c->list[i].correction_id, ids[k], (int64_t)(from - first),
                            (int64_t)(to - from));
        }
    return rc;
}

/* ------------------------------------------------------------------------------------ writing */

static int set_aside(struct shard *s, struct err *err)
{
    if (s->changed)
        return 0;
    s->changed = true;
    return db_run(s->st, err, "UPDATE segment SET idx = ~idx WHERE task_id = ? AND seq = ?", "ii",
                  s->task_id, s->seq);
}

/* All words go to the first row, and the others go. */
static int join(struct shard *s, const struct whole *w, struct err *err)
{
    int64_t id = w->rows[0].segment_id;
    size_t row = w->rows[0].words;
    int rc = 0;

    for (size_t i = 1; i < w->row_count && rc == 0; i++) {
        rc = db_run(s->st, err,
                    "UPDATE word SET segment_id = ?1, idx = idx + ?3 WHERE segment_id = ?2", "iii",
                    id, w->rows[i].segment_id, (int64_t)row);
        if (rc == 0)
            rc = db_run(s->st, err, "DELETE FROM segment WHERE segment_id = ?", "i",
                        w->rows[i].segment_id);
        row += w->rows[i].words;
    }
    return rc;
}

static int keep_whole(struct shard *s, const struct whole *w, struct err *err)
{
    int64_t id = w->rows[0].segment_id;

    if (w->count == 1)
        return db_run(s->st, err, "DELETE FROM parted WHERE segment_id = ?", "i", id);
    return db_run(s->st, err,
                  "INSERT OR IGNORE INTO parted (segment_id, end_ms, text, avg_logprob) "
                  "VALUES (?, ?, ?, ?)",
                  "iitd", id, w->end_ms, w->text, w->avg_logprob);
}

/* What stands in a part, without the white space at its seams. Newly allocated. */
static char *text_of(const struct whole *w, size_t part, struct err *err)
{
    size_t from = part == 0 ? 0 : w->parts[part].at, to = strlen(w->text);
    char *text;

    if (part + 1 < w->count) {
        const struct hunk_word *last = &w->words[w->parts[part + 1].word - 1];

        to = last->at + last->len;
    }
    text = strndup(w->text + from, to - from);
    if (!text)
        no_memory(err);
    return text;
}

/* The first one: the row that is there. */
static int put_first(struct shard *s, const struct whole *w, const char *text, struct err *err)
{
    const struct part *p = &w->parts[0];
    int64_t id = w->rows[0].segment_id;
    int rc = db_run(s->st, err,
                    "UPDATE segment SET part = 0, end_ms = ?2, avg_logprob = ?3 "
                    "WHERE segment_id = ?1",
                    "iid", id, p->end_ms, p->avg_logprob);

    if (rc == 0 && strcmp(text, w->rows[0].text) != 0)
        rc = db_run(s->st, err, "UPDATE segment SET text = ?2 WHERE segment_id = ?1", "it", id,
                    text);
    return rc;
}

/* Another one: all that is not its own is the first one's. From the last to the second, for it
 * takes all words from its first on. */
static int put_other(struct shard *s, const struct whole *w, size_t i, const char *text,
                     int64_t idx, int64_t *ret, struct err *err)
{
    const struct part *p = &w->parts[i];
    int64_t first = w->rows[0].segment_id;
    sqlite3_stmt *stmt = NULL;
    int rc =
        db_first(s->st, &stmt, err,
                 "INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language, "
                 "avg_logprob, no_speech_prob, compression_ratio, temperature, attempts, "
                 "speech_prob, reason, source, part) "
                 "SELECT task_id, seq, ?2, ?3, ?4, ?5, language, ?6, no_speech_prob, "
                 "compression_ratio, temperature, attempts, speech_prob, reason, source, ?7 "
                 "FROM segment WHERE segment_id = ?1 RETURNING segment_id",
                 "iiiitdi", first, idx, p->start_ms, p->end_ms, text, p->avg_logprob, (int64_t)i);

    if (rc != 1)
        return rc;
    *ret = sqlite3_column_int64(stmt, 0);
    rc = db_next(s->st, stmt, err);
    if (rc == 0)
        rc = db_run(s->st, err,
                    "UPDATE word SET segment_id = ?2, idx = idx - ?3 "
                    "WHERE segment_id = ?1 AND idx >= ?3",
                    "iii", first, *ret, (int64_t)p->row);
    return rc;
}

static int put_parts(struct shard *s, const struct whole *w, struct err *err)
{
    size_t base = s->id_count - w->count;
    int rc = 0;

    for (size_t i = w->count; i-- > 0 && rc == 0;) {
        char *text = text_of(w, i, err);

        rc = !text    ? err->code
             : i == 0 ? put_first(s, w, text, err)
                      : put_other(s, w, i, text, (int64_t)(base + i), &s->ids[base + i], err);
        free(text);
    }
    return rc;
}

static int rewrite(struct shard *s, const struct whole *w, struct err *err)
{
    struct standing c = {0};
    int rc = set_aside(s, err);

    if (rc == 0)
        rc = lift(s, w, &c, err);
    if (rc == 0)
        rc = join(s, w, err);
    if (rc == 0)
        rc = keep_whole(s, w, err);
    if (rc == 0)
        rc = put_parts(s, w, err);
    if (rc == 0)
        rc = put_back(s, w, &c, err);
    free(c.list);
    return rc;
}

/* Room for the ids of a segment's parts, of which those that are there are put. */
static int put_ids(struct shard *s, const struct whole *w, struct err *err)
{
    if (s->id_count + w->count > s->id_cap) {
        size_t cap = 2 * (s->id_count + w->count);
        int64_t *ids = realloc(s->ids, cap * sizeof(*ids));

        if (!ids)
            return no_memory(err);
        s->ids = ids;
        s->id_cap = cap;
    }
    for (size_t i = 0; i < w->count; i++)
        s->ids[s->id_count++] = i < w->row_count ? w->rows[i].segment_id : 0;
    return 0;
}

static int name(struct shard *s, const struct whole *w, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < w->count && rc == 0; i++)
        rc = db_run(s->st, err,
                    "UPDATE segment SET speaker_id = nullif(?1, 0) "
                    "WHERE segment_id = ?2 AND speaker_id IS NOT nullif(?1, 0)",
                    "ii", w->parts[i].speaker, s->ids[s->id_count - w->count + i]);
    return rc;
}

/* *at: moves behind the segment that begins there. */
static int part(struct shard *s, size_t *at, struct err *err)
{
    struct whole w;
    int rc;

    whole_of(s, *at, &w);
    *at += w.row_count;
    rc = read_words(s, &w, err);
    if (rc == 0)
        rc = find_parts(s, &w, err);
    if (rc == 0)
        rc = put_ids(s, &w, err);
    if (rc == 0 && !stands(&w))
        rc = rewrite(s, &w, err);
    if (rc == 0)
        rc = name(s, &w, err);
    whole_free(&w);
    return rc;
}

static int renumber(struct shard *s, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < s->id_count && rc == 0; i++)
        rc = db_run(s->st, err, "UPDATE segment SET idx = ?2 WHERE segment_id = ?1", "ii",
                    s->ids[i], (int64_t)i);
    if (rc == 0)
        rc = db_run(s->st, err,
                    "INSERT OR IGNORE INTO correction_due SELECT t.media_id FROM task t "
                    "WHERE t.task_id = ? AND t.current AND EXISTS "
                    "(SELECT 1 FROM correction c WHERE c.media_id = t.media_id)",
                    "i", s->task_id);
    return rc;
}

int parts_make(struct store *st, int64_t task_id, uint32_t seq, const struct parts_turns *by,
               struct err *err)
{
    struct shard s = {.st = st, .task_id = task_id, .seq = seq, .by = by};
    int rc = load(&s, err);

    for (size_t at = 0; at < s.count && rc == 0;)
        rc = part(&s, &at, err);
    if (rc == 0 && s.changed)
        rc = renumber(&s, err);
    for (size_t i = 0; i < s.count; i++) {
        free(s.rows[i].text);
        free(s.rows[i].whole);
    }
    free(s.rows);
    free(s.ids);
    return rc;
}
