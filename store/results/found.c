#include "store/results/found.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "vectors lie in the catalog as they lie in memory: little-endian"
#endif

#define VOICES_MAX_SPEAKERS 8u

bool found_finite(const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

static int check_voices(const struct result_voices *v, uint32_t seq, struct err *err)
{
    uint64_t local = (uint64_t)v->windows * v->speakers;
    bool good = v->speakers <= VOICES_MAX_SPEAKERS && v->size <= FOUND_MAX_SIZE &&
                v->vector_count <= local &&
                (!v->vector_count || (v->of && v->vectors && v->size)) &&
                (!v->windows || !v->frames || v->active);

    for (uint32_t i = 0; good && i < v->vector_count; i++)
        good = v->of[i] < local && (i == 0 || v->of[i] > v->of[i - 1]);
    if (good && v->vector_count)
        good = found_finite(v->vectors, (size_t)v->vector_count * v->size);
    return good ? 0 : err_set(err, ERR_INPUT, "shard %u: impossible voices", seq);
}

int found_check(const struct store_shard_result *r, struct err *err)
{
    for (size_t i = 0; i < r->sound_count; i++) {
        const struct result_sound *s = &r->sounds[i];

        if (s->start_ms < 0 || s->end_ms < s->start_ms || !s->name || !*s->name ||
            !(s->score >= 0 && s->score <= 1))
            return err_set(err, ERR_INPUT, "shard %u: sound %zu is impossible", r->seq, i);
    }
    for (size_t i = 0; i < r->vector_count; i++) {
        const struct store_vector *v = &r->vectors[i];

        if (v->start_ms < 0 || v->end_ms < v->start_ms || !v->values || !v->size ||
            v->size > FOUND_MAX_SIZE || !found_finite(v->values, v->size))
            return err_set(err, ERR_INPUT, "shard %u: vector %zu is impossible", r->seq, i);
    }
    return r->voices ? check_voices(r->voices, r->seq, err) : 0;
}

static int put_sounds(struct store *st, const struct store_shard_result *r, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < r->sound_count && rc == 0; i++)
        rc = db_run(st, err,
                    "INSERT INTO sound (task_id, seq, idx, start_ms, end_ms, class_id, name, "
                    "score) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    "iiiiiitd", r->task_id, (int64_t)r->seq, (int64_t)i, r->sounds[i].start_ms,
                    r->sounds[i].end_ms, (int64_t)r->sounds[i].class_id, r->sounds[i].name,
                    r->sounds[i].score);
    return rc;
}

static int put_vectors(struct store *st, const struct store_shard_result *r, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < r->vector_count && rc == 0; i++) {
        const struct store_vector *v = &r->vectors[i];

        rc = db_run(st, err,
                    "INSERT INTO embedding (task_id, seq, idx, start_ms, end_ms, text, vector) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    "iiiiitb", r->task_id, (int64_t)r->seq, (int64_t)i, v->start_ms, v->end_ms,
                    v->text, (const void *)v->values, v->size * sizeof(float));
    }
    return rc;
}

static int put_voices(struct store *st, const struct store_shard_result *r, struct err *err)
{
    const struct result_voices *v = r->voices;

    return db_run(st, err,
                  "INSERT INTO voice (task_id, seq, first, windows, frames, speakers, size, "
                  "active, heard, vectors) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                  "iiiiiiibbb", r->task_id, (int64_t)r->seq, (int64_t)v->first, (int64_t)v->windows,
                  (int64_t)v->frames, (int64_t)v->speakers, (int64_t)v->size,
                  (const void *)v->active, (size_t)v->windows * v->frames, (const void *)v->of,
                  v->vector_count * sizeof(*v->of), (const void *)v->vectors,
                  (size_t)v->vector_count * v->size * sizeof(float));
}

int found_put(struct store *st, const struct store_shard_result *r, struct err *err)
{
    int rc = put_sounds(st, r, err);

    if (rc == 0)
        rc = put_vectors(st, r, err);
    if (rc == 0 && r->voices)
        rc = put_voices(st, r, err);
    return rc;
}

/* ---------------------------------------------------------------------------------- reading */

/* Own, aligned copies of what a row's blobs hold. */
struct heard {
    struct result_voices v;
    uint8_t *active;
    uint32_t *of;
    float *vectors;
};

static void heard_free(struct heard *h)
{
    free(h->active);
    free(h->of);
    free(h->vectors);
    *h = (struct heard){0};
}

/* A blob of exactly `bytes`; *good is cleared when it is not. */
static void *blob_of(sqlite3_stmt *stmt, int column, uint64_t bytes, bool *good)
{
    const void *data = sqlite3_column_blob(stmt, column);
    void *copy;

    *good = *good && (uint64_t)sqlite3_column_bytes(stmt, column) == bytes && (data || !bytes);
    copy = *good ? malloc(bytes + 1) : NULL;
    if (copy && bytes)
        memcpy(copy, data, bytes);
    return copy;
}

static bool number_of(sqlite3_stmt *stmt, int column, uint32_t max, uint32_t *ret)
{
    int64_t n = sqlite3_column_int64(stmt, column);

    *ret = (uint32_t)n;
    return n >= 0 && n <= max;
}

static int heard_row(sqlite3_stmt *stmt, int64_t task_id, struct heard *h, struct err *err)
{
    struct result_voices *v = &h->v;
    uint64_t count = (uint64_t)sqlite3_column_bytes(stmt, 7) / sizeof(uint32_t);
    bool good = number_of(stmt, 1, UINT32_MAX, &v->first) &&
                number_of(stmt, 2, INT32_MAX, &v->windows) &&
                number_of(stmt, 3, INT32_MAX, &v->frames) &&
                number_of(stmt, 4, VOICES_MAX_SPEAKERS, &v->speakers) &&
                number_of(stmt, 5, FOUND_MAX_SIZE, &v->size);
    struct err scratch = {0};

    v->vector_count = (uint32_t)count;
    h->active = blob_of(stmt, 6, (uint64_t)v->windows * v->frames, &good);
    h->of = blob_of(stmt, 7, count * sizeof(uint32_t), &good);
    h->vectors = blob_of(stmt, 8, count * v->size * sizeof(float), &good);
    if (good && (!h->active || !h->of || !h->vectors))
        return err_no_memory(err, "catalog");
    v->active = h->active;
    v->of = h->of;
    v->vectors = h->vectors;
    if (!good || check_voices(v, 0, &scratch) < 0)
        /* Not ERR_CORRUPT: SQLite can read the file, and other recordings may be whole. */
        return err_set(err, ERR_INPUT,
                       "task %lld, shard %lld: the voices kept in the catalog are damaged; trying "
                       "again reads the same, diarizing with other settings hears them anew",
                       (long long)task_id, (long long)sqlite3_column_int64(stmt, 0));
    return 0;
}

int store_voices_read(struct store *st, int64_t task_id, int64_t after, store_voices_fn fn,
                      void *arg, struct err *err)
{
    static const char sql[] =
        "SELECT seq, first, windows, frames, speakers, size, active, heard, vectors "
        "FROM voice WHERE task_id = ? AND seq > ? ORDER BY seq";
    struct heard h = {0};
    struct db_rows rows;

    db_rows_again(&rows, st, err, db_cached(st, sql, err), "ii", task_id, after);
    while (db_rows_next(&rows)) {
        rows.rc = heard_row(rows.stmt, task_id, &h, err);
        if (rows.rc == 0)
            rows.rc = fn(arg, sqlite3_column_int64(rows.stmt, 0), &h.v, err);
        heard_free(&h);
    }
    return db_rows_end(&rows);
}
