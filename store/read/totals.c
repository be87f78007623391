#include <string.h>

#include "store/db.h"
#include "store/read/sums.h"

/* The text index has what is current. */
static const char sql_counts[] =
    "SELECT (SELECT count(*) FROM place WHERE state = 'present'), "
    "(SELECT count(*) FROM place WHERE state = 'vanished'), "
    "(SELECT count(*) FROM segment) - (SELECT count(*) FROM task t INDEXED BY task_superseded "
    " CROSS JOIN segment g ON g.task_id = t.task_id WHERE t.current = 0), "
    "EXISTS (SELECT 1 FROM setting WHERE name = 'paused'), (SELECT count(*) FROM trouble)";

static int read_counts(struct store *st, struct store_totals *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, sql_counts, "");

    if (rc != 1)
        return rc;
    ret->places = (uint64_t)sqlite3_column_int64(stmt, 0);
    ret->vanished = (uint64_t)sqlite3_column_int64(stmt, 1);
    ret->segments = (uint64_t)sqlite3_column_int64(stmt, 2);
    ret->paused = sqlite3_column_int(stmt, 3);
    ret->troubles = (uint64_t)sqlite3_column_int64(stmt, 4);
    sqlite3_reset(stmt);
    return 0;
}

static void add_stage(struct store_totals *t, const struct sums_stage *g)
{
    t->shards_done += g->shards_done;
    t->tasks_pending += g->pending;
    t->tasks_waiting += g->waiting;
    t->tasks_paused += g->paused;
    t->tasks_absent += g->absent;
    t->tasks_done += g->done;
    t->tasks_failed += g->failed;
    t->tasks_cancelled += g->cancelled;
    t->tasks_unknown += g->unknown;
    t->bytes_pending += g->bytes_pending;
    t->audio_known_ms += g->audio_known_ms;
    t->audio_done_ms += g->audio_done_ms;
    t->audio_left_ms += g->audio_left_ms;
    t->account.speech_ms += g->account.speech_ms;
    t->account.dropped_ms += g->account.dropped_ms;
    t->account.missing_ms += g->account.missing_ms;
}

int store_totals(struct store *st, struct store_totals *ret, struct err *err)
{
    const struct sums *s = NULL;
    int rc = sums_read(st, &s, err);

    if (rc < 0)
        return rc;
    *ret = (struct store_totals){
        .recordings = s->recordings, .damaged = s->damaged, .archive = s->archive};
    for (size_t i = 0; i < s->stage_count; i++)
        add_stage(ret, &s->stages[i]);
    return read_counts(st, ret, err);
}

uint64_t store_archive_all(const struct store_archive *a)
{
    return a->pending + a->waiting + a->paused + a->absent + a->done + a->failed + a->cancelled;
}

static int count_of(struct store *st, const char *sql, uint64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, sql, "");

    if (rc < 0)
        return rc;
    *ret = (uint64_t)sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 0;
}

static int is_any(struct store *st, const char *sql, bool *ret, struct err *err)
{
    uint64_t n = 0;
    int rc = count_of(st, sql, &n, err);

    *ret = n > 0;
    return rc;
}

int store_is_paused(struct store *st, bool *ret, struct err *err)
{
    return is_any(st, "SELECT EXISTS (SELECT 1 FROM setting WHERE name = 'paused')", ret, err);
}

int store_is_pending(struct store *st, bool *ret, struct err *err)
{
    return is_any(st,
                  "SELECT EXISTS (SELECT 1 FROM task INDEXED BY task_runnable WHERE "
                  "state = 'pending' AND paused = 0 AND absent = 0 AND waits IS NULL) "
                  "OR EXISTS (SELECT 1 FROM task INDEXED BY task_unsettled WHERE "
                  "state = 'pending' AND paused = 0 AND waits = 'settling' AND absent = 0)",
                  ret, err);
}

/* A file that holds something else now has not vanished, and neither has what it held before. */
static const char sql_gone[] =
    "SELECT count(*) FROM media m INDEXED BY media_gone WHERE m.places = 0 AND NOT m.replaced";

int store_gone(struct store *st, uint64_t *ret, struct err *err)
{
    return count_of(st, sql_gone, ret, err);
}

static const char sql_left_out[] =
    "SELECT count(DISTINCT t.media_id) FROM task t INDEXED BY task_left_out "
    "WHERE t.left_out IS NOT NULL AND t.current";

int store_left_out(struct store *st, uint64_t *ret, struct err *err)
{
    return count_of(st, sql_left_out, ret, err);
}

