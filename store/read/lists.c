/* The lists for people: failures, events, jobs, progress (store/read/read.h). */
#include "store/db.h"
#include "store/read/read.h"
#include "store/read/sums.h"

#define U64(stmt, column) ((uint64_t)sqlite3_column_int64(stmt, column))

int read_failures(struct store *st, const char *kind, uint64_t limit, read_failure_fn fn, void *arg,
                  struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT kind, path, member, code, reason, stage, at, "
                 "ifnull(media_id, 0), attempts FROM failures "
                 "WHERE ?1 IS NULL OR kind = ?1 "
                 "ORDER BY path, member, kind LIMIT ?2",
                 "ti", kind, limit ? (int64_t)limit : (int64_t)-1);
    while (db_rows_next(&rows)) {
        struct read_failure row = {.kind = db_text(rows.stmt, 0),
                                   .path = db_text(rows.stmt, 1),
                                   .member = db_text(rows.stmt, 2),
                                   .code = db_text(rows.stmt, 3),
                                   .reason = db_text(rows.stmt, 4),
                                   .stage = db_text(rows.stmt, 5),
                                   .at = db_text(rows.stmt, 6),
                                   .media_id = sqlite3_column_int64(rows.stmt, 7),
                                   .attempts = (uint32_t)sqlite3_column_int64(rows.stmt, 8)};
        rows.rc = fn(arg, &row);
    }
    return db_rows_end(&rows);
}

int read_no_sound(struct store *st, const char *since, read_failure_fn fn, void *arg,
                  struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT p.path, p.member, m.decoded_at, m.media_id "
                 "FROM media m INDEXED BY media_no_sound JOIN place p ON p.place_id = m.place_id "
                 "WHERE m.audio_tracks = 0 AND NOT m.replaced AND m.decoded_at > ? "
                 "ORDER BY p.path, p.member",
                 "t", since);
    while (db_rows_next(&rows)) {
        const struct read_failure row = {.kind = "no sound",
                                         .path = db_text(rows.stmt, 0),
                                         .member = db_text(rows.stmt, 1),
                                         .code = "",
                                         .reason = "no audio track",
                                         .stage = "",
                                         .at = db_text(rows.stmt, 2),
                                         .media_id = sqlite3_column_int64(rows.stmt, 3)};
        rows.rc = fn(arg, &row);
    }
    return db_rows_end(&rows);
}

#define AT_MS "CAST(round((julianday(e.at) - 2440587.5) * 86400000) AS INTEGER)"

static int each_event(struct db_rows *rows, read_event_fn fn, void *arg)
{
    while (db_rows_next(rows)) {
        struct read_event row = {.event_id = sqlite3_column_int64(rows->stmt, 0),
                                 .at = db_text(rows->stmt, 1),
                                 .kind = db_text(rows->stmt, 2),
                                 .device = db_text(rows->stmt, 3),
                                 .text = db_text(rows->stmt, 4),
                                 .path = db_text(rows->stmt, 5),
                                 .media_id = sqlite3_column_int64(rows->stmt, 6),
                                 .at_ms = sqlite3_column_int64(rows->stmt, 7)};
        rows->rc = fn(arg, &row);
    }
    return db_rows_end(rows);
}

int read_device_events(struct store *st, const char *since, read_event_fn fn, void *arg,
                       struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT event_id, at, kind, device, text, '', 0, " AT_MS
                 " FROM event e WHERE at >= ?1 AND "
                 "(kind IN ('worker-aside', 'worker-back') OR kind GLOB 'device-*') "
                 "ORDER BY event_id",
                 "t", since);
    return each_event(&rows, fn, arg);
}

int read_events(struct store *st, int64_t after, uint64_t last, read_event_fn fn, void *arg,
                struct err *err)
{
    struct db_rows rows;

    db_rows_open(
        &rows, st, err,
        "SELECT e.event_id, e.at, e.kind, e.device, e.text, p.path, ifnull(e.media_id, 0), " AT_MS
        " FROM (SELECT * FROM event WHERE event_id > ?1 ORDER BY event_id DESC LIMIT ?2) e "
        "LEFT JOIN media m ON m.media_id = e.media_id "
        "LEFT JOIN place p ON p.place_id = m.place_id ORDER BY e.event_id",
        "ii", after, last ? (int64_t)last : (int64_t)-1);
    return each_event(&rows, fn, arg);
}

static const char sql_jobs[] =
    "SELECT j.job_id, j.created_at, j.ended_at, j.command, s.name, s.model, j.language, j.seen, "
    "j.added, j.places, j.changed, j.unchanged, j.vanished, j.tasks, ifnull(j.priority, -2) "
    "FROM job j JOIN stage s ON s.stage_id = j.stage_id ORDER BY j.job_id";

static struct read_job job_row(sqlite3_stmt *stmt, const struct sums *sums)
{
    const struct sums_job *n = sums_of_job(sums, sqlite3_column_int64(stmt, 0));

