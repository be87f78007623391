#include "store/parting/shard_held.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/facts/result.h"

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

static int no_memory(struct err *err) { return err_set(err, ERR_NOMEM, "catalog: out of memory"); }

/* Zeroed room behind the others; NULL: *err says why. */
static void *add(struct list *l, size_t size, struct err *err)
{
    if (l->count >= MOST_ROWS) {
        err_set(err, ERR_LIMIT, "a shard of more than %u rows of one kind", MOST_ROWS);
        return NULL;
    }
    if (!list_grow(&l->items, &l->cap, l->count, size)) {
        no_memory(err);
        return NULL;
    }
    return memset((char *)l->items + l->count++ * size, 0, size);
}

/* Aligned for floats. The copy ends with a NUL. NULL: out of memory. */
static char *keep(struct shard_held *h, const void *data, size_t n)
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

    return keep(h, text, strlen(text));
}

/* Values of a blob; NULL: out of memory. */
static const float *floats_of(struct shard_held *h, sqlite3_stmt *stmt, int column, uint32_t *n)
{
    const void *data = sqlite3_column_blob(stmt, column);
    size_t bytes =
        data ? (size_t)sqlite3_column_bytes(stmt, column) / sizeof(float) * sizeof(float) : 0;

    *n = (uint32_t)(bytes / sizeof(float));
    return (const float *)(const void *)keep(h, data, bytes);
}

static float number(sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_type(stmt, column) == SQLITE_NULL
               ? NAN
               : (float)sqlite3_column_double(stmt, column);
}

static uint32_t small(sqlite3_stmt *stmt, int column)
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
        struct result_sound *s = add(&h->sounds, sizeof(*s), err);

        if (s)
            *s = (struct result_sound){sqlite3_column_int64(rows.stmt, 0),
                                       sqlite3_column_int64(rows.stmt, 1), small(rows.stmt, 2),
                                       text_of(h, rows.stmt, 3), number(rows.stmt, 4)};
        rows.rc = !s ? err->code : s->name ? 0 : no_memory(err);
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
        struct store_vector *v = add(&h->vectors, sizeof(*v), err);
        bool text = sqlite3_column_type(rows.stmt, 2) != SQLITE_NULL;

        if (v)
            *v = (struct store_vector){.start_ms = sqlite3_column_int64(rows.stmt, 0),
                                       .end_ms = sqlite3_column_int64(rows.stmt, 1),
                                       .text = text ? text_of(h, rows.stmt, 2) : NULL,
                                       .values = floats_of(h, rows.stmt, 3, &v->size)};
        if (v)
            v->size = (uint32_t)sqlite3_column_bytes(rows.stmt, 3) / sizeof(float);
        rows.rc = !v ? err->code : v->values && (v->text || !text) ? 0 : no_memory(err);
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
    r->active = (const uint8_t *)keep(to->h, v->active, (size_t)v->windows * v->frames);
    r->of = (const uint32_t *)(const void *)keep(to->h, v->of, v->vector_count * sizeof(*v->of));
    r->vectors = (const float *)(const void *)keep(
        to->h, v->vectors, (size_t)v->vector_count * v->size * sizeof(float));
    to->found = true;
    return r->active && r->of && r->vectors ? 1 : no_memory(err);
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
                                     .windows = small(stmt, 4),
                                     .wall_ms = small(stmt, 5),
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
    return r->language && r->device && r->done_at ? 0 : no_memory(err);
}

int shard_held_read(struct shard_held *h, struct store *st, int64_t task_id, uint32_t seq,
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
