#include "store/parting/task_results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/db.h"
#include "store/fact_result.h"

/* ---- a shard's results as they lie in a catalog: what store_shard_done was once given */

#define MOST_ROWS (1u << 20) /* of a kind in one shard: a catalog may be anybody's */
#define CHUNK 65536

struct chunk { /* of texts and vectors, which stay where they are */
    struct chunk *next;
    size_t used, size;
    char data[];
};

struct list {
    void *items;
    size_t count, cap;
};

struct shard_held {
    struct chunk *chunks;
    struct list sounds, vectors;
    struct fact_result texts;
    struct result_voices voices;
};

struct shard_held *shard_held_new(void) { return calloc(1, sizeof(struct shard_held)); }

static void chunks_free(struct shard_held *h)
{
    while (h->chunks) {
        struct chunk *next = h->chunks->next;

        free(h->chunks);
        h->chunks = next;
    }
}

void shard_held_free(struct shard_held *h)
{
    if (!h)
        return;
    chunks_free(h);
    fact_result_free(&h->texts);
    free(h->sounds.items);
    free(h->vectors.items);
    free(h);
}

/* Zeroed room behind the others; NULL: *err says why. */
static void *append_zeroed_item(struct list *l, size_t size, struct err *err)
{
    if (l->count >= MOST_ROWS) {
        err_set(err, ERR_LIMIT, "a shard of more than %u rows of one kind", MOST_ROWS);
        return NULL;
    }
    if (!list_grow(&l->items, &l->cap, l->count, size)) {
        err_no_memory(err, "catalog");
        return NULL;
    }
    return memset((char *)l->items + l->count++ * size, 0, size);
}

/* Aligned for floats. The copy ends with a NUL. NULL: out of memory. */
static char *copy_to_shard_memory(struct shard_held *h, const void *data, size_t n)
{
    size_t want = (n + 1 + 15) / 16 * 16;
    struct chunk *c = h->chunks;
    char *to;

    if (!c || c->size - c->used < want) {
        size_t size = want > CHUNK ? want : CHUNK;

        c = malloc(sizeof(*c) + size);
        if (!c)
            return NULL;
        *c = (struct chunk){h->chunks, 0, size};
        h->chunks = c;
    }
    to = c->data + c->used;
    c->used += want;
    if (n)
        memcpy(to, data, n);
    to[n] = 0;
    return to;
}

/* A text column; NULL: out of memory. */
static const char *text_of(struct shard_held *h, sqlite3_stmt *stmt, int column)
{
    const char *text = db_text(stmt, column);

    return copy_to_shard_memory(h, text, strlen(text));
}

/* Values of a blob; NULL: out of memory. */
static const float *floats_of(struct shard_held *h, sqlite3_stmt *stmt, int column, uint32_t *n)
{
    const void *data = sqlite3_column_blob(stmt, column);
    size_t bytes =
        data ? (size_t)sqlite3_column_bytes(stmt, column) / sizeof(float) * sizeof(float) : 0;

    *n = (uint32_t)(bytes / sizeof(float));
    return (const float *)(const void *)copy_to_shard_memory(h, data, bytes);
}

static float get_float_or_nan(sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_type(stmt, column) == SQLITE_NULL
               ? NAN
               : (float)sqlite3_column_double(stmt, column);
}

