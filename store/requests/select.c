/* Retry, cancel, dismiss, pause, resume and priority of the selected tasks. */
#include <string.h>

#include "store/read/filter.h"
#include "store/read/sums.h"
#include "store/requests/request_apply.h"
#include "store/results/complete.h"

/* The tasks that a request finds, and the change it makes to each. The tasks are found once, then
 * changed in pieces; what became of one meanwhile is asked again. */
struct rule {
    const char *find, *change;
};

/* ?1 job or 0. */
#define FIND(condition) "SELECT task_id FROM task WHERE " condition " AND (?1 = 0 OR job_id = ?1)"
/* ?1 the task, ?2 now, ?3 the priority. */
#define CHANGE(what, condition) \
    "UPDATE task SET " what     \
    " WHERE task_id = ?1 AND ?2 IS NOT NULL AND ?3 IS NOT NULL AND " condition
#define RULE(what, condition)                    \
    {                                            \
        FIND(condition), CHANGE(what, condition) \
    }

#define RETRIED                                                                                   \
    "wanted AND (state IN ('failed', 'cancelled') OR (state = 'pending' AND retry_at IS NOT NULL" \
    "))"
#define RETRY                                                                            \
    "state = 'pending', attempts = 0, suspect = 0, retry_at = NULL, error_code = NULL, " \
    "error = NULL, settled_at = NULL"
/* It failed, and that is known; what was to be tried again and was cancelled has a time for it. */
#define DISMISSED(t) \
    t ".state = 'cancelled' AND " t ".error_code IS NOT NULL AND " t ".retry_at IS NULL"
static const struct rule rule_retry = RULE(RETRY, RETRIED);
/* Without a selection: not what was dismissed, nor what waited for that. */
static const struct rule rule_retry_known = {
    FIND(RETRIED " AND NOT (" DISMISSED(
        "task") ") AND NOT (state = 'cancelled' AND EXISTS "
                "(SELECT 1 FROM stage s JOIN task f ON f.stage_id = s.source_id "
                " WHERE s.stage_id = task.stage_id AND f.media_id = task.media_id AND f.wanted "
                " AND " DISMISSED("f") "))"),
    CHANGE(RETRY, RETRIED)};
/* A failed task whose file is gone waits for the file, and is not in the list of failures. */
static const struct rule rule_cancel =
    RULE("state = 'cancelled', settled_at = ?2",
         "(state = 'pending' OR (state = 'failed' AND absent = 1))");
/* Tasks that wait for a failed transcription are dismissed too: they would wait forever. */
static const struct rule rule_dismiss = {
    FIND("state = 'failed' AND wanted"),
    "UPDATE task SET state = 'cancelled', settled_at = ?2 WHERE ?3 IS NOT NULL AND task_id IN "
    "(SELECT f.task_id FROM task f WHERE f.task_id = ?1 AND f.state = 'failed' UNION ALL "
    " SELECT w.task_id FROM task f JOIN stage s ON s.source_id = f.stage_id "
    " JOIN task w ON w.media_id = f.media_id AND w.stage_id = s.stage_id "
    " WHERE f.task_id = ?1 AND f.state = 'failed' AND w.state = 'pending' AND w.waits = 'source')"};
static const struct rule rule_pause = RULE("paused = 1", "state = 'pending' AND paused = 0");
static const struct rule rule_priority = {
    FIND("state = 'pending'"), CHANGE("priority = ?3", "state = 'pending' AND priority <> ?3")};
static const struct rule rule_resume = RULE("paused = 0", "paused = 1");

static const struct rule *rule_of(const struct request *rq)
{
    switch (rq->type) {
    case REQUEST_RETRY:
        return rq->select_job || rq->select_path ? &rule_retry : &rule_retry_known;
    case REQUEST_CANCEL:
        return &rule_cancel;
    case REQUEST_DISMISS:
        return &rule_dismiss;
    case REQUEST_PAUSE:
        return &rule_pause;
    case REQUEST_PRIORITY:
        return &rule_priority;
    default:
        return &rule_resume;
    }
}

/* But for those that are paused by themselves. */
static int count_pending(struct store *st, uint64_t *ret, struct err *err)
{
    const struct sums *sums = NULL;
    int rc = sums_read(st, &sums, err);

    if (rc == 0)
        *ret = sums->archive.pending + sums->archive.waiting;
    return rc;
}

/* Without a selection the whole catalog rests, also what is enqueued later. */
static int pause_all(struct store *st, struct request_reply *ret, struct err *err)
{
    bool already = false;
    int rc = store_is_paused(st, &already, err);

    if (rc < 0 || already)
        return rc;
    rc = db_run(st, err, "INSERT INTO setting (name, value) VALUES ('paused', '1')", "");
    return rc < 0 ? rc : count_pending(st, &ret->affected, err);
}

static int resume_all(struct store *st, struct request_reply *ret, struct err *err)
{
    int rc = db_run(st, err, "DELETE FROM setting WHERE name = 'paused'", "");
    bool was = rc == 0 && sqlite3_changes64(st->db) > 0;

    return was ? count_pending(st, &ret->affected, err) : rc;
}

