/* Who speaks in a stretch of a recording, and in which recordings (store/read/find.h). */

#include <stdlib.h>
#include <string.h>

#include "store/db.h"
#include "store/read/filter.h"
#include "store/read/find.h"

/* A segment may lie so far outside of its shard: Whisper's windows are 30 s. Narrowing by shard
 * uses segment's index, which has no times. */
#define SHARD_SLACK_MS "30000"

/* A row per speaker, or source where nobody was told apart, in the order of appearance. With one
 * min() the columns that are no sum are those of the row that has it (SQLite, "Bare columns in an
 * aggregate query"). */
static const char sql_said[] =
    "WITH said AS (SELECT g.speaker_id, iif(g.speaker_id IS NULL, g.source, 0) AS source, "
    "g.task_id, g.language, g.text, "
    "min(g.end_ms, ?3) - max(g.start_ms, ?2) AS ms, g.start_ms FROM shard h "
    "CROSS JOIN segment g ON g.task_id = h.task_id AND g.seq = h.seq "
    "WHERE h.task_id = (SELECT o.task_id FROM task o JOIN stage s ON s.stage_id = o.stage_id "
    "WHERE o.media_id = ?1 AND s." DB_TRANSCRIBES " AND o.current) "
    "AND h.start_ms < ?3 + " SHARD_SLACK_MS " AND h.end_ms > ?2 - " SHARD_SLACK_MS " "
    "AND g.start_ms < max(?3, ?2 + 1) AND g.end_ms > ?2) "
    "SELECT coalesce(k.name, k.label, x.label), ifnull(k.label, x.label), a.language, a.text, "
    "sum(a.ms), min(a.start_ms) "
    "FROM said a LEFT JOIN speaker k ON k.speaker_id = a.speaker_id "
    "LEFT JOIN source x ON x.task_id = a.task_id AND x.source = a.source "
    "GROUP BY a.speaker_id, a.source ORDER BY 6, a.speaker_id, a.source";

struct said { /* owned */
    char *speaker, *label, *language, *text;
    int64_t most_ms;
    char *names[FIND_SPEAKERS_MOST];
    size_t count, more;
};

static void said_free(struct said *s)
{
    free(s->speaker);
    free(s->label);
    free(s->language);
    free(s->text);
    for (size_t i = 0; i < s->count; i++)
        free(s->names[i]);
}

static bool copy_column_text(sqlite3_stmt *stmt, int column, char **ret)
{
    free(*ret);
    *ret = strdup(db_text(stmt, column));
    return *ret != NULL;
}

/* Several labels may have been given one name. */
static bool add_name(struct said *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->names[i], name) == 0)
            return true;
    if (!*name)
        return true;
    if (s->count == FIND_SPEAKERS_MOST) {
        s->more++;
        return true;
    }
    s->names[s->count] = strdup(name);
    return s->names[s->count++] != NULL;
}

static int add_speaker_row(struct said *s, sqlite3_stmt *stmt, struct err *err)
{
    int64_t ms = sqlite3_column_int64(stmt, 4);
    bool good = s->text || copy_column_text(stmt, 3, &s->text);

    if (good && (!s->speaker || ms > s->most_ms)) {
        s->most_ms = ms;
        good = copy_column_text(stmt, 0, &s->speaker) && copy_column_text(stmt, 1, &s->label) &&
               copy_column_text(stmt, 2, &s->language);
    }
    good = good && add_name(s, db_text(stmt, 0));
    return good ? 0 : err_no_memory(err, "catalog");
}

int find_said(struct store *st, int64_t media_id, int64_t start_ms, int64_t end_ms, find_said_fn fn,
              void *arg, struct err *err)
{
    struct said s = {0};
    struct db_rows rows;
    int rc;

    /* Kept: it is asked for each of many hits. */
    db_rows_again(&rows, st, err, db_cached(st, sql_said, err), "iii", media_id, start_ms, end_ms);
    while (db_rows_next(&rows))
        rows.rc = add_speaker_row(&s, rows.stmt, err);
    rc = db_rows_end(&rows);
    if (rc == 0 && s.speaker)
        rc = fn(arg, &(struct find_said){s.speaker, s.label, s.language, s.text,
                                         (const char *const *)s.names, s.count, s.more});
    said_free(&s);
    return rc;
}

int find_source(struct store *st, const char *label, bool *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT 1 FROM source WHERE label = ? COLLATE NOCASE LIMIT 1",
                      "t", label);

    if (rc < 0)
        return rc;
    *ret = rc == 1;
    if (rc == 1)
        sqlite3_reset(stmt);
    return 0;
}

/* ---- who speaks in which recording */

/* The diarization of a recording that counts. */
#define COUNTS(media)                                                                           \
    "(SELECT o.task_id FROM task o JOIN stage os ON os.stage_id = o.stage_id WHERE o.media_id " \
    "= " media " AND o.state = 'done' AND o.current AND os." DB_FINALIZES ")"

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
    /* The sorter keeps its rows in memory, and a vector is as long as hundreds of names. */
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
