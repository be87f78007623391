/* Neighbouring segments of a transcription as passages, for the stages that work on its text: as
 * the machine made them, whoever was told apart in them, so that vectors outlive a diarization. */

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "store/db.h"
#include "store/fact_result.h"

#define PAUSE_MS 10000
#define MAX_BYTES 60000 /* of a passage: a message to a worker takes 64 KiB of a text */

struct joining {
    uint32_t chars; /* of a passage, at most */
    struct result_passage *list;
    size_t count, cap;
    struct buf text;                  /* of the passage that grows */
    int64_t start_ms, end_ms, length; /* length: its characters */
};

struct part { /* a segment, or a piece of one that is too long */
    int64_t start_ms, end_ms, length;
    const char *text;
    size_t len;
};

static int finish_passage(struct joining *j, struct err *err)
{
    struct result_passage *list = j->list;
    size_t cap = j->cap ? j->cap * 2 : 64;

    /* First: what could not be put at all leaves a text that looks empty. */
    if (j->text.failed)
        return err_no_memory(err, "catalog");
    if (!j->text.len)
        return 0;
    if (j->count == j->cap) {
        list = realloc(j->list, cap * sizeof(*list));
        if (!list)
            return err_no_memory(err, "catalog");
        j->list = list;
        j->cap = cap;
    }
    if (!buf_cstr(&j->text))
        return err_no_memory(err, "catalog");
    list[j->count++] = (struct result_passage){j->start_ms, j->end_ms, (char *)j->text.data};
    j->text = BUF_INIT;
    return 0;
}

static int join_part(struct joining *j, const struct part *p, struct err *err)
{
    int rc = 0;

    if (j->text.failed || (j->text.len && (p->start_ms - j->end_ms > PAUSE_MS ||
                                           j->length + 1 + p->length > j->chars ||
                                           j->text.len + 1 + p->len > MAX_BYTES)))
        rc = finish_passage(j, err);
    if (rc < 0)
        return rc;
    if (!j->text.len) {
        j->start_ms = p->start_ms;
        j->end_ms = p->end_ms;
        j->length = p->length;
    } else {
        buf_put(&j->text, " ", 1);
        j->length += 1 + p->length;
    }
    buf_put(&j->text, p->text, p->len);
    if (p->end_ms > j->end_ms)
        j->end_ms = p->end_ms;
    return 0;
}

/* A segment as long as no model writes one. Its pieces stay passages of their own: each counts as
 * long as the whole. */
static int join_pieces(struct joining *j, struct part p, size_t left, struct err *err)
{
    int rc = 0;

    for (; left && rc == 0; p.text += p.len, left -= p.len) {
        p.len = left;
        if (left > MAX_BYTES)
            for (p.len = MAX_BYTES; ((unsigned char)p.text[p.len] & 0xC0) == 0x80; p.len--)
                ;
        rc = join_part(j, &p, err);
    }
    return rc;
}

static size_t count_characters(const char *s, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}

/* A catalog may come from anybody: a result that was read has possible times, and UTF-8. */
static int read_segment_text(struct joining *j, const struct result_segment *s, struct err *err)
{
    const char *text = s->text + strspn(s->text, " ");
    struct part p = {.start_ms = s->start_ms, .end_ms = s->end_ms, .text = text};
    size_t len = strlen(text);

    while (len && text[len - 1] == ' ')
        len--;
    p.length = (int64_t)count_characters(text, len);
    return join_pieces(j, p, len, err);
}

/* A shard's. */
static int take_result(struct joining *j, sqlite3_stmt *stmt, struct err *err)
{
    struct fact_result r = {0};
    int rc = fact_result_get(sqlite3_column_blob(stmt, 0), (size_t)sqlite3_column_bytes(stmt, 0),
                             &r, err);

    for (uint32_t i = 0; i < r.count && rc == 0; i++)
        if (!r.segments[i].dropped)
            rc = read_segment_text(j, &r.segments[i], err);
    fact_result_free(&r);
    return rc;
}

static int source_of(struct store *st, int64_t task_id, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT o.task_id FROM task t JOIN stage s ON s.stage_id = t.stage_id "
                      "JOIN task o ON o.media_id = t.media_id AND o.stage_id = s.source_id "
                      "WHERE t.task_id = ? AND o.state = 'done'",
                      "i", task_id);

    if (rc == 0)
        return err_set(err, ERR_INPUT, "task %lld works on no transcription that is done",
                       (long long)task_id);
    if (rc < 0)
        return rc;
    *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 0;
}

