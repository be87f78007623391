#include "store/read/find.h"

#include <string.h>

#include "store/db.h"
#include "store/read/scope_filter.h"
#include "store/stage_row.h"

/* ---- candidates of a search that are no full text */

#define SOUND_COLUMNS "SELECT t.media_id, d.start_ms, d.end_ms, p.path, p.member, d.name, d.score "
#define SOUND_PLACE \
    "JOIN media m ON m.media_id = t.media_id JOIN place p ON p.place_id = m.place_id "

/* From the classes; or, where few recordings are asked about, from all that is heard in these. */
static const char sql_of_classes[] =
    SOUND_COLUMNS "FROM (" FILTER_CLASSES("?1") ") c CROSS JOIN sound d ON d.name = c.name "
                                                "JOIN task t ON t.task_id = d.task_id " SOUND_PLACE
                                                "WHERE t.current";
static const char sql_of_few[] =
    SOUND_COLUMNS "FROM task t CROSS JOIN sound d ON d.task_id = t.task_id " SOUND_PLACE
                  "WHERE instr(lower(d.name), lower(?1)) > 0 AND t.current";
#define FEW_PART (1.0 / 16) /* of all recordings */

static struct find_sound sound_row(sqlite3_stmt *stmt)
{
    return (struct find_sound){.media_id = sqlite3_column_int64(stmt, 0),
                               .start_ms = sqlite3_column_int64(stmt, 1),
                               .end_ms = sqlite3_column_int64(stmt, 2),
                               .path = db_text(stmt, 3),
                               .member = db_text(stmt, 4),
                               .name = db_text(stmt, 5),
                               .score = sqlite3_column_double(stmt, 6)};
}

static int each_sound(struct store *st, const char *name, const struct scope *scope,
                      const char *order, uint64_t limit, find_sound_fn fn, void *arg,
                      struct err *err)
{
    struct scope_filter filter = {0};
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    double part = 1;
    int rc = scope_filter_make(scope, &filter, err);

    if (rc < 0)
        return rc;
    rc = scope_is_all(scope) ? 0 : scope_part(st, scope, &part, err);
    if (rc < 0)
        goto out;
    buf_printf(&sql, "%s", part < FEW_PART ? sql_of_few : sql_of_classes);
    scope_filter_put(&filter, &sql, "t.media_id", 3);
    buf_printf(&sql, "%s LIMIT ?2", order);
    db_rows_open(&rows, st, err, buf_cstr(&sql), "ti", name, limit ? (int64_t)limit : (int64_t)-1);
    scope_filter_bind(&filter, &rows, 3);
    while (db_rows_next(&rows)) {
        const struct find_sound row = sound_row(rows.stmt);

        rows.rc = fn(arg, &row);
    }
    rc = db_rows_end(&rows);
out:
    scope_filter_free(&filter);
    buf_free(&sql);
    return rc;
}

int find_sounds(struct store *st, const char *name, const struct scope *scope, uint64_t limit,
                find_sound_fn fn, void *arg, struct err *err)
{
    return each_sound(st, name, scope,
                      " ORDER BY d.score DESC, p.path, p.member, d.start_ms, d.task_id, d.seq, "
                      "d.idx",
                      limit, fn, arg, err);
}

static int on_first(void *arg, const struct find_sound *row)
{
    (void)row;
    *(bool *)arg = true;
    return 1;
}

int find_sound_heard(struct store *st, const char *name, const struct scope *scope, bool *ret,
                     struct err *err)
{
    int rc;

    *ret = false;
    rc = each_sound(st, name, scope, "", 1, on_first, ret, err);
    return rc < 0 ? rc : 0;
}

int find_sound_near(struct store *st, int64_t media_id, const char *name, int64_t start_ms,
                    int64_t end_ms, find_sound_fn fn, void *arg, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      SOUND_COLUMNS
                      "FROM task t CROSS JOIN sound d ON d.task_id = t.task_id " SOUND_PLACE
                      "WHERE t.media_id = ?1 AND d.start_ms <= ?4 AND d.end_ms >= ?3 "
                      "AND instr(lower(d.name), lower(?2)) > 0 AND t.current "
                      "ORDER BY d.score DESC, d.start_ms LIMIT 1",
                      "itii", media_id, name, start_ms, end_ms);

    if (rc == 1) {
        const struct find_sound row = sound_row(stmt);

        rc = fn(arg, &row);
        sqlite3_reset(stmt);
    }
    return rc;
}

/* The task whose sounds of recording ?1 count. */
#define LISTENED                                                             \
    "(SELECT t.task_id FROM task t JOIN stage s ON s.stage_id = t.stage_id " \
    "WHERE t.media_id = ?1 AND s." DB_LISTENS " AND t.state = 'done' AND t.current)"