static uint32_t get_uint32_column(sqlite3_stmt *stmt, int column)
{
    int64_t n = sqlite3_column_int64(stmt, column);

    return n >= 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

/* ------------------------------------------------------------------------------- beside them */

static int read_sounds(struct shard_held *h, struct store *st, int64_t task_id, uint32_t seq,
                       struct err *err)
{
    static const char sql[] = "SELECT start_ms, end_ms, class_id, name, score FROM sound "
                              "WHERE task_id = ? AND seq = ? ORDER BY idx";
    struct db_rows rows;

    db_rows_again(&rows, st, err, db_cached(st, sql, err), "ii", task_id, (int64_t)seq);
    while (db_rows_next(&rows)) {
        struct result_sound *s = append_zeroed_item(&h->sounds, sizeof(*s), err);

        if (s)
            *s = (struct result_sound){sqlite3_column_int64(rows.stmt, 0),
                                       sqlite3_column_int64(rows.stmt, 1),
                                       get_uint32_column(rows.stmt, 2), text_of(h, rows.stmt, 3),
                                       get_float_or_nan(rows.stmt, 4)};
        rows.rc = !s ? err->code : s->name ? 0 : err_no_memory(err, "catalog");
    }
    return db_rows_end(&rows);
}

static int read_vectors(struct shard_held *h, struct store *st, int64_t task_id, uint32_t seq,
                        struct err *err)
{
    static const char sql[] = "SELECT start_ms, end_ms, text, vector FROM embedding "
                              "WHERE task_id = ? AND seq = ? ORDER BY idx";
    struct db_rows rows;

    db_rows_again(&rows, st, err, db_cached(st, sql, err), "ii", task_id, (int64_t)seq);
    while (db_rows_next(&rows)) {
        struct store_vector *v = append_zeroed_item(&h->vectors, sizeof(*v), err);
        bool text = sqlite3_column_type(rows.stmt, 2) != SQLITE_NULL;

        if (v)
            *v = (struct store_vector){.start_ms = sqlite3_column_int64(rows.stmt, 0),
                                       .end_ms = sqlite3_column_int64(rows.stmt, 1),
                                       .text = text ? text_of(h, rows.stmt, 2) : NULL,
                                       .values = floats_of(h, rows.stmt, 3, &v->size)};
        if (v)
            v->size = (uint32_t)sqlite3_column_bytes(rows.stmt, 3) / sizeof(float);
        rows.rc = !v                                ? err->code
                  : v->values && (v->text || !text) ? 0
                                                    : err_no_memory(err, "catalog");
    }
    return db_rows_end(&rows);
}

struct voices_to {
    struct shard_held *h;
    uint32_t seq;
    bool found;
};

static int keep_voices(void *arg, int64_t seq, const struct result_voices *v, struct err *err)
{
    struct voices_to *to = arg;
    struct result_voices *r = &to->h->voices;

    if (seq != to->seq)
        return 1;
    *r = *v;
    r->active =
        (const uint8_t *)copy_to_shard_memory(to->h, v->active, (size_t)v->windows * v->frames);
    r->of = (const uint32_t *)(const void *)copy_to_shard_memory(to->h, v->of,
                                                                 v->vector_count * sizeof(*v->of));
    r->vectors = (const float *)(const void *)copy_to_shard_memory(
        to->h, v->vectors, (size_t)v->vector_count * v->size * sizeof(float));
    to->found = true;
    return r->active && r->of && r->vectors ? 1 : err_no_memory(err, "catalog");
}

/* ------------------------------------------------------------------------------------- a shard */

static int read_row(struct shard_held *h, struct store *st, int64_t task_id, uint32_t seq,
                    struct store_shard_result *r, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT start_ms, end_ms, language, language_prob, windows, wall_ms, device, "
                      "done_at, ifnull(speech_ms, -1), ifnull(dropped_ms, 0), "
                      "ifnull(missing_ms, 0), result FROM shard WHERE task_id = ? AND seq = ?",
                      "ii", task_id, (int64_t)seq);

    if (rc != 1)
        return rc < 0 ? rc : err_set(err, ERR_EMPTY, "there is no such shard");
    *r = (struct store_shard_result){.task_id = task_id,
                                     .seq = seq,
                                     .start_ms = sqlite3_column_int64(stmt, 0),
                                     .end_ms = sqlite3_column_int64(stmt, 1),
                                     .language = text_of(h, stmt, 2),
                                     .language_prob = sqlite3_column_type(stmt, 3) == SQLITE_NULL
                                                          ? NAN
                                                          : sqlite3_column_double(stmt, 3),
                                     .windows = get_uint32_column(stmt, 4),
                                     .wall_ms = get_uint32_column(stmt, 5),
                                     .device = text_of(h, stmt, 6),
                                     .done_at = text_of(h, stmt, 7),
                                     .account = {.speech_ms = sqlite3_column_int64(stmt, 8),
                                                 .dropped_ms = sqlite3_column_int64(stmt, 9),
                                                 .missing_ms = sqlite3_column_int64(stmt, 10)}};
    rc = fact_result_get(sqlite3_column_blob(stmt, 11), (size_t)sqlite3_column_bytes(stmt, 11),
                         &h->texts, err);
    sqlite3_reset(stmt);
    if (rc < 0)
        return err_prefix(err, "shard %u", seq);
    return r->language && r->device && r->done_at ? 0 : err_no_memory(err, "catalog");
}

