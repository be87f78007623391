/* Retry, cancel, pause and resume: one UPDATE over the selected tasks. */
#include <string.h>

#include "store/apply.h"

/* ?1 job or 0; ?2 path or NULL, ?3 and ?4 what is below it; ?5 now. */
#define SELECTED                                                                               \
    " AND (?1 = 0 OR job_id = ?1) AND (?2 IS NULL OR media_id IN (SELECT media_id FROM place " \
    "WHERE state <> 'replaced' AND (path_raw = ?2 OR (path_raw >= ?3 AND path_raw < ?4)))) "   \
    "AND ?5 IS NOT NULL"

static const char sql_retry[] =
    "UPDATE task SET state = 'pending', attempts = 0, suspect = 0, retry_at = NULL, "
    "error_code = NULL, error = NULL, settled_at = NULL "
    "WHERE (state IN ('failed', 'cancelled') OR (state = 'pending' AND retry_at IS NOT "
    "NULL))" SELECTED;
static const char sql_cancel[] =
    "UPDATE task SET state = 'cancelled', settled_at = ?5 WHERE state = 'pending'" SELECTED;
static const char sql_pause[] =
    "UPDATE task SET paused = 1 WHERE state = 'pending' AND paused = 0" SELECTED;
static const char sql_resume[] = "UPDATE task SET paused = 0 WHERE paused = 1" SELECTED;

static int all_paused(struct store *st, bool *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT 1 FROM setting WHERE name = 'paused'", "");

    if (rc == 1)
        sqlite3_reset(stmt);
    *ret = rc == 1;
    return rc < 0 ? rc : 0;
}

/* Without a selection the whole catalog rests, also what is enqueued later. */
static int pause_all(struct store *st, struct request_reply *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    bool already = false;
    int rc = all_paused(st, &already, err);

    if (rc < 0 || already)
        return rc;
    rc = db_run(st, err, "INSERT INTO setting (name, value) VALUES ('paused', '1')", "");
    if (rc == 0)
        rc = db_first(st, &stmt, err, "SELECT ifnull(sum(pending), 0) FROM stage_total", "");
    if (rc == 1) {
        ret->affected = (uint64_t)sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return rc < 0 ? rc : 0;
}

static int resume_all(struct store *st, struct request_reply *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_run(st, err, "DELETE FROM setting WHERE name = 'paused'", "");
    bool was = rc == 0 && sqlite3_changes64(st->db) > 0;

    if (rc == 0 && was)
        rc = db_first(st, &stmt, err, "SELECT ifnull(sum(pending), 0) FROM stage_total", "");
    if (rc == 1) {
        ret->affected = (uint64_t)sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
        rc = 0;
    }
    return rc;
}

/* A walk that goes on adds nothing more to a job that was cancelled as a whole. */
static int mark_job(struct store *st, const struct request *rq, const char *now, struct err *err)
{
    int rc;

    if (!rq->select_job)
        return 0;
    if (rq->type == REQUEST_CANCEL && !rq->select_path)
        rc = db_run(st, err, "UPDATE job SET cancelled_at = ?2 WHERE job_id = ?1", "it",
                    rq->select_job, now);
    else if (rq->type == REQUEST_RETRY)
        rc = db_run(st, err, "UPDATE job SET cancelled_at = NULL WHERE job_id = ?1", "i",
                    rq->select_job);
    else
        return 0;
    if (rc == 0 && sqlite3_changes64(st->db) == 0)
        rc = err_set(err, ERR_INPUT, "there is no job %lld", (long long)rq->select_job);
    return rc;
}

int select_apply(struct store *st, const struct request *rq, struct request_reply *ret,
                 struct err *err)
{
    bool all = !rq->select_job && !rq->select_path;
    struct db_prefix below = {0};
    char now[CLOCK_ISO_LEN];
    const char *sql;
    int rc = 0;

    db_now(now);
    switch (rq->type) {
    case REQUEST_RETRY:
        sql = sql_retry;
        break;
    case REQUEST_CANCEL:
        sql = sql_cancel;
        break;
    case REQUEST_PAUSE:
        if (all)
            return pause_all(st, ret, err);
        sql = sql_pause;
        break;
    default:
        sql = sql_resume;
        if (all)
            rc = resume_all(st, ret, err);
        break;
    }
    if (rc == 0)
        rc = mark_job(st, rq, now, err);
    if (rc < 0)
        return rc;
    if (rq->select_path) {
        rc = db_prefix(rq->select_path, strlen(rq->select_path), &below, err);
        if (rc == 0)
            rc = db_run(st, err, sql, "ibbbt", rq->select_job, below.low, below.len - 1, below.low,
                        below.len, below.high, below.len, now);
        db_prefix_free(&below);
    } else {
        rc = db_run(st, err, sql, "innnt", rq->select_job, now);
    }
    if (rc == 0)
        ret->affected += (uint64_t)sqlite3_changes64(st->db);
    return rc;
}