/* A number of enum store_textless, of task t. */
#define TEXTLESS_KIND                                                           \
    "CASE WHEN t.speech_ms > 0 THEN 1 "                                         \
    "WHEN EXISTS (SELECT 1 FROM dropped d WHERE d.task_id = t.task_id) THEN 2 " \
    "WHEN t.speech_ms IS NULL THEN 3 ELSE 0 END"
_Static_assert(TEXTLESS_SILENT == 0 && TEXTLESS_UNBELIEVED == 1 && TEXTLESS_DOUBTFUL == 2 &&
                   TEXTLESS_UNKNOWN == 3,
               "TEXTLESS_KIND");

/* A task that lacks the text of some speech is not `silent`; few tasks do. */
#define TEXTLESS_TASKS                                                                          \
    "WITH empty AS (SELECT task_id FROM task INDEXED BY task_silent WHERE silent UNION "        \
    " SELECT task_id FROM dropped d INDEXED BY dropped_missing WHERE text = '' AND NOT EXISTS " \
    " (SELECT 1 FROM segment g WHERE g.task_id = d.task_id)) "
#define TEXTLESS_FROM \
    "FROM empty CROSS JOIN task t USING (task_id) CROSS JOIN media m USING (media_id) "
#define TEXTLESS_WHERE "WHERE t.current AND t.state = 'done' AND m.audio_tracks IS NOT 0 "

static const char sql_textless[] =
    TEXTLESS_TASKS "SELECT " TEXTLESS_KIND " AS kind, count(*) " TEXTLESS_FROM TEXTLESS_WHERE
                   "AND (?1 = '' OR t.settled_at > ?1) GROUP BY kind";

static const char sql_textless_each[] =
    TEXTLESS_TASKS "SELECT m.media_id, " TEXTLESS_KIND " AS kind, p.path, p.member " TEXTLESS_FROM
                   "JOIN place p ON p.place_id = m.place_id " TEXTLESS_WHERE
                   "AND kind IN (1, 2) ORDER BY kind, p.path, p.member";

int store_textless_each(struct store *st, store_textless_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err, sql_textless_each, "");
    while (db_rows_next(&rows))
        rows.rc = fn(arg, &(struct store_textless_row){
                              .media_id = sqlite3_column_int64(rows.stmt, 0),
                              .kind = (enum store_textless)sqlite3_column_int(rows.stmt, 1),
                              .path = db_text(rows.stmt, 2),
                              .member = db_text(rows.stmt, 3)});
    return db_rows_end(&rows);
}

int store_textless(struct store *st, const char *since, uint64_t ret[TEXTLESS_KINDS],
                   struct err *err)
{
    struct db_rows rows;

    memset(ret, 0, TEXTLESS_KINDS * sizeof(*ret));
    db_rows_open(&rows, st, err, sql_textless, "t", since);
    while (db_rows_next(&rows))
        ret[sqlite3_column_int(rows.stmt, 0)] = (uint64_t)sqlite3_column_int64(rows.stmt, 1);
    return db_rows_end(&rows);
}

static const char sql_textless_of[] =
    "SELECT " TEXTLESS_KIND " FROM media m JOIN task t USING (media_id) "
    "JOIN stage s USING (stage_id) WHERE m.media_id = ?1 AND m.audio_tracks IS NOT 0 "
    "AND t.current AND t.state = 'done' AND s." DB_TRANSCRIBES " "
    "AND NOT EXISTS (SELECT 1 FROM segment g WHERE g.task_id = t.task_id)";

int store_textless_of(struct store *st, int64_t media_id, enum store_textless *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, sql_textless_of, "i", media_id);

    *ret = TEXTLESS_KINDS;
    if (rc != 1)
        return rc;
    *ret = (enum store_textless)sqlite3_column_int(stmt, 0);
    sqlite3_reset(stmt);
    return 0;
}

static const char sql_no_sound[] = "SELECT count(*) FROM media INDEXED BY media_no_sound "
                                   "WHERE audio_tracks = 0 AND NOT replaced";

int store_no_sound(struct store *st, uint64_t *ret, struct err *err)
{
    return count_of(st, sql_no_sound, ret, err);
}

static const char sql_account[] =
    "SELECT ifnull(sum(speech_ms), 0), ifnull(sum(dropped_ms), 0), ifnull(sum(missing_ms), 0) "
    "FROM task WHERE current AND state = 'done' AND (?1 = '' OR settled_at > ?1)";

int store_account(struct store *st, const char *since, struct result_account *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, sql_account, "t", since);

    if (rc < 0)
        return rc;
    *ret = (struct result_account){.speech_ms = sqlite3_column_int64(stmt, 0),
                                   .dropped_ms = sqlite3_column_int64(stmt, 1),
                                   .missing_ms = sqlite3_column_int64(stmt, 2)};
    sqlite3_reset(stmt);
    return 0;
}