/* *r is valid until the next call. Segments are the machine's.
 * ERR_EMPTY: there is no such shard; ERR_INPUT: impossible values; ERR_LIMIT: more than a shard can
 * have. */
static int shard_held_read(struct shard_held *h, struct store *st, int64_t task_id, uint32_t seq,
                           struct store_shard_result *r, struct err *err)
{
    struct voices_to to = {.h = h, .seq = seq};
    int rc;

    chunks_free(h);
    fact_result_free(&h->texts);
    h->sounds.count = h->vectors.count = 0;
    rc = read_row(h, st, task_id, seq, r, err);
    if (rc == 0)
        rc = read_sounds(h, st, task_id, seq, err);
    if (rc == 0)
        rc = read_vectors(h, st, task_id, seq, err);
    if (rc == 0)
        rc = store_voices_read(st, task_id, (int64_t)seq - 1, keep_voices, &to, err);
    if (rc < 0)
        return rc;
    r->segments = h->texts.segments;
    r->segment_count = h->texts.count;
    r->sounds = h->sounds.items;
    r->sound_count = h->sounds.count;
    r->vectors = h->vectors.items;
    r->vector_count = h->vectors.count;
    r->voices = to.found ? &h->voices : NULL;
    return 0;
}

/* ---- what a task has done, from one catalog into another */

#define MOST_PEOPLE (1u << 24)

struct people { /* of a finalized task; all owned */
    struct result_people of;
    struct result_speaker *speakers;
    struct result_turn *turns;
    int64_t *ids;
    size_t speaker_cap, turn_cap;
};

static void people_free(struct people *p)
{
    for (uint32_t i = 0; i < p->of.speaker_count; i++)
        free((void *)p->speakers[i].values);
    free(p->speakers);
    free(p->turns);
    free(p->ids);
}

/* Room for one more. */
static int grow_result_list(void *list, size_t *cap, size_t count, size_t size, struct err *err)
{
    if (count >= MOST_PEOPLE)
        return err_set(err, ERR_LIMIT, "more speakers or turns than a recording can have");
    return list_grow(list, cap, count, size) ? 0 : err_no_memory(err, "catalog");
}

static int add_speaker(struct people *p, sqlite3_stmt *stmt, struct err *err)
{
    size_t ids_cap = p->speaker_cap;
    uint32_t n = p->of.speaker_count;
    const void *data = sqlite3_column_blob(stmt, 2);
    size_t bytes = (size_t)sqlite3_column_bytes(stmt, 2);
    float *values = NULL;
    int rc = grow_result_list(&p->ids, &ids_cap, n, sizeof(*p->ids), err);

    if (rc == 0)
        rc = grow_result_list(&p->speakers, &p->speaker_cap, n, sizeof(*p->speakers), err);
    if (rc < 0)
        return rc;
    if (data && bytes) {
        if (bytes % sizeof(float) || (p->of.size && p->of.size != bytes / sizeof(float)))
            return err_set(err, ERR_INPUT, "the voices of a recording have different sizes");
        values = malloc(bytes);
        if (!values)
            return err_no_memory(err, "catalog");
        memcpy(values, data, bytes);
        p->of.size = (uint32_t)(bytes / sizeof(float));
    }
    p->ids[n] = sqlite3_column_int64(stmt, 0);
    p->speakers[n] = (struct result_speaker){sqlite3_column_int64(stmt, 1), values};
    p->of.speaker_count++;
    return 0;
}

