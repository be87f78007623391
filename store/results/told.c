/* The text of a transcription without times of words, for one of the same recording that is to have
 * them and is the same otherwise. */
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/db.h"
#include "store/facts/result.h"

static void free_shard(struct result_told *t)
{
    struct fact_result r = {.segments = (struct result_segment *)t->segments,
                            .count = t->segment_count};

    fact_result_free(&r);
    free((char *)t->language);
    *t = (struct result_told){0};
}

void store_told_free(struct store_told *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        free_shard(&t->shards[i]);
    free(t->shards);
    *t = (struct store_told){0};
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

static int take(struct store_told *t, size_t *room, sqlite3_stmt *row, struct err *err)
{
    const char *language = (const char *)sqlite3_column_text(row, 1);
    struct fact_result r;
    int rc;

    if (!list_grow(&t->shards, room, t->count, sizeof(*t->shards)))
        return err_set(err, ERR_NOMEM, "catalog: out of memory");
    rc =
        fact_result_get(sqlite3_column_blob(row, 6), (size_t)sqlite3_column_bytes(row, 6), &r, err);
    if (rc < 0)
        return rc;
    t->shards[t->count++] = (struct result_told){
        .seq = (uint32_t)sqlite3_column_int64(row, 0),
        .language = strdup(language ? language : ""),
        .language_prob = (float)sqlite3_column_double(row, 2),
        .account = {sqlite3_column_int64(row, 3), sqlite3_column_int64(row, 4),
                    sqlite3_column_int64(row, 5)},
        .segments = r.segments,
        .segment_count = r.count,
    };
    return t->shards[t->count - 1].language ? 0 : err_set(err, ERR_NOMEM, "catalog: out of memory");
}

int store_told(struct store *st, int64_t task_id, const char *params, uint32_t first, uint32_t last,
               struct store_told *ret, struct err *err)
{
    struct db_rows rows;
    int64_t source = 0;
    size_t room = 0;
    int rc;

    *ret = (struct store_told){0};
    rc = find_source(st, task_id, params, &source, err);
    if (rc != 1)
        return rc;
    db_rows_open(&rows, st, err, sql_shards, "iii", source, (int64_t)first, (int64_t)last);
    while (db_rows_next(&rows))
        rows.rc = take(ret, &room, rows.stmt, err);
    rc = db_rows_end(&rows);
    if (rc < 0)
        store_told_free(ret);
    return rc;
}
