/* Results that are removed, and results that are pinned: both change which of a recording's results
 * are current. */
#include "store/requests/forget.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "store/choice.h"
#include "store/full_text.h"
#include "store/read/filter.h"
#include "store/reading/publish.h"
#include "store/register/register.h"
#include "store/requests/request_apply.h"
#include "store/results/naming.h"
#include "store/vectors/vectors.h"

/* Rows that one commit changes, by triggers too; a recording is not parted. */
#define PIECE_ROWS 50000

/* Tasks that are neither current nor wanted, unless a pending task still needs their results. */
static const char superseded[] =
    "FROM task t INDEXED BY task_superseded JOIN stage s ON s.stage_id = t.stage_id "
    "WHERE ?1 = 0 AND t.current = 0 AND t.wanted = 0 AND NOT EXISTS "
    "(SELECT 1 FROM task d JOIN stage ds ON ds.stage_id = d.stage_id WHERE d.media_id = t.media_id "
    "AND ds.source_id = t.stage_id AND d.wanted AND d.state = 'pending') ";
/* A stage's results, and what was made of them. */
static const char of_stage[] = "FROM stage s CROSS JOIN task t ON t.stage_id = s.stage_id "
                               "WHERE (s.stage_id = ?1 OR s.source_id = ?1) ";
static const char to_pin[] = "FROM stage s CROSS JOIN task t ON t.stage_id = s.stage_id "
                             "WHERE s.stage_id = ?1 AND t.pinned = 0 "
                             "AND t.state IN ('done', 'pending') ";
static const char pinned[] = "FROM task t JOIN stage s ON s.stage_id = t.stage_id "
                             "WHERE ?1 = 0 AND t.pinned ";

typedef int (*row_fn)(void *arg, sqlite3_stmt *stmt, struct err *err);

/* Hands the rows of "SELECT what FROM ... WHERE ... end" to fn, for tasks at or below the path. */
static int visit_task_rows(struct store *st, const char *what, const char *from, const char *end,
                           int64_t stage_id, const char *path, row_fn fn, void *arg,
                           struct err *err)
{
    struct filter_path below;
    struct buf sql = BUF_INIT;
    struct db_rows rows;
    int rc = filter_path_make(path, &below, err);

    if (rc < 0)
        return rc;
    buf_printf(&sql, "SELECT %s %s", what, from);
    if (path)
        buf_printf(&sql, "AND t.media_id IN (%s) ", filter_path_sql(&below, 2));
    buf_printf(&sql, "%s", end);
    db_rows_open(&rows, st, err, buf_cstr(&sql), "i", stage_id);
    if (path)
        db_rows_bind(&rows, "-bbb", FILTER_PATH_VALUES(&below));
    while (db_rows_next(&rows))
        rows.rc = fn(arg, rows.stmt, err);
    rc = db_rows_end(&rows);
    buf_free(&sql);
    filter_path_free(&below);
    return rc;
}

/* ------------------------------------------------------------------------------------ preview */

/* Bytes of a row without its vector, as tables and indexes hold it: what archives had. */
#define OF_TASK "t.task_id = x.task_id"
#define HAS_RESULTS "(t.state = 'done' OR t.shards_done > 0)"
#define PREVIEW                                                                                   \
    "t.stage_id, s.name, s.model, s.params, sum(" HAS_RESULTS "), sum(NOT " HAS_RESULTS "), "     \
    "ifnull(sum((SELECT count(*) FROM segment x WHERE " OF_TASK ")), 0), "                        \
    "ifnull(sum((SELECT count(*) FROM embedding x WHERE " OF_TASK ")), 0), "                      \
    "ifnull(sum((SELECT count(name) FROM speaker x WHERE " OF_TASK ")), 0), "                     \
    "ifnull(sum((SELECT count(*) * 300 FROM segment x WHERE " OF_TASK ")), 0) + "                 \
    "ifnull(sum((SELECT count(*) * 40 FROM segment x JOIN word USING (segment_id) WHERE " OF_TASK \
    ")), 0) + ifnull(sum((SELECT count(*) * 200 FROM dropped x WHERE " OF_TASK ")), 0) + "        \
    "ifnull(sum((SELECT count(*) * 80 FROM sound x WHERE " OF_TASK ")), 0) + "                    \
    "ifnull(sum((SELECT sum(length(vector) + 500) FROM embedding x WHERE " OF_TASK ")), 0) + "    \
    "ifnull(sum((SELECT sum(ifnull(length(vector), 0) + 60) FROM speaker x WHERE " OF_TASK        \
    ")), 0) + ifnull(sum((SELECT count(*) * 60 FROM turn x WHERE " OF_TASK ")), 0) + "            \
    "ifnull(sum((SELECT sum(length(active) + length(heard) + length(vectors)) FROM voice x "      \
    "WHERE " OF_TASK ")), 0) + sum(t.shards_done * 120 + 150) "

