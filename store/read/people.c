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
#define KNOWN_COLUMNS                                                          \
    ", ifnull(q.name, ''), q.likeness, q.measured, k.group_id, g.recordings, " \
    "EXISTS (SELECT 1 FROM person_voice v WHERE v.speaker_id = k.speaker_id AND NOT v.denied)"
#define KNOWN_JOINS                                         \
    "LEFT JOIN proposals q ON q.speaker_id = k.speaker_id " \
    "LEFT JOIN voice_groups g ON g.group_id = k.group_id "
static const char sql_speakers[] =
    " FROM speaker k "
    "JOIN task t ON t.task_id = k.task_id JOIN stage s ON s.stage_id = t.stage_id "
    "JOIN media m ON m.media_id = k.media_id JOIN place p ON p.place_id = m.place_id ";
static const char sql_counts[] = "WHERE k.task_id = " COUNTS("k.media_id");

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
                                 .vector_bytes = (size_t)sqlite3_column_bytes(stmt, 11),
                                 .proposed = db_text(stmt, 12),
                                 .likeness = sqlite3_column_double(stmt, 13),
                                 .measured = sqlite3_column_int(stmt, 14),
                                 .group_id = sqlite3_column_int64(stmt, 15),
                                 .group_recordings = (uint64_t)sqlite3_column_int64(stmt, 16),
                                 .everywhere = sqlite3_column_int(stmt, 17)};
}

int find_speakers(struct store *st, const struct find_people *people, find_speaker_fn fn, void *arg,
                  struct err *err)
{
    struct filter_path path = {0};
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc = filter_path_make(people->path, &path, err);

    if (rc < 0)
        return rc;
    /* What is sorted lies in memory, and a vector is as long as hundreds of names. */
    buf_printf(&sql, SPEAKER_COLUMNS "%s%s%s%s%s",
               people->vectors || people->vectors_only ? "k.vector" : "NULL",
               people->vectors_only ? ", '', 0, 0, 0, 0, 0" : KNOWN_COLUMNS, sql_speakers,
               people->vectors_only ? "" : KNOWN_JOINS, sql_counts);
    buf_printf(&sql, people->media_id ? " AND k.media_id = ?1" : " AND ?1 = 0");
    buf_printf(&sql, people->who
                         ? " AND (k.label = ?2 COLLATE NOCASE OR k.name = ?2 COLLATE NOCASE)"
                         : " AND ?2 IS NULL");
    if (people->path)
        buf_printf(&sql, " AND k.media_id IN (%s)", filter_path_sql(&path, 3));
    buf_printf(&sql, people->vectors_only ? " AND k.vector IS NOT NULL"
                                          : " ORDER BY p.path, p.member, k.media_id, "
                                            "length(k.label), k.label");
    db_rows_open(&rows, st, err, buf_cstr(&sql), "it", people->media_id, people->who);
    if (people->path)
        db_rows_bind(&rows, "--bbb", FILTER_PATH_VALUES(&path));
    while (db_rows_next(&rows)) {
        struct find_speaker row = speaker_row(rows.stmt);

        rows.rc = fn(arg, &row);
    }
    rc = db_rows_end(&rows);
    filter_path_free(&path);
    buf_free(&sql);
    return rc;
}

int find_turns(struct store *st, int64_t media_id, find_turn_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT u.start_ms, u.end_ms, ifnull(k.name, k.label), k.label "
                 "FROM turn u JOIN speaker k ON k.speaker_id = u.speaker_id "
                 "WHERE u.task_id = " COUNTS("?1") " ORDER BY u.idx",
                 "i", media_id);
    while (db_rows_next(&rows)) {
        const struct find_turn row = {sqlite3_column_int64(rows.stmt, 0),
                                      sqlite3_column_int64(rows.stmt, 1), db_text(rows.stmt, 2),
                                      db_text(rows.stmt, 3)};

        rows.rc = fn(arg, &row);
    }
    return db_rows_end(&rows);
}
