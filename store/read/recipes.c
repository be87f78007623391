#include "store/read/recipes.h"

#include "store/read/filter.h"

int recipes_each(struct store *st, recipe_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT CAST(path_raw AS TEXT), kind, options, model_hash, ifnull(job_id, 0) "
                 "FROM recipe ORDER BY path_raw, kind",
                 "");
    while (db_rows_next(&rows)) {
        const struct recipe row = {db_text(rows.stmt, 0), db_text(rows.stmt, 1),
                                   db_text(rows.stmt, 2), db_text(rows.stmt, 3),
                                   sqlite3_column_int64(rows.stmt, 4)};

        rows.rc = fn(arg, &row);
    }
    return db_rows_end(&rows);
}

#define DONE_WITH(params)                                                                         \
    "EXISTS (SELECT 1 FROM task n JOIN stage k ON k.stage_id = n.stage_id "                       \
    "  WHERE n.media_id = m.media_id AND n.state = 'done' AND k.name = ?1 AND k.model_hash = ?2 " \
    "  AND k.params = " params ")"

/* ?1 the kind, ?2 hash and ?3 parameters of the new stage, ?7 parameters of the same without times
 * of words. */
static const char sql_others[] =
    "SELECT s.stage_id, s.name, s.model, s.model_dir, s.model_hash, s.params, "
    "sum(NOT u.has AND NOT u.told), sum(u.has), "
    "ifnull(sum(iif(u.has OR u.told, 0, u.duration_ms)), 0), "
    "sum(NOT u.has AND NOT u.told AND u.duration_ms IS NULL), sum(u.told AND NOT u.has) "
    "FROM (SELECT t.stage_id, m.duration_ms, " DONE_WITH("?3") " AS has, " DONE_WITH(
        "?7") " AS told "
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
                        "JOIN stage s ON s.stage_id = u.stage_id "
                        "GROUP BY s.stage_id ORDER BY s.stage_id";

int recipes_others(struct store *st, const char *path, const struct store_stage *stage,
                   const char *untimed, recipe_other_fn fn, void *arg, struct err *err)
{
    struct filter_path at;
    struct db_rows rows;
    int rc = filter_path_make(path, &at, err);

    if (rc != 0)
        return rc;
    db_rows_open(&rows, st, err, sql_others, "tttbbbt", stage->name, stage->model_hash,
                 stage->params_json, FILTER_PATH_VALUES(&at), untimed ? untimed : "");
    while (db_rows_next(&rows)) {
        sqlite3_stmt *s = rows.stmt;
        const struct recipe_other row = {.stage_id = sqlite3_column_int64(s, 0),
                                         .was = {.name = db_text(s, 1),
                                                 .model = db_text(s, 2),
                                                 .model_dir = db_text(s, 3),
                                                 .model_hash = db_text(s, 4),
                                                 .params_json = db_text(s, 5)},
                                         .recordings = (uint64_t)sqlite3_column_int64(s, 6),
                                         .have = (uint64_t)sqlite3_column_int64(s, 7),
                                         .known_ms = sqlite3_column_int64(s, 8),
                                         .unknown = (uint64_t)sqlite3_column_int64(s, 9),
                                         .told = (uint64_t)sqlite3_column_int64(s, 10)};

        rows.rc = fn(arg, &row);
    }
    rc = db_rows_end(&rows);
    filter_path_free(&at);
    return rc;
}