int find_sounds_of(struct store *st, int64_t media_id, find_sound_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT ?1, start_ms, end_ms, '', '', name, score FROM sound "
                 "WHERE task_id = " LISTENED " ORDER BY start_ms, end_ms, name, seq, idx",
                 "i", media_id);
    while (db_rows_next(&rows)) {
        const struct find_sound row = sound_row(rows.stmt);

        rows.rc = fn(arg, &row);
    }
    return db_rows_end(&rows);
}

int find_heard(struct store *st, int64_t media_id, uint64_t limit, find_heard_fn fn, void *arg,
               struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT name, sum(end_ms - start_ms), min(start_ms) FROM sound "
                 "WHERE task_id = " LISTENED " GROUP BY name ORDER BY 2 DESC, 3, 1 LIMIT ?2",
                 "ii", media_id, limit ? (int64_t)limit : (int64_t)-1);
    while (db_rows_next(&rows)) {
        const struct find_heard row = {db_text(rows.stmt, 0), sqlite3_column_int64(rows.stmt, 1),
                                       sqlite3_column_int64(rows.stmt, 2)};

        rows.rc = fn(arg, &row);
    }
    return db_rows_end(&rows);
}

int find_passage(struct store *st, int64_t embedding_id, find_passage_fn fn, void *arg,
                 struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc =
        db_first(st, &stmt, err,
                 "SELECT t.media_id, e.start_ms, e.end_ms, p.path, p.member, e.text "
                 "FROM embedding e JOIN task t ON t.task_id = e.task_id "
                 "JOIN media m ON m.media_id = t.media_id "
                 "JOIN place p ON p.place_id = m.place_id WHERE e.embedding_id = ? AND t.current",
                 "i", embedding_id);

    if (rc == 1) {
        const struct find_passage row = {.media_id = sqlite3_column_int64(stmt, 0),
                                         .path = db_text(stmt, 3),
                                         .member = db_text(stmt, 4),
                                         .passage = {sqlite3_column_int64(stmt, 1),
                                                     sqlite3_column_int64(stmt, 2),
                                                     db_text(stmt, 5)}};

        rc = fn(arg, &row);
        sqlite3_reset(stmt);
    }
    return rc;
}

/* ?1 the recording, ?2 to ?4 the path, ?5 whether it is a member's. */
static const char sql_place[] =
    "SELECT place_id, path, member FROM place WHERE media_id = ?1 AND state <> 'replaced' "
    "AND CASE WHEN ?5 THEN (path_raw = ?2 OR path = CAST(?2 AS TEXT)) "
    "AND " FILTER_MEMBER("?3", "?4") " ELSE (" FILTER_BELOW(
        "?2", "?3", "?4") ") "
                          "OR " FILTER_BELOW_SHOWN("?2", "?3",
                                                   "?4") " END "
                                                         "ORDER BY place_id = (SELECT place_id "
                                                         "FROM media WHERE media_id = ?1) DESC, "
                                                         "state <> 'present', place_id LIMIT 1";

int find_place(struct store *st, int64_t media_id, const char *path, find_place_fn fn, void *arg,
               struct err *err)
{
    struct filter_path filter = {0};
    sqlite3_stmt *stmt = NULL;
    int rc = filter_path_make(path, &filter, err);

    if (rc < 0)
        return rc;
    rc = db_first(st, &stmt, err, sql_place, "ibbbi", media_id, FILTER_PATH_VALUES(&filter),
                  (int64_t)filter.in_archive);
    if (rc == 1) {
        rc = fn(arg, sqlite3_column_int64(stmt, 0), db_text(stmt, 1), db_text(stmt, 2));
        sqlite3_reset(stmt);
    }
    filter_path_free(&filter);
    return rc;
}

int find_stage(struct store *st, const char *name, struct store_stage_row *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    struct store_stage_row s;
    int rc = db_first(st, &stmt, err,
                      "SELECT s.stage_id, s.name, s.model, s.model_dir, s.model_hash, s.params, "
                      "ifnull(s.source_id, 0) FROM stage s WHERE s.name = ?1 AND EXISTS "
                      "(SELECT 1 FROM task t WHERE t.stage_id = s.stage_id AND t.current "
                      " AND t.audio_done_ms > 0) "
                      /* Only where there are several is it asked which has the most. */
                      "AND ((SELECT count(DISTINCT model_hash) FROM stage WHERE name = ?1) = 1 "
                      "OR s.model_hash = (SELECT o.model_hash FROM task t CROSS JOIN stage o "
                      " ON o.stage_id = t.stage_id WHERE o.name = ?1 AND t.current "
                      " GROUP BY o.model_hash "
                      " ORDER BY sum(t.audio_done_ms) DESC, max(o.stage_id) DESC LIMIT 1)) "
                      "ORDER BY s.stage_id DESC LIMIT 1",
                      "t", name);

    if (rc < 0)
        return rc;
    if (rc == 0)
        return err_set(err, ERR_EMPTY, "the catalog has no vectors of '%s'", name);
    rc = stage_row_of(stmt, &s, err);
    sqlite3_reset(stmt);
    if (rc == 0)
        *ret = s;
    return rc;
}

