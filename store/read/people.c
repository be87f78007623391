/* Who speaks in which recording (store/read/find.h). */
#include "store/read/filter.h"
#include "store/read/find.h"

/* The diarization of a recording that counts. */
#define COUNTS(media)                                                                           \
    "(SELECT o.task_id FROM task o JOIN stage os ON os.stage_id = o.stage_id WHERE o.media_id " \
    "= " media " AND o.state = 'done' AND o.current AND os." DB_SETTLES ")"

#define SPEAKER_COLUMNS                                                                           \
    "SELECT k.speaker_id, k.media_id, k.task_id, p.path, p.member, k.label, ifnull(k.name, ''), " \
    "k.speech_ms, (SELECT count(*) FROM turn u WHERE u.speaker_id = k.speaker_id), s.model, "     \
    "s.model_hash, "
static const char sql_speakers[] =
    " FROM speaker k "
    "JOIN task t ON t.task_id = k.task_id JOIN stage s ON s.stage_id = t.stage_id "
    "JOIN media m ON m.media_id = k.media_id JOIN place p ON p.place_id = m.place_id "
    "WHERE k.task_id = " COUNTS("k.media_id");

static struct find_speaker speaker_row(sqlite3_stmt *stmt)
{
    return (struct find_speaker){.speaker_id = sqlite3_column_int64(stmt, 0),
                                 .media_id = sqlite3_column_int64(stmt, 1),
                                 .task_id = sqlite3_column_int64(stmt, 2),
                                 .path = db_text(stmt, 3),
                                 .member = db_text(stmt, 4),
                                 .label = db_text(stmt, 5),
                                 .name = db_text(stmt, 6),
                                 .speech_ms = sqlite3_column_int64(stmt, 7),
                                 .turns = (uint64_t)sqlite3_column_int64(stmt, 8),
                                 .model = db_text(stmt, 9),
                                 .model_hash = db_text(stmt, 10),
                                 .vector = sqlite3_column_blob(stmt, 11),
                                 .vector_bytes = (size_t)sqlite3_column_bytes(stmt, 11)};
}

int find_speakers(struct store *st, const struct find_people *people, find_speaker_fn fn, void *arg,
                  struct err *err)
{
    struct filter_path path = {0};
    struct buf sql = BUF_INIT;
    sqlite3_stmt *stmt = NULL;
    int rc = filter_path_make(people->path, &path, err), stop = 0;

    if (rc < 0)
        return rc;
    /* What is sorted lies in memory, and a vector is as long as hundreds of names. */
    buf_printf(&sql, SPEAKER_COLUMNS "%s%s",
               people->vectors || people->vectors_only ? "k.vector" : "NULL", sql_speakers);
    buf_printf(&sql, people->media_id ? " AND k.media_id = ?1" : " AND ?1 = 0");
    buf_printf(&sql, people->who
                         ? " AND (k.label = ?2 COLLATE NOCASE OR k.name = ?2 COLLATE NOCASE)"
                         : " AND ?2 IS NULL");
    if (people->path)
        buf_printf(&sql, " AND k.media_id IN (%s)", filter_path_sql(&path, 3));
    buf_printf(&sql, people->vectors_only ? " AND k.vector IS NOT NULL"
                                          : " ORDER BY p.path, p.member, k.media_id, "
                                            "length(k.label), k.label");
    rc = filter_prepare(st, &sql, &stmt, err);
    if (rc == 0)
        rc = filter_bound(db_bind(stmt, "it", people->media_id, people->who), err);
    if (rc == 0 && people->path)
        rc = filter_bound(db_bind(stmt, "--bbb", FILTER_PATH_VALUES(&path)), err);
    while (rc == 0 && !stop && (rc = db_next(st, stmt, err)) == 1) {
        struct find_speaker row = speaker_row(stmt);

        stop = fn(arg, &row);
        rc = 0;
    }
    sqlite3_finalize(stmt);
    filter_path_free(&path);
    buf_free(&sql);
    return rc < 0 ? rc : stop;
}

int find_turns(struct store *st, int64_t media_id, find_turn_fn fn, void *arg, struct err *err)
{
    sqlite3_stmt *stmt = db_prepare(st,
                                    "SELECT u.start_ms, u.end_ms, ifnull(k.name, k.label), "
                                    "k.label "
                                    "FROM turn u JOIN speaker k ON k.speaker_id = u.speaker_id "
                                    "WHERE u.task_id = " COUNTS("?1") " ORDER BY u.idx",
                                    err);
    int rc = 1, stop = 0;

    if (!stmt)
        return err->code;
    if (db_bind(stmt, "i", media_id) != SQLITE_OK)
        rc = err_set(err, ERR_NOMEM, "catalog: out of memory");
    while (rc == 1 && !stop && (rc = db_next(st, stmt, err)) == 1) {
        const struct find_turn row = {sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                                      db_text(stmt, 2), db_text(stmt, 3)};

        stop = fn(arg, &row);
    }
    sqlite3_finalize(stmt);
    return rc < 0 ? rc : stop;
}
