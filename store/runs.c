#include "store/runs.h"

#include "store/db.h"

#define RUNS_KEPT "1000"
#define SAMPLES_KEPT_MS (INT64_C(60) * 86400 * 1000)

/* In SQL: an ISO-8601 text as ms since 1970. */
#define MS_OF(column) "CAST(round((julianday(" column ") - 2440587.5) * 86400000) AS INTEGER)"

/* -1 becomes NULL; and of two values where one or both may be NULL. */
#define KNOWN "nullif(?, -1)"
#define SUM(column) "coalesce(" column " + excluded." column ", " column ", excluded." column ")"
#define MOST(column) \
    "coalesce(max(" column ", excluded." column "), " column ", excluded." column ")"

int store_run_next(struct store *st, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT ifnull(max(run_id), 0) + 1 FROM run", "");

    if (rc != 1)
        return rc < 0 ? rc : err_set(err, ERR_CORRUPT, "the catalog counts no runs");
    *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return 0;
}

static int put_run(struct store *st, const struct store_run *r, struct err *err)
{
    char started[CLOCK_ISO_LEN], seen[CLOCK_ISO_LEN], ended[CLOCK_ISO_LEN];

    clock_iso8601(r->started_ms, started);
    clock_iso8601(r->seen_ms, seen);
    clock_iso8601(r->ended_ms, ended);
    return db_run(st, err,
                  "INSERT INTO run (run_id, started_at, seen_at, ended_at, why, reason, devices, "
                  "recordings_done, recordings_failed, recordings_left, audio_ms, work_ms) "
                  "VALUES (?, ?, ?, ?, nullif(?, ''), ?, ?, ?, ?, ?, ?, ?) "
                  "ON CONFLICT (run_id) DO UPDATE SET seen_at = excluded.seen_at, "
                  "ended_at = excluded.ended_at, why = excluded.why, reason = excluded.reason, "
                  "devices = excluded.devices, recordings_done = excluded.recordings_done, "
                  "recordings_failed = excluded.recordings_failed, "
                  "recordings_left = excluded.recordings_left, audio_ms = excluded.audio_ms, "
                  "work_ms = excluded.work_ms",
                  "ittttttiiiii", r->run_id, started, seen, r->ended_ms ? ended : NULL, r->why,
                  r->reason, r->devices, (int64_t)r->recordings_done, (int64_t)r->recordings_failed,
                  (int64_t)r->recordings_left, r->audio_ms, r->work_ms);
}

int store_run_note(struct store *st, const struct store_run *r, struct err *err)
{
    int rc;

    if (r->recordings_done > INT64_MAX || r->recordings_failed > INT64_MAX ||
        r->recordings_left > INT64_MAX || r->audio_ms < 0 || r->work_ms < 0)
        return err_set(err, ERR_INPUT, "impossible figures of a run");
    rc = db_enter(st, err);
    if (rc < 0)
        return rc;
    rc = put_run(st, r, err);
    if (rc >= 0)
        rc = db_run(st, err,
                    "UPDATE run SET ended_at = seen_at, why = 'lost' "
                    "WHERE run_id < ? AND ended_at IS NULL",
                    "i", r->run_id);
    if (rc >= 0)
        rc = db_run(st, err,
                    "DELETE FROM run WHERE run_id <= (SELECT run_id FROM run "
                    "ORDER BY run_id DESC LIMIT 1 OFFSET " RUNS_KEPT ")",
                    "");
    return db_leave(st, rc, err);
}

int store_runs_each(struct store *st, uint64_t n, store_run_fn fn, void *arg, struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT run_id, " MS_OF("started_at") ", " MS_OF("seen_at") ", ifnull(" MS_OF(
                     "ended_at") ", 0), ifnull(why, ''), reason, devices, recordings_done, "
                                 "recordings_failed, recordings_left, audio_ms, work_ms "
                                 "FROM run ORDER BY run_id DESC LIMIT ?",
                 "i", (int64_t)(n < INT64_MAX ? n : INT64_MAX));
    while (db_rows_next(&rows)) {
        struct store_run r = {.run_id = sqlite3_column_int64(rows.stmt, 0),
                              .started_ms = sqlite3_column_int64(rows.stmt, 1),
                              .seen_ms = sqlite3_column_int64(rows.stmt, 2),
                              .ended_ms = sqlite3_column_int64(rows.stmt, 3),
                              .why = db_text(rows.stmt, 4),
                              .reason = db_text(rows.stmt, 5),
                              .devices = db_text(rows.stmt, 6),
                              .recordings_done = (uint64_t)sqlite3_column_int64(rows.stmt, 7),
                              .recordings_failed = (uint64_t)sqlite3_column_int64(rows.stmt, 8),
                              .recordings_left = (uint64_t)sqlite3_column_int64(rows.stmt, 9),
                              .audio_ms = sqlite3_column_int64(rows.stmt, 10),
                              .work_ms = sqlite3_column_int64(rows.stmt, 11)};

        rows.rc = fn(arg, &r);
    }
    return db_rows_end(&rows);
}