    return (struct read_job){.job_id = sqlite3_column_int64(stmt, 0),
                             .created_at = db_text(stmt, 1),
                             .ended_at = db_text(stmt, 2),
                             .command = db_text(stmt, 3),
                             .stage = db_text(stmt, 4),
                             .model = db_text(stmt, 5),
                             .language = db_text(stmt, 6),
                             .counts = {.seen = U64(stmt, 7),
                                        .added = U64(stmt, 8),
                                        .places = U64(stmt, 9),
                                        .changed = U64(stmt, 10),
                                        .unchanged = U64(stmt, 11),
                                        .vanished = U64(stmt, 12),
                                        .tasks = U64(stmt, 13)},
                             .priority = store_priority_name(sqlite3_column_int(stmt, 14)),
                             .tasks_pending = n->pending,
                             .tasks_done = n->done,
                             .tasks_failed = n->failed,
                             .tasks_cancelled = n->cancelled,
                             .with_tasks = sums->shown};
}

int read_jobs(struct store *st, read_job_fn fn, void *arg, struct err *err)
{
    const struct sums *sums = NULL;
    struct db_rows rows;

    db_rows_open(&rows, st, err, sql_jobs, "");
    while (db_rows_next(&rows)) {
        rows.rc = sums_read(st, &sums, err); /* fn may have read them anew */
        if (rows.rc == 0) {
            const struct read_job row = job_row(rows.stmt, sums);

            rows.rc = fn(arg, &row);
        }
    }
    return db_rows_end(&rows);
}

static const char sql_progress[] =
    "SELECT s.stage_id, ifnull(s.source_id, 0), s.name, s.model, s.model_dir, s.model_hash, "
    "s.params, (SELECT count(*) FROM task t INDEXED BY task_unsettled "
    " WHERE t.stage_id = s.stage_id AND t.state = 'pending' AND t.paused = 0 "
    " AND t.waits = 'settling') FROM stage s ORDER BY s.stage_id";

static struct read_progress progress_row(sqlite3_stmt *stmt, const struct sums *sums)
{
    const struct sums_stage *n = sums_of_stage(sums, sqlite3_column_int64(stmt, 0));

    return (struct read_progress){.stage_id = sqlite3_column_int64(stmt, 0),
                                  .source_id = sqlite3_column_int64(stmt, 1),
                                  .stage = db_text(stmt, 2),
                                  .model = db_text(stmt, 3),
                                  .model_dir = db_text(stmt, 4),
                                  .model_hash = db_text(stmt, 5),
                                  .params_json = db_text(stmt, 6),
                                  .settling = U64(stmt, 7),
                                  .tasks = n->tasks,
                                  .pending = n->pending,
                                  .done = n->done,
                                  .failed = n->failed,
                                  .cancelled = n->cancelled,
                                  .paused = n->paused,
                                  .absent = n->absent,
                                  .waiting = n->waiting,
                                  .unknown = n->unknown,
                                  .superseded = n->superseded,
                                  .audio_known_ms = n->audio_known_ms,
                                  .audio_done_ms = n->audio_done_ms,
                                  .audio_left_ms = n->audio_left_ms,
                                  .bytes_pending = n->bytes_pending};
}

int read_progress(struct store *st, read_progress_fn fn, void *arg, struct err *err)
{
    const struct sums *sums = NULL;
    struct db_rows rows;

    db_rows_open(&rows, st, err, sql_progress, "");
    while (db_rows_next(&rows)) {
        rows.rc = sums_read(st, &sums, err); /* fn may have read them anew */
        if (rows.rc == 0) {
            const struct read_progress row = progress_row(rows.stmt, sums);

            rows.rc = fn(arg, &row);
        }
    }
    return db_rows_end(&rows);
}

int read_unused(struct store *st, int64_t stage_id, uint64_t *ret, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT count(*) FROM task INDEXED BY task_superseded "
                 "WHERE stage_id = ? AND current = 0 AND wanted = 0",
                 "i", stage_id);
    if (db_rows_next(&rows))
        *ret = U64(rows.stmt, 0);
    return db_rows_end(&rows);
}

int read_results(struct store *st, int64_t media_id, read_result_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT t.stage_id, t.stage, t.model, s.params, t.state, t.current, t.wanted, "
                 "t.pinned, s.model_hash FROM tasks t JOIN stage s ON s.stage_id = t.stage_id "
                 "WHERE t.media_id = ? "
                 "ORDER BY min(t.stage_id) OVER (PARTITION BY t.stage), t.stage_id DESC",
                 "i", media_id);
    while (db_rows_next(&rows)) {
        const struct read_result row = {.stage_id = sqlite3_column_int64(rows.stmt, 0),
                                        .stage = db_text(rows.stmt, 1),
                                        .model = db_text(rows.stmt, 2),
                                        .model_hash = db_text(rows.stmt, 8),
                                        .params_json = db_text(rows.stmt, 3),
                                        .state = db_text(rows.stmt, 4),
                                        .current = sqlite3_column_int(rows.stmt, 5) != 0,
                                        .wanted = sqlite3_column_int(rows.stmt, 6) != 0,
                                        .pinned = sqlite3_column_int(rows.stmt, 7) != 0};

        rows.rc = fn(arg, &row);
    }
    return db_rows_end(&rows);
}