struct preview {
    forget_fn fn;
    void *arg;
};

static int preview_row(void *arg, sqlite3_stmt *stmt, struct err *err)
{
    struct preview *p = arg;
    const struct forget_row row = {.stage_id = sqlite3_column_int64(stmt, 0),
                                   .stage = db_text(stmt, 1),
                                   .model = db_text(stmt, 2),
                                   .params_json = db_text(stmt, 3),
                                   .recordings = (uint64_t)sqlite3_column_int64(stmt, 4),
                                   .undone = (uint64_t)sqlite3_column_int64(stmt, 5),
                                   .segments = (uint64_t)sqlite3_column_int64(stmt, 6),
                                   .vectors = (uint64_t)sqlite3_column_int64(stmt, 7),
                                   .names = (uint64_t)sqlite3_column_int64(stmt, 8),
                                   .bytes = (uint64_t)sqlite3_column_int64(stmt, 9)};

    (void)err;
    return p->fn(p->arg, &row);
}

int forget_preview(struct store *st, int64_t stage_id, const char *path, forget_fn fn, void *arg,
                   struct err *err)
{
    return visit_task_rows(st, PREVIEW, stage_id ? of_stage : superseded,
                           "GROUP BY t.stage_id ORDER BY t.stage_id", stage_id, path, preview_row,
                           &(struct preview){fn, arg}, err);
}

/* -------------------------------------------------------------------------------------- change */

static int take_id(void *arg, sqlite3_stmt *stmt, struct err *err)
{
    return apply_ids_add(arg, sqlite3_column_int64(stmt, 0), err);
}

static int take_count(void *arg, sqlite3_stmt *stmt, struct err *err)
{
    (void)err;
    *(int64_t *)arg = sqlite3_column_int64(stmt, 0);
    return 0;
}

static int find_task_ids(struct request_work *w, const char *from, struct err *err)
{
    const struct request *rq = w->rq;

    return visit_task_rows(w->st, "t.task_id", from, "ORDER BY t.media_id, t.task_id DESC",
                           rq->stage_id, rq->select_path, take_id, &w->rows, err);
}

