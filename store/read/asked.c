#include "store/read/asked.h"

#include <stdio.h>
#include <string.h>

#include "store/read/filter.h"

/* Of a row whose stage is s, and o the stage that works on. */
#define STAGE                                                                             \
    "s.stage_id, s.name, s.model, s.model_dir, s.model_hash, s.params, o.name, o.model, " \
    "o.model_dir, o.model_hash, o.params"
#define STAGE_COLUMNS 11
#define SOURCE "LEFT JOIN stage o ON o.stage_id = s.source_id "

/* From the columns of STAGE. *source is its room. */
static void stage_of(sqlite3_stmt *stmt, struct asked *ret, struct store_stage *source)
{
    const bool has = sqlite3_column_type(stmt, 6) != SQLITE_NULL;

    *source = (struct store_stage){.name = has ? db_text(stmt, 6) : NULL,
                                   .model = db_text(stmt, 7),
                                   .model_dir = db_text(stmt, 8),
                                   .model_hash = db_text(stmt, 9),
                                   .params_json = db_text(stmt, 10)};
    ret->stage_id = sqlite3_column_int64(stmt, 0);
    ret->stage = (struct store_stage){.name = db_text(stmt, 1),
                                      .model = db_text(stmt, 2),
                                      .model_dir = db_text(stmt, 3),
                                      .model_hash = db_text(stmt, 4),
                                      .params_json = db_text(stmt, 5),
                                      .source = has ? source : NULL};
}

static const char sql_each[] =
    "SELECT " STAGE ", CAST(a.path_raw AS TEXT), a.options "
    "FROM asking a JOIN stage s ON s.stage_id = a.stage_id " SOURCE "ORDER BY a.path_raw, a.kind";

int asked_each(struct store *st, asked_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err, sql_each, "");
    while (db_rows_next(&rows)) {
        const int options = STAGE_COLUMNS + 1;
        struct store_stage source;
        struct asked row = {.path = db_text(rows.stmt, STAGE_COLUMNS)};

        stage_of(rows.stmt, &row, &source);
        if (sqlite3_column_type(rows.stmt, options) != SQLITE_NULL)
            row.options = db_text(rows.stmt, options);
        rows.rc = fn(arg, &row);
    }
    return db_rows_end(&rows);
}

#define PLACE_BELOW DB_BELOW("p.path_raw", "?1", "?2", "?3")
#define ASKING_BELOW DB_BELOW("a.path_raw", "?1", "?2", "?3")
#define ASKING_ABOVE DB_UNDER("?1", "a.path_raw")
#define PLACE_OF_ASKING DB_PATHS_OF("a.path_raw", "q.path_raw")

/* From each asking below the path to its places, by the index, since to look at all askings for
 * each place takes seconds where both are thousands. One above the path has them all. */
static const char sql_usual[] =
    "SELECT " STAGE " FROM (SELECT t.stage_id, count(*) AS n FROM place p "
    "JOIN task t ON t.media_id = p.media_id AND t.wanted "
    "WHERE p.state = 'present' AND " PLACE_BELOW " AND p.place_id NOT IN "
    "(SELECT q.place_id FROM asking a CROSS JOIN place q ON q.state <> 'replaced' "
    " AND " PLACE_OF_ASKING " WHERE " ASKING_BELOW ") "
    "AND NOT EXISTS (SELECT 1 FROM asking a WHERE " ASKING_ABOVE ") "
    "GROUP BY t.stage_id) u JOIN stage s ON s.stage_id = u.stage_id " SOURCE
    "ORDER BY s.name, u.n DESC, s.stage_id DESC";

int asked_usual(struct store *st, const char *path, asked_fn fn, void *arg, struct err *err)
{
    struct filter_path at;
    struct db_rows rows;
    char last[64] = "";
    int rc = filter_path_make(path, &at, err);

    if (rc != 0)
        return rc;
    db_rows_open(&rows, st, err, sql_usual, "bbb", FILTER_PATH_VALUES(&at));
    while (db_rows_next(&rows)) {
        struct store_stage source;
        struct asked row = {.path = path};

        stage_of(rows.stmt, &row, &source);
        if (strcmp(row.stage.name, last) == 0)
            continue;
        snprintf(last, sizeof(last), "%s", row.stage.name);
        rows.rc = fn(arg, &row);
    }
    rc = db_rows_end(&rows);
    filter_path_free(&at);
    return rc;
}

/* ?1 the kind, ?2 hash and ?3 parameters of the new stage. */
static const char sql_others[] =
    "SELECT " STAGE ", sum(NOT u.has), sum(u.has), "
    "ifnull(sum(iif(u.has, 0, u.duration_ms)), 0), "
    "sum(NOT u.has AND u.duration_ms IS NULL) "
    "FROM (SELECT t.stage_id, m.duration_ms, "
    " EXISTS (SELECT 1 FROM task n JOIN stage k ON k.stage_id = n.stage_id "
    "  WHERE n.media_id = m.media_id AND n.state = 'done' AND k.name = ?1 AND k.model_hash = ?2 "
    "  AND k.params = ?3) AS has "
    " FROM media m JOIN task t ON t.media_id = m.media_id AND t.wanted "
    " JOIN stage w ON w.stage_id = t.stage_id AND w.name = ?1 "
    " WHERE m.media_id IN (SELECT media_id FROM place p WHERE p.state = 'present' "
    "  AND " DB_BELOW(
        "p.path_raw", "?4", "?5",
        "?6") ") "
              " AND (w.model_hash, w.params) <> (?2, ?3) "
              " AND EXISTS (SELECT 1 FROM task d JOIN stage k ON k.stage_id = d.stage_id "
              "  WHERE d.media_id = m.media_id AND k.name = ?1 "
              "  AND (d.state = 'done' OR d.shards_done > 0))) u "
              "JOIN stage s ON s.stage_id = u.stage_id " SOURCE
              "GROUP BY s.stage_id ORDER BY s.stage_id";

int asked_others(struct store *st, const char *path, const struct store_stage *stage,
                 asked_other_fn fn, void *arg, struct err *err)
{
    struct filter_path at;
    struct db_rows rows;
    int rc = filter_path_make(path, &at, err);

    if (rc != 0)
        return rc;
    db_rows_open(&rows, st, err, sql_others, "tttbbb", stage->name, stage->model_hash,
                 stage->params_json, FILTER_PATH_VALUES(&at));
    while (db_rows_next(&rows)) {
        const int column = STAGE_COLUMNS;
        struct store_stage source;
        struct asked_other row = {.was = {.path = path},
                                  .recordings = (uint64_t)sqlite3_column_int64(rows.stmt, column),
                                  .have = (uint64_t)sqlite3_column_int64(rows.stmt, column + 1),
                                  .known_ms = sqlite3_column_int64(rows.stmt, column + 2),
                                  .unknown = (uint64_t)sqlite3_column_int64(rows.stmt, column + 3)};

        stage_of(rows.stmt, &row.was, &source);
        rows.rc = fn(arg, &row);
    }
    rc = db_rows_end(&rows);
    filter_path_free(&at);
    return rc;
}
