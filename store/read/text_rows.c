/* Transcripts, what was dropped from them, and their words. */
#include "store/read/text_rows.h"

#include <math.h>

/* Whom nobody was told apart from others is called after the channel or track, where there are
 * several.
 */
#define SPEAKER                                                \
    "coalesce(k.name, k.label, (SELECT x.label FROM source x " \
    "WHERE x.task_id = g.task_id AND x.source = g.source AND g.source > 0), ''), "

void text_rows_select(struct buf *sql, const char *snippet, const char *from, const char *where)
{
    buf_printf(sql,
               "SELECT g.segment_id, t.media_id, g.start_ms, g.end_ms, g.text, g.language, " SPEAKER
               "g.avg_logprob, g.no_speech_prob, "
               "g.compression_ratio, g.temperature, p.path, p.member, %s, "
               "g.attempts, g.speech_prob, g.reason, "
               "EXISTS (SELECT 1 FROM word w WHERE w.segment_id = g.segment_id), g.heard "
               "FROM %s "
               "CROSS JOIN task t ON t.task_id = g.task_id "
               "CROSS JOIN media m ON m.media_id = t.media_id "
               "CROSS JOIN place p ON p.place_id = m.place_id "
               "LEFT JOIN speaker k ON k.speaker_id = g.speaker_id "
               "WHERE (g.text <> '' OR g.heard IS NULL) AND %s",
               snippet, from, where);
}

static double get_column_or_nan(sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? NAN
                                                            : sqlite3_column_double(stmt, column);
}

void text_rows_each(struct db_rows *rows, read_segment_fn fn, void *arg)
{
    sqlite3_stmt *stmt = rows->stmt;

    while (db_rows_next(rows)) {
        struct read_segment row = {.segment_id = sqlite3_column_int64(stmt, 0),
                                   .media_id = sqlite3_column_int64(stmt, 1),
                                   .start_ms = sqlite3_column_int64(stmt, 2),
                                   .end_ms = sqlite3_column_int64(stmt, 3),
                                   .text = db_text(stmt, 4),
                                   .language = db_text(stmt, 5),
                                   .speaker = db_text(stmt, 6),
                                   .avg_logprob = get_column_or_nan(stmt, 7),
                                   .no_speech_prob = get_column_or_nan(stmt, 8),
                                   .compression_ratio = get_column_or_nan(stmt, 9),
                                   .temperature = get_column_or_nan(stmt, 10),
                                   .path = db_text(stmt, 11),
                                   .member = db_text(stmt, 12),
                                   .snippet = (const char *)sqlite3_column_text(stmt, 13),
                                   .attempts = (uint32_t)sqlite3_column_int64(stmt, 14),
                                   .speech_prob = get_column_or_nan(stmt, 15),
                                   .reason = db_text(stmt, 16),
                                   .has_words = sqlite3_column_int(stmt, 17) != 0,
                                   .heard = (const char *)sqlite3_column_text(stmt, 18)};
        rows->rc = fn(arg, &row);
    }
}

int text_rows_give(struct db_rows *rows, read_segment_fn fn, void *arg)
{
    text_rows_each(rows, fn, arg);
    return db_rows_end(rows);
}

static int read_from(struct store *st, const char *table, int64_t media_id, int64_t stage_id,
                     read_segment_fn fn, void *arg, struct err *err)
{
    struct buf sql = BUF_INIT;
    struct db_rows rows;

    text_rows_select(
        &sql, "NULL", table,
        "g.task_id = (SELECT o.task_id FROM task o JOIN stage s ON s.stage_id = o.stage_id "
        "WHERE o.media_id = ?1 AND (o.stage_id = ?2 OR (?2 = 0 "
        "AND s." DB_TRANSCRIBES " AND o.current))) ORDER BY g.seq, g.idx");
    db_rows_open(&rows, st, err, buf_cstr(&sql), "ii", media_id, stage_id);
    buf_free(&sql);
    return text_rows_give(&rows, fn, arg);
}

int read_segments(struct store *st, int64_t media_id, int64_t stage_id, read_segment_fn fn,
                  void *arg, struct err *err)
{
    return read_from(st, "segment g", media_id, stage_id, fn, arg, err);
}

/* With the columns that text_rows_select asks for. */
#define AS_HEARD                                                                             \
    "(SELECT segment_id, task_id, seq, idx, start_ms, end_ms, ifnull(heard, text) AS text, " \
    "NULL AS heard, language, speaker_id, avg_logprob, no_speech_prob, compression_ratio, "  \
    "temperature, attempts, speech_prob, reason, source FROM segment) g"

int read_heard(struct store *st, int64_t media_id, int64_t stage_id, read_segment_fn fn, void *arg,
               struct err *err)
{
    return read_from(st, AS_HEARD, media_id, stage_id, fn, arg, err);
}

int read_dropped(struct store *st, int64_t media_id, int64_t stage_id, read_segment_fn fn,
                 void *arg, struct err *err)
{
    return read_from(st, TEXT_ROWS_DROPPED, media_id, stage_id, fn, arg, err);
}

int read_account(struct store *st, int64_t media_id, struct result_account *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT t.speech_ms, t.dropped_ms, t.missing_ms FROM task t "
                      "JOIN stage s ON s.stage_id = t.stage_id WHERE t.media_id = ? AND t.current "
                      "AND s." DB_TRANSCRIBES " AND t.speech_ms IS NOT NULL",
                      "i", media_id);

    *ret = (struct result_account){.speech_ms = -1};
    if (rc != 1)
        return rc;
    *ret = (struct result_account){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                                   sqlite3_column_int64(stmt, 2)};
    sqlite3_reset(stmt);
    return 0;
}

int read_words(struct store *st, int64_t segment_id, read_word_fn fn, void *arg, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err,
                      "SELECT w.start_ms, w.end_ms, w.text, w.probability, ifnull(k.name, k.label) "
                      "FROM word w LEFT JOIN speaker k ON k.speaker_id = w.speaker_id "
                      "WHERE w.segment_id = ? ORDER BY w.idx",
                      "i", segment_id);
    int stop = 0;

    while (rc == 1 && !stop) {
        const struct read_word row = {sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                                      db_text(stmt, 2), get_column_or_nan(stmt, 3),
                                      db_text(stmt, 4)};

        stop = fn(arg, &row);
        if (stop)
            sqlite3_reset(stmt);
        else
            rc = db_next(st, stmt, err);
    }
    return rc < 0 ? rc : stop;
}