static int must_have_stage(struct store *st, int64_t stage_id, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = 1;

    if (stage_id)
        rc = db_first(st, &stmt, err, "SELECT 1 FROM stage WHERE stage_id = ?", "i", stage_id);
    if (rc == 0)
        return err_set(err, ERR_MISSING, "there is no stage %lld", (long long)stage_id);
    sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

/* Refuses to remove tasks that a run works on, or will. */
static int must_be_finalized(struct request_work *w, struct err *err)
{
    const struct request *rq = w->rq;
    int64_t pending = 0;
    int rc = visit_task_rows(w->st, "count(*)", of_stage, "AND t.wanted AND t.state = 'pending'",
                             rq->stage_id, rq->select_path, take_count, &pending, err);

    if (rc == 0 && pending)
        rc = err_set(err, ERR_INPUT,
                     "%lld %s of stage %lld, or of its results, still to be done: let a run do "
                     "them, or `nightshift cancel` them first",
                     (long long)pending, pending == 1 ? "task is" : "tasks are",
                     (long long)rq->stage_id);
    return rc;
}

static int task_media(struct store *st, int64_t task_id, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_first(st, &stmt, err, "SELECT media_id FROM task WHERE task_id = ?", "i", task_id);

    if (rc == 1) {
        *ret = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return rc;
}

/* Checks the task again: it may be wanted or pending by now. */
static const char sql_going[] =
    "SELECT current FROM task WHERE task_id = ?1 AND NOT (wanted AND state = 'pending') "
    "AND (?2 OR (current = 0 AND wanted = 0))";

int forget_task(struct store *st, int64_t task_id, struct err *err)
{
    int rc = text_index_take_task(st, task_id, err);

    if (rc == 0)
        rc = db_run(st, err, "DELETE FROM segment WHERE task_id = ?", "i", task_id);
    if (rc == 0)
        rc = drop_found(st, task_id, err);
    if (rc == 0)
        rc = register_drop(st, task_id, err);
    return rc < 0 ? rc : db_run(st, err, "DELETE FROM task WHERE task_id = ?", "i", task_id);
}

static int remove_task(struct request_work *w, int64_t media_id, int64_t task_id, struct err *err)
{
    struct store *st = w->st;
    sqlite3_stmt *stmt = NULL;
    int64_t any = w->rq->stage_id != 0;
    bool current;
    int read, rc = db_first(st, &stmt, err, sql_going, "ii", task_id, any);

    if (rc != 1)
        return rc;
    current = sqlite3_column_int(stmt, 0);
    sqlite3_reset(stmt);
    read = current ? choice_is_read(st, media_id, task_id, err) : 0;
    rc = read < 0 ? read : forget_task(st, task_id, err);
    if (rc == 0 && read == 1)
        rc = reading_due(st, media_id, err);
    w->reply.affected += rc == 0;
    return rc;
}

static int pin_task(struct request_work *w, int64_t task_id, struct err *err)
{
    int64_t on = w->rq->stage_id != 0;
    int rc = 0;

    if (on)
        rc = db_run(w->st, err,
                    "UPDATE task SET pinned = 0 WHERE pinned AND media_id = "
                    "(SELECT media_id FROM task WHERE task_id = ?1) AND stage_id IN "
                    "(SELECT o.stage_id FROM task t JOIN stage s USING (stage_id) "
                    "JOIN stage o ON o.name = s.name WHERE t.task_id = ?1)",
                    "i", task_id);
    if (rc == 0)
        rc =
            db_run(w->st, err, "UPDATE task SET pinned = ?2 WHERE task_id = ?1", "ii", task_id, on);
    if (rc == 0)
        w->reply.affected++;
    return rc;
}

static int forget_or_pin_task(struct request_work *w, int64_t task_id, struct err *err)
{
    struct naming_change speakers;
    int64_t media_id = 0;
    int rc = task_media(w->st, task_id, &media_id, err);

    if (rc != 1)
        return rc;
    rc = naming_before(w->st, media_id, &speakers, err);
    if (rc == 0)
        rc = w->rq->type == REQUEST_PIN ? pin_task(w, task_id, err)
                                        : remove_task(w, media_id, task_id, err);
    if (rc == 0)
        rc = choice_apply(w->st, media_id, err);
    return naming_after(w->st, &speakers, rc, err);
}

int forget_apply(struct request_work *w, struct err *err)
{
    const struct request *rq = w->rq;
    bool pin = rq->type == REQUEST_PIN;
    int64_t before = sqlite3_total_changes64(w->st->db);
    int rc = 0;

    if (!w->begun) {
        rc = must_have_stage(w->st, rq->stage_id, err);
        if (rc == 0)
            rc = select_known(w->st, rq, err);
        if (rc == 0 && !pin && rq->stage_id)
            rc = must_be_finalized(w, err);
        if (rc == 0)
            rc = find_task_ids(w,
                               pin            ? rq->stage_id ? to_pin : pinned
                               : rq->stage_id ? of_stage
                                              : superseded,
                               err);
    }
    while (rc == 0 && w->rows.next < w->rows.count &&
           sqlite3_total_changes64(w->st->db) - before < PIECE_ROWS)
        rc = forget_or_pin_task(w, w->rows.list[w->rows.next++], err);
    if (rc < 0 || w->rows.next < w->rows.count)
        return rc < 0 ? rc : 1;
    return pin ? 0 : vectors_remove(w->st, false, err);
}