static int add_turn(struct people *p, sqlite3_stmt *stmt, struct err *err)
{
    int64_t id = sqlite3_column_int64(stmt, 2);
    uint32_t k = 0;
    int rc = grow_result_list(&p->turns, &p->turn_cap, p->of.turn_count, sizeof(*p->turns), err);

    while (rc == 0 && k < p->of.speaker_count && p->ids[k] != id)
        k++;
    if (rc < 0)
        return rc;
    p->turns[p->of.turn_count++] =
        (struct result_turn){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1), k};
    return 0;
}

static int read_people(struct store *from, int64_t task, struct people *p, struct err *err)
{
    static const char sql_speakers[] = "SELECT speaker_id, speech_ms, vector FROM speaker "
                                       "WHERE task_id = ? ORDER BY speaker_id";
    static const char sql_turns[] =
        "SELECT start_ms, end_ms, speaker_id FROM turn WHERE task_id = ? ORDER BY idx";
    struct db_rows rows;
    int rc;

    db_rows_again(&rows, from, err, db_cached(from, sql_speakers, err), "i", task);
    while (db_rows_next(&rows))
        rows.rc = add_speaker(p, rows.stmt, err);
    rc = db_rows_end(&rows);
    if (rc < 0)
        return rc;
    db_rows_again(&rows, from, err, db_cached(from, sql_turns, err), "i", task);
    while (db_rows_next(&rows))
        rows.rc = add_turn(p, rows.stmt, err);
    p->of.speakers = p->speakers;
    p->of.turns = p->turns;
    return db_rows_end(&rows);
}

static int copy_people(struct store *from, int64_t from_task, struct store *to, int64_t to_task,
                       struct err *err)
{
    struct people p = {0};
    int rc = read_people(from, from_task, &p, err);

    if (rc == 0)
        rc = store_finalized_there(to, to_task, &p.of, err);
    people_free(&p);
    return rc;
}

/* 1: it is there. */
static int has_shard(struct store *to, int64_t task, int64_t seq, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(to, &stmt, err, "SELECT 1 FROM shard WHERE task_id = ? AND seq = ?", "ii",
                      task, seq);

    if (rc == 1)
        sqlite3_reset(stmt);
    return rc;
}

static int copy_shard(struct store *from, int64_t from_task, int64_t seq, struct store *to,
                      int64_t to_task, struct shard_held *room, struct task_results *ret,
                      struct err *err)
{
    char when[CLOCK_ISO_LEN];
    struct store_shard_result r;
    int rc = has_shard(to, to_task, seq, err);

    if (rc == 1)
        ret->known++;
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = shard_held_read(room, from, from_task, (uint32_t)seq, &r, err);
    r.task_id = to_task;
    if (rc == 0)
        r.done_at = task_results_when(r.done_at, when);
    if (rc == 0)
        rc = store_shard_done(to, &r, err);
    ret->shards += rc == 0;
    ret->segments += rc == 0 ? r.segment_count : 0;
    return rc;
}

const char *task_results_when(const char *text, char ret[CLOCK_ISO_LEN])
{
    static const char shape[] = "0000-00-00T00:00:00.000Z";
    size_t i = 0;

    db_now(ret);
    for (; shape[i] && (shape[i] == '0' ? text[i] >= '0' && text[i] <= '9' : text[i] == shape[i]);)
        i++;
    if (!shape[i] && !text[i] && strcmp(text, ret) < 0)
        memcpy(ret, text, CLOCK_ISO_LEN);
    return ret;
}

static int copy_shards(struct store *from, int64_t from_task, struct store *to, int64_t to_task,
                       struct shard_held *room, struct task_results *ret, struct err *err)
{
    static const char sql[] = "SELECT seq FROM shard WHERE task_id = ? ORDER BY seq";
    struct db_rows rows;