int store_passages(struct store *st, int64_t task_id, uint32_t chars, struct result_passage **ret,
                   size_t *n, struct err *err)
{
    struct joining j = {.chars = chars};
    struct db_rows rows;
    int64_t source = 0;
    int rc = source_of(st, task_id, &source, err);

    if (rc == 0) {
        db_rows_open(&rows, st, err,
                     "SELECT result FROM shard WHERE task_id = ? AND result IS NOT NULL "
                     "ORDER BY seq",
                     "i", source);
        while (db_rows_next(&rows))
            rows.rc = take_result(&j, rows.stmt, err);
        rc = db_rows_end(&rows);
    }
    if (rc == 0)
        rc = finish_passage(&j, err);
    buf_free(&j.text);
    if (rc < 0) {
        store_passages_free(j.list, j.count);
        return rc;
    }
    *ret = j.list;
    *n = j.count;
    return 0;
}

void store_passages_free(struct result_passage *p, size_t n)
{
    for (size_t i = 0; p && i < n; i++)
        free((char *)p[i].text);
    free(p);
}

/* ---- the text of a transcription without times of words, for one of the same recording that is
 * to have them and is the same otherwise */

static void free_shard(struct result_known_text *t)
{
    struct fact_result r = {.segments = (struct result_segment *)t->segments,
                            .count = t->segment_count};

    fact_result_free(&r);
    free((char *)t->language);
    *t = (struct result_known_text){0};
}

void store_known_text_free(struct store_known_text *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        free_shard(&t->shards[i]);
    free(t->shards);
    *t = (struct store_known_text){0};
}

/* Who asked for another language has not asked for this text. */
static const char sql_source[] =
    "SELECT o.task_id FROM task t CROSS JOIN stage s ON s.stage_id = t.stage_id "
    "CROSS JOIN stage w ON w.name = s.name AND w.model_hash = s.model_hash AND w.params = ?2 "
    "CROSS JOIN task o ON o.media_id = t.media_id AND o.stage_id = w.stage_id "
    "WHERE t.task_id = ?1 AND o.state = 'done' AND o.language = t.language";

static int find_source(struct store *st, int64_t task_id, const char *params, int64_t *source,
                       struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, sql_source, "it", task_id, params);

    if (rc != 1)
        return rc;
    *source = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 1;
}

static const char sql_shards[] =
    "SELECT seq, language, ifnull(language_prob, 0), ifnull(speech_ms, -1), "
    "ifnull(dropped_ms, 0), ifnull(missing_ms, 0), result "
    "FROM shard WHERE task_id = ? AND seq BETWEEN ? AND ? ORDER BY seq";

static int take_told(struct store_known_text *t, size_t *capacity, sqlite3_stmt *row,
                     struct err *err)
{
    const char *language = (const char *)sqlite3_column_text(row, 1);
    struct fact_result r;
    int rc;

    if (!list_grow(&t->shards, capacity, t->count, sizeof(*t->shards)))
        return err_no_memory(err, "catalog");
    rc =
        fact_result_get(sqlite3_column_blob(row, 6), (size_t)sqlite3_column_bytes(row, 6), &r, err);
    if (rc < 0)
        return rc;
    t->shards[t->count++] = (struct result_known_text){
        .seq = (uint32_t)sqlite3_column_int64(row, 0),
        .language = strdup(language ? language : ""),
        .language_prob = (float)sqlite3_column_double(row, 2),
        .account = {sqlite3_column_int64(row, 3), sqlite3_column_int64(row, 4),
                    sqlite3_column_int64(row, 5)},
        .segments = r.segments,
        .segment_count = r.count,
    };
    return t->shards[t->count - 1].language ? 0 : err_no_memory(err, "catalog");
}

int store_known_text(struct store *st, int64_t task_id, const char *params, uint32_t first,
                     uint32_t last, struct store_known_text *ret, struct err *err)
{
    struct db_rows rows;
    int64_t source = 0;
    size_t capacity = 0;
    int rc;

    *ret = (struct store_known_text){0};
    rc = find_source(st, task_id, params, &source, err);
    if (rc != 1)
        return rc;
    db_rows_open(&rows, st, err, sql_shards, "iii", source, (int64_t)first, (int64_t)last);
    while (db_rows_next(&rows))
        rows.rc = take_told(ret, &capacity, rows.stmt, err);
    rc = db_rows_end(&rows);
    if (rc < 0)
        store_known_text_free(ret);
    return rc;
}