static int path_known(struct store *st, const char *path, struct err *err)
{
    struct filter_path below;
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    bool known = false;
    int rc = filter_path_make(path, &below, err);

    if (rc < 0)
        return rc;
    buf_printf(&sql, "%s LIMIT 1", filter_path_sql(&below, 1));
    db_rows_open(&rows, st, err, buf_cstr(&sql), "bbb", FILTER_PATH_VALUES(&below));
    while (db_rows_next(&rows))
        known = true;
    rc = db_rows_end(&rows);
    buf_free(&sql);
    filter_path_free(&below);
    return rc < 0 || known ? rc
                           : err_set(err, ERR_MISSING,
                                     "the catalog has no recording at or below '%.200s'", path);
}

/* A slip in a name or a number would else look like there being nothing to do. */
int select_known(struct store *st, const struct request *rq, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc;

    if (rq->select_job) {
        rc = db_first(st, &stmt, err, "SELECT 1 FROM job WHERE job_id = ?1", "i", rq->select_job);
        if (rc == 0)
            rc = err_set(err, ERR_MISSING, "there is no job %lld", (long long)rq->select_job);
        if (rc < 0)
            return rc;
        sqlite3_reset(stmt);
    }
    return rq->select_path ? path_known(st, rq->select_path, err) : 0;
}

/* A walk that goes on adds nothing more to a job that was cancelled as a whole. */
static int mark_job(struct store *st, const struct request *rq, const char *now, struct err *err)
{
    if (!rq->select_job)
        return 0;
    if (rq->type == REQUEST_CANCEL && !rq->select_path)
        return db_run(st, err, "UPDATE job SET cancelled_at = ?2 WHERE job_id = ?1", "it",
                      rq->select_job, now);
    if (rq->type == REQUEST_PRIORITY && !rq->select_path)
        return db_run(st, err, "UPDATE job SET priority = ?2 WHERE job_id = ?1", "ii",
                      rq->select_job, rq->priority);
    if (rq->type == REQUEST_RETRY)
        return db_run(st, err, "UPDATE job SET cancelled_at = NULL WHERE job_id = ?1", "i",
                      rq->select_job);
    return 0;
}

static int find_selected_tasks(struct request_work *w, const struct rule *rule, struct err *err)
{
    const struct request *rq = w->rq;
    struct filter_path below;
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc = filter_path_make(rq->select_path, &below, err);

    if (rc < 0)
        return rc;
    buf_printf(&sql, "%s", rule->find);
    if (rq->select_path)
        buf_printf(&sql, " AND media_id IN (%s)", filter_path_sql(&below, 2));
    buf_printf(&sql, " ORDER BY media_id");
    db_rows_open(&rows, w->st, err, buf_cstr(&sql), "i", rq->select_job);
    if (rq->select_path)
        db_rows_bind(&rows, "-bbb", FILTER_PATH_VALUES(&below));
    while (db_rows_next(&rows))
        rows.rc = apply_ids_add(&w->rows, sqlite3_column_int64(rows.stmt, 0), err);
    rc = db_rows_end(&rows);
    buf_free(&sql);
    filter_path_free(&below);
    return rc;
}

/* Its tasks come one after the other. */
static int count_recording(struct request_work *w, int64_t task_id, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc =
        db_first(w->st, &stmt, err, "SELECT media_id FROM task WHERE task_id = ?1", "i", task_id);

    if (rc == 1) {
        w->reply.affected += sqlite3_column_int64(stmt, 0) != w->counted;
        w->counted = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return rc < 0 ? rc : 0;
}

static int change_selected_task(struct request_work *w, const struct rule *rule, int64_t task_id,
                                struct err *err)
{
    int rc = db_run(w->st, err, rule->change, "iti", task_id, w->now, w->rq->priority);

    if (rc == 0 && sqlite3_changes64(w->st->db) > 0)
        rc = count_recording(w, task_id, err);
    if (rc < 0)
        return rc;
    /* Its last shard may have come after it was given up. */
    return w->rq->type == REQUEST_RETRY ? complete_check(w->st, task_id, w->now, err) : 0;
}

int select_apply(struct request_work *w, struct err *err)
{
    const struct request *rq = w->rq;
    const struct rule *rule = rule_of(rq);
    bool all = !rq->select_job && !rq->select_path;
    int rc = 0;

    if (!w->begun) {
        db_now(w->now);
        rc = select_known(w->st, rq, err);
        if (rc < 0)
            return rc;
        if (all && rq->type == REQUEST_PAUSE)
            return pause_all(w->st, &w->reply, err);
        if (all && rq->type == REQUEST_RESUME)
            rc = resume_all(w->st, &w->reply, err);
        if (rc == 0)
            rc = mark_job(w->st, rq, w->now, err);
        if (rc == 0)
            rc = find_selected_tasks(w, rule, err);
    }
    for (size_t left = APPLY_PIECE; w->rows.next < w->rows.count && left && rc == 0; left--)
        rc = change_selected_task(w, rule, w->rows.list[w->rows.next++], err);
    return rc < 0 ? rc : w->rows.next < w->rows.count;
}