    db_rows_again(&rows, from, err, db_cached(from, sql, err), "i", from_task);
    while (db_rows_next(&rows)) {
        int64_t seq = sqlite3_column_int64(rows.stmt, 0);

        rows.rc = seq < 0 || seq >= UINT32_MAX
                      ? err_set(err, ERR_INPUT, "a shard of number %lld", (long long)seq)
                      : copy_shard(from, from_task, seq, to, to_task, room, ret, err);
    }
    return db_rows_end(&rows);
}

static int copy_heard(struct store *from, int64_t from_task, struct store *to, int64_t to_task,
                      const char *left_out, struct err *err)
{
    static const char sql[] = "SELECT label FROM source WHERE task_id = ? ORDER BY source LIMIT ?";
    struct result_source sources[RESULT_SOURCES_MAX];
    struct store_heard h = {.sources = sources, .left_out = left_out, .mix_left_out = left_out};
    char *labels[RESULT_SOURCES_MAX];
    struct db_rows rows;
    int rc;

    db_rows_again(&rows, from, err, db_cached(from, sql, err), "ii", from_task,
                  (int64_t)RESULT_SOURCES_MAX);
    while (db_rows_next(&rows)) {
        labels[h.count] = db_dup(rows.stmt, 0);
        sources[h.count].label = labels[h.count];
        rows.rc = labels[h.count] ? 0 : err_no_memory(err, "catalog");
        h.count += rows.rc == 0;
    }
    rc = db_rows_end(&rows);
    if (rc == 0 && (h.count || (left_out && *left_out)))
        rc = store_task_heard(to, to_task, &h, err);
    while (h.count)
        free(labels[--h.count]);
    return rc;
}

struct state {
    int64_t total;  /* 0 unknown */
    bool finalized; /* done, under a stage that finalizes */
    char *left_out;
};

static int read_state(struct store *from, int64_t task, struct state *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(from, &stmt, err,
                      "SELECT ifnull(t.shards_total, 0), t.state = 'done' AND s." DB_FINALIZES
                      ", t.left_out FROM task t "
                      "JOIN stage s ON s.stage_id = t.stage_id WHERE t.task_id = ?",
                      "i", task);

    if (rc != 1)
        return rc;
    ret->total = sqlite3_column_int64(stmt, 0);
    ret->finalized = sqlite3_column_int(stmt, 1);
    ret->left_out = db_dup(stmt, 2);
    sqlite3_reset(stmt);
    if (!ret->left_out)
        return err_no_memory(err, "catalog");
    return ret->total >= 0 && ret->total <= UINT32_MAX
               ? 0
               : err_set(err, ERR_INPUT, "a recording of %lld shards", (long long)ret->total);
}

/* 0: `to` does not know it either. */
static int total_of(struct store *to, int64_t task, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(to, &stmt, err, "SELECT ifnull(shards_total, 0) FROM task WHERE task_id = ?",
                      "i", task);

    if (rc == 1) {
        *ret = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return rc < 0 ? rc : 0;
}

int task_results_copy(struct store *from, int64_t from_task, struct store *to, int64_t to_task,
                      struct shard_held *room, struct task_results *ret, struct err *err)
{
    struct state s = {0};
    int64_t here = 0;
    int rc = read_state(from, from_task, &s, err);

    if (rc == 0)
        rc = copy_heard(from, from_task, to, to_task, s.left_out, err);
    if (rc == 0)
        rc = total_of(to, to_task, &here, err);
    /* A task that is done here with fewer shards is opened again before the others come. If two
     * decodings differ in length, the longer one is believed. */
    if (rc == 0 && s.total > here)
        rc = store_task_total(to, to_task, (uint32_t)s.total, err);
    /* Shards of a finalized one have no voices any more: with its speakers, or not at all. */
    if (rc == 0 && (!s.finalized || s.total >= here))
        rc = copy_shards(from, from_task, to, to_task, room, ret, err);
    if (rc == 0 && s.finalized && s.total >= here)
        rc = copy_people(from, from_task, to, to_task, err);
    free(s.left_out);
    return rc < 0 ? rc : 0;
}
