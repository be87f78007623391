#include "store/parting/task_results.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

#define MOST_PEOPLE (1u << 24)

struct people { /* of a settled task; all owned */
    struct result_people of;
    struct result_speaker *speakers;
    struct result_turn *turns;
    int64_t *ids;
    size_t speaker_cap, turn_cap;
};

static int no_memory(struct err *err) { return err_set(err, ERR_NOMEM, "catalog: out of memory"); }

static void people_free(struct people *p)
{
    for (uint32_t i = 0; i < p->of.speaker_count; i++)
        free((void *)p->speakers[i].values);
    free(p->speakers);
    free(p->turns);
    free(p->ids);
}

/* Room for one more. */
static int grow(void *list, size_t *cap, size_t count, size_t size, struct err *err)
{
    if (count >= MOST_PEOPLE)
        return err_set(err, ERR_LIMIT, "more speakers or turns than a recording can have");
    return list_grow(list, cap, count, size) ? 0 : no_memory(err);
}

static int add_speaker(struct people *p, sqlite3_stmt *stmt, struct err *err)
{
    size_t ids_cap = p->speaker_cap;
    uint32_t n = p->of.speaker_count;
    const void *data = sqlite3_column_blob(stmt, 2);
    size_t bytes = (size_t)sqlite3_column_bytes(stmt, 2);
    float *values = NULL;
    int rc = grow(&p->ids, &ids_cap, n, sizeof(*p->ids), err);

    if (rc == 0)
        rc = grow(&p->speakers, &p->speaker_cap, n, sizeof(*p->speakers), err);
    if (rc < 0)
        return rc;
    if (data && bytes) {
        if (bytes % sizeof(float) || (p->of.size && p->of.size != bytes / sizeof(float)))
            return err_set(err, ERR_INPUT, "the voices of a recording have different sizes");
        values = malloc(bytes);
        if (!values)
            return no_memory(err);
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
    int rc = grow(&p->turns, &p->turn_cap, p->of.turn_count, sizeof(*p->turns), err);

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
        rc = store_settled_there(to, to_task, &p.of, err);
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
        rows.rc = labels[h.count] ? 0 : no_memory(err);
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
    int64_t total; /* 0 unknown */
    bool settled;  /* done, under a stage that settles */
    char *left_out;
};

static int read_state(struct store *from, int64_t task, struct state *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(from, &stmt, err,
                      "SELECT ifnull(t.shards_total, 0), t.state = 'done' AND s." DB_SETTLES
                      ", t.left_out FROM task t "
                      "JOIN stage s ON s.stage_id = t.stage_id WHERE t.task_id = ?",
                      "i", task);

    if (rc != 1)
        return rc;
    ret->total = sqlite3_column_int64(stmt, 0);
    ret->settled = sqlite3_column_int(stmt, 1);
    ret->left_out = db_dup(stmt, 2);
    sqlite3_reset(stmt);
    if (!ret->left_out)
        return no_memory(err);
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
    /* What is done here of fewer is open again before the others come. Of two decodings the longer
     * one is believed. */
    if (rc == 0 && s.total > here)
        rc = store_task_total(to, to_task, (uint32_t)s.total, err);
    /* Shards of a settled one have no voices any more: with its speakers, or not at all. */
    if (rc == 0 && (!s.settled || s.total >= here))
        rc = copy_shards(from, from_task, to, to_task, room, ret, err);
    if (rc == 0 && s.settled && s.total >= here)
        rc = copy_people(from, from_task, to, to_task, err);
    free(s.left_out);
    return rc < 0 ? rc : 0;
}