int find_other_vectors(struct store *st, const struct store_stage_row *stage, const char *path,
                       int64_t *ret_ms, struct err *err)
{
    struct filter_path below;
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc = filter_path_make(path, &below, err);

    if (rc < 0)
        return rc;
    buf_printf(&sql, "SELECT ifnull(sum(t.audio_done_ms), 0) FROM stage s CROSS JOIN task t "
                     "ON t.stage_id = s.stage_id WHERE t.current");
    if (path)
        buf_printf(&sql, " AND t.media_id IN (%s)", filter_path_sql(&below, 3));
    buf_printf(&sql, " AND s.name = ?1 AND s.model_hash <> ?2");
    db_rows_open(&rows, st, err, buf_cstr(&sql), "tt", stage->name, stage->model_hash);
    if (path)
        db_rows_bind(&rows, "--bbb", FILTER_PATH_VALUES(&below));
    if (db_rows_next(&rows))
        *ret_ms = sqlite3_column_int64(rows.stmt, 0);
    rc = db_rows_end(&rows);
    buf_free(&sql);
    filter_path_free(&below);
    return rc;
}

/* A shard's language is nearly always its segments', and its table is small. */
int find_language(struct store *st, const char *code, bool *ret, char **have, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT EXISTS (SELECT 1 FROM shard WHERE language = ?1) "
                      "OR EXISTS (SELECT 1 FROM segment WHERE language = ?1)",
                      "t", code);

    if (rc < 0)
        return rc;
    *ret = sqlite3_column_int(stmt, 0) != 0;
    sqlite3_reset(stmt);
    if (*ret)
        return 0;
    rc = db_first(st, &stmt, err,
                  "SELECT ifnull(group_concat(language, ', '), '') FROM "
                  "(SELECT DISTINCT language FROM segment WHERE language <> '' ORDER BY language)",
                  "");
    if (rc < 0)
        return rc;
    *have = strdup(db_text(stmt, 0));
    sqlite3_reset(stmt);
    return *have ? 0 : err_no_memory(err, NULL);
}

/* ---- how much sound the channels of a recording have */

static uint32_t number_of(sqlite3_stmt *stmt, int column)
{
    const int64_t n = sqlite3_column_int64(stmt, column);

    return n > 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

int find_channels(struct store *st, int64_t media_id, find_channel_fn fn, void *arg,
                  struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT track, channel, ifnull(sound_ms, -1), ifnull(length_ms, -1), heard "
                 "FROM channel WHERE media_id = ?1 ORDER BY track, channel LIMIT ?2",
                 "ii", media_id, (int64_t)RESULT_CHANNELS_MAX);
    while (db_rows_next(&rows)) {
        const struct result_channel row = {
            number_of(rows.stmt, 0), number_of(rows.stmt, 1), sqlite3_column_int64(rows.stmt, 2),
            sqlite3_column_int64(rows.stmt, 3), sqlite3_column_int(rows.stmt, 4) != 0};

        rows.rc = result_channel_holds(&row) ? fn(arg, &row) : 0; /* a part may be anybody's */
    }
    return db_rows_end(&rows);
}

/* ---- what the archive says of a recording */

int find_tags(struct store *st, int64_t media_id, find_tag_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT source, key, value, ifnull(start_ms, 0), ifnull(end_ms, 0) FROM tag "
                 "WHERE media_id = ?1 ORDER BY CASE source WHEN 'csv' THEN 0 WHEN 'bext' THEN 1 "
                 "WHEN 'container' THEN 2 WHEN 'stream' THEN 3 WHEN 'ixml' THEN 4 "
                 "WHEN 'chapter' THEN 6 ELSE 5 END, source, key, seq",
                 "i", media_id);
    while (db_rows_next(&rows)) {
        const struct result_tag row = {db_text(rows.stmt, 0), db_text(rows.stmt, 1),
                                       db_text(rows.stmt, 2), sqlite3_column_int64(rows.stmt, 3),
                                       sqlite3_column_int64(rows.stmt, 4)};

        rows.rc = fn(arg, &row);
    }
    return db_rows_end(&rows);
}