int store_sample_note(struct store *st, const struct store_sample *s, struct err *err)
{
    char at[CLOCK_ISO_LEN], oldest[CLOCK_ISO_LEN];
    int rc;

    if (s->memory_bytes > INT64_MAX || s->predicted_bytes > INT64_MAX || s->span_ms < 0 ||
        s->busy_ms < 0 || s->audio_ms < 0 || s->seen_ms < 0 || s->left_ms < 0)
        return err_set(err, ERR_INPUT, "impossible figures of a device");
    rc = db_enter(st, err);
    if (rc < 0)
        return rc;
    clock_iso8601(s->at_ms, at);
    clock_iso8601(s->at_ms - SAMPLES_KEPT_MS, oldest);
    rc = db_run(st, err,
                "INSERT INTO run_sample (run_id, device, at, span_ms, busy_ms, "
                "audio_ms, memory_bytes, predicted_bytes, slots, windows, seen_ms, left_ms, "
                "load_ms, energy_j, temperature_c, used_bytes) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, " KNOWN ", " KNOWN ", " KNOWN
                ", " KNOWN ") "
                "ON CONFLICT (run_id, device, at) DO UPDATE SET "
                "span_ms = span_ms + excluded.span_ms, busy_ms = busy_ms + excluded.busy_ms, "
                "audio_ms = audio_ms + excluded.audio_ms, "
                "memory_bytes = max(memory_bytes, excluded.memory_bytes), "
                "predicted_bytes = max(predicted_bytes, excluded.predicted_bytes), "
                "slots = excluded.slots, windows = excluded.windows, "
                "seen_ms = seen_ms + excluded.seen_ms, left_ms = left_ms + excluded.left_ms, "
                "load_ms = " SUM("load_ms") ", energy_j = " SUM(
                    "energy_j") ", "
                                "temperature_c = " MOST("temperature_c") ", used_bytes = " MOST(
                                    "used_bytes"),
                "ittiiiiiiiiiiiii", s->run_id, s->device, at, s->span_ms, s->busy_ms, s->audio_ms,
                (int64_t)s->memory_bytes, (int64_t)s->predicted_bytes, (int64_t)s->slots,
                (int64_t)s->windows, s->seen_ms, s->left_ms, s->load_ms, s->energy_j, s->celsius,
                s->used_bytes);
    if (rc >= 0)
        rc = db_run(st, err, "DELETE FROM run_sample WHERE at < ?", "t", oldest);
    return db_leave(st, rc, err);
}

int store_samples_each(struct store *st, int64_t run_id, store_sample_fn fn, void *arg,
                       struct err *err)
{
    struct db_rows rows;

    db_rows_open(&rows, st, err,
                 "SELECT device, " MS_OF("at") ", span_ms, busy_ms, audio_ms, memory_bytes, "
                                               "predicted_bytes, slots, windows, seen_ms, left_ms, "
                                               "ifnull(load_ms, -1), ifnull(energy_j, -1), "
                                               "ifnull(temperature_c, -1), ifnull(used_bytes, -1) "
                                               "FROM run_sample WHERE run_id = ? "
                                               "ORDER BY device, at",
                 "i", run_id);
    while (db_rows_next(&rows)) {
        struct store_sample s = {
            .run_id = run_id,
            .device = db_text(rows.stmt, 0),
            .at_ms = sqlite3_column_int64(rows.stmt, 1),
            .span_ms = sqlite3_column_int64(rows.stmt, 2),
            .busy_ms = sqlite3_column_int64(rows.stmt, 3),
            .audio_ms = sqlite3_column_int64(rows.stmt, 4),
            .memory_bytes = (uint64_t)sqlite3_column_int64(rows.stmt, 5),
            .predicted_bytes = (uint64_t)sqlite3_column_int64(rows.stmt, 6),
            .slots = (uint32_t)sqlite3_column_int64(rows.stmt, 7),
            .windows = (uint32_t)sqlite3_column_int64(rows.stmt, 8),
            .seen_ms = sqlite3_column_int64(rows.stmt, 9),
            .left_ms = sqlite3_column_int64(rows.stmt, 10),
            .load_ms = sqlite3_column_int64(rows.stmt, 11),
            .energy_j = sqlite3_column_int64(rows.stmt, 12),
            .celsius = sqlite3_column_int64(rows.stmt, 13),
            .used_bytes = sqlite3_column_int64(rows.stmt, 14),
        };

        rows.rc = fn(arg, &s);
    }
    return db_rows_end(&rows);
}
