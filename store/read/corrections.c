#include "store/read/corrections.h"

#include "store/read/filter.h"

/* The words that the current transcription has at the time of a correction in conflict. */
#define HEARD_NOW                                                                                 \
    "iif(c.state = 'conflict', (SELECT group_concat(text, ' ') FROM (SELECT g.text FROM task t "  \
    "JOIN stage s ON s.stage_id = t.stage_id JOIN segment g ON g.task_id = t.task_id "            \
    "WHERE t.media_id = c.media_id AND t.current AND s." DB_TRANSCRIBES                           \
    " AND g.text <> '' AND g.start_ms < max(c.end_ms, c.start_ms + 1) AND g.end_ms > c.start_ms " \
    "ORDER BY g.seq, g.idx)), '')"

int read_corrections(struct store *st, const struct read_corrections *which, read_correction_fn fn,
                     void *arg, struct err *err)
{
    struct filter_path path = {0};
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    sqlite3_stmt *s;
    int rc = filter_path_make(which->path, &path, err);

    if (rc < 0)
        return rc;
    buf_printf(&sql,
               "SELECT c.correction_id, c.media_id, c.start_ms, c.end_ms, c.said, c.meant, "
               "c.before, c.after, c.made_by, c.made_at, c.source, c.decided_by, c.decided_at, "
               "c.state, " HEARD_NOW ", p.path, p.member FROM correction c "
               "JOIN media m ON m.media_id = c.media_id JOIN place p ON p.place_id = m.place_id "
               "WHERE (?1 = 0 OR c.media_id = ?1) AND (?2 = 0 OR c.correction_id = ?2) "
               "AND (?3 IS NULL OR c.state = ?3)");
    if (which->path)
        buf_printf(&sql, " AND c.media_id IN (%s)", filter_path_sql(&path, 4));
    buf_printf(&sql, " ORDER BY c.media_id, c.start_ms, c.correction_id");
    db_rows_open(&rows, st, err, buf_cstr(&sql), "iit", which->media_id, which->correction_id,
                 which->state);
    if (which->path)
        db_rows_bind(&rows, "---bbb", FILTER_PATH_VALUES(&path));
    s = rows.stmt;
    while (db_rows_next(&rows)) {
        const struct read_correction row = {.correction_id = sqlite3_column_int64(s, 0),
                                            .media_id = sqlite3_column_int64(s, 1),
                                            .start_ms = sqlite3_column_int64(s, 2),
                                            .end_ms = sqlite3_column_int64(s, 3),
                                            .said = db_text(s, 4),
                                            .meant = db_text(s, 5),
                                            .before = db_text(s, 6),
                                            .after = db_text(s, 7),
                                            .made_by = db_text(s, 8),
                                            .made_at = db_text(s, 9),
                                            .source = db_text(s, 10),
                                            .decided_by = db_text(s, 11),
                                            .decided_at = db_text(s, 12),
                                            .state = db_text(s, 13),
                                            .heard_now = db_text(s, 14),
                                            .path = db_text(s, 15),
                                            .member = db_text(s, 16)};

        rows.rc = fn(arg, &row);
    }
    rc = db_rows_end(&rows);
    filter_path_free(&path);
    buf_free(&sql);
    return rc;
}

int read_correction_counts(struct store *st, int64_t media_id, struct read_correction_counts *ret,
                           struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT (SELECT count(*) FROM correction WHERE (?1 = 0 OR media_id = ?1) "
                      "AND state <> 'undone'), (SELECT count(*) FROM correction c "
                      "WHERE (?1 = 0 OR c.media_id = ?1) AND c.state = 'conflict' AND EXISTS "
                      "(SELECT 1 FROM task t JOIN stage s ON s.stage_id = t.stage_id "
                      "WHERE t.media_id = c.media_id AND t.current AND t.shards_done > 0 "
                      "AND s." DB_TRANSCRIBES "))",
                      "i", media_id);

    if (rc != 1)
        return rc;
    *ret = (struct read_correction_counts){(uint64_t)sqlite3_column_int64(stmt, 0),
                                           (uint64_t)sqlite3_column_int64(stmt, 1)};
    sqlite3_reset(stmt);
    return 0;
}
