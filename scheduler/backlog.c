#include "scheduler/backlog.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/lease/lease.h"
#include "scheduler/lease/tracks.h"
#include "scheduler/run/figures.h"
#include "scheduler/run/report.h"
#include "scheduler/worker_pool.h"

#define PAGE 256u
#define PASSAGES_MS 1000 /* of audio: about what the text of a recording takes as long as */
#define QUEUE_LOW 512u   /* fewer queued: read on */
#define QUEUE_HIGH 2048u /* so many queued: enough */

static void task_free(struct run_task *t)
{
    if (!t)
        return;
    passages_drop(t);
    store_task_free(&t->t);
    free(t->shown);
    free(t);
}

void backlog_drop(struct run *run, int64_t task)
{
    planner_task_remove(run->planner, task);
    task_free(idmap_remove(&run->backlog.tasks, (uint64_t)task));
}

void backlog_end_stage(struct run *run)
{
    struct backlog *b = &run->backlog;

    if (b->has_stage)
        store_stage_row_free(&b->stage);
    b->has_stage = false;
    memset(&b->stage, 0, sizeof(b->stage));
}

void backlog_free(struct run *run)
{
    struct run_task *t;
    size_t at = 0;

    while ((t = idmap_next(&run->backlog.tasks, &at)))
        task_free(t);
    idmap_free(&run->backlog.tasks);
    backlog_end_stage(run);
}

void backlog_rescan(struct run *run)
{
    run->backlog.cursor = INT64_MIN;
    run->backlog.exhausted = run->backlog.overtaken;
    run_touch(run);
}

/* Is it still pending and not paused? The task has leases, so only these can have changed. */
static bool still_wanted(struct run *run, const struct store_task *of)
{
    struct store_task t;
    struct err err = {0};
    bool yes;

    if (store_runnable_of(run->st, of->stage_id, of->media_id, INT64_MAX, &t, &yes, &err)) {
        run_fail(run, &err);
        return true;
    }
    if (!yes)
        return false;
    yes = t.task_id == of->task_id;
    store_task_free(&t);
    return yes;
}

/* ---------------------------------------------------------------------------------- reading */

char *backlog_shown(const struct store_task *t)
{
    char *path = utf8_display(t->path, strlen(t->path)), *member, *both = NULL;

    if (!path || !t->member || !t->member[0])
        return path;
    member = utf8_display_nth(t->member, strlen(t->member), t->nth);
    if (member && asprintf(&both, "%s//%s", path, member) < 0)
        both = NULL;
    free(path);
    free(member);
    return both;
}

/* The catalog has all shards of a task that it calls pending: let it count them again; if that does
 * not help, its rows contradict each other. */
static void finish_odd(struct run *run, const struct store_task *t)
{
    struct err err = {0};

    run_check(run, ledger_total(run->ledger, t->task_id, t->shards_total, &err), &err);
    if (!run_flush(run) || !still_wanted(run, t) || run->failure.code)
        return;
    run_check(run,
              ledger_failed(run->ledger, t->task_id, ERR_CORRUPT,
                            "its shards are all there, but it is not done; `nightshift retry` it",
                            -1, &err),
              &err);
    run_flush(run);
}

/* Takes over *t. */
static void add_backlog_task(struct run *run, struct store_task *t)
{
    struct planner_task p = {
        .id = t->task_id,
        .duration_ms = t->duration_ms,
        .size_bytes = t->size_bytes,
        .shards_total = t->shards_total,
        .done = t->skip,
        .done_count = t->skip_count,
        .suspect = t->suspect,
        .first = t->first,
        .end = t->end,
        .priority = t->priority,
    };
    struct run_task *rt = calloc(1, sizeof(*rt));
    struct err err = {0};
    int rc;

    if (run->backlog.kind.passage_chars) { /* one shard, and a short one, however long was spoken */
        p.shards_total = t->shards_total = 1;
        p.duration_ms = PASSAGES_MS;
        p.size_bytes = 0;
    }
    if (!rt) {
        err_set(&err, ERR_NOMEM, "no memory for the backlog");
        goto fail;
    }
    rt->t = *t;
    memset(t, 0, sizeof(*t));
    rt->shown = backlog_shown(&rt->t);
    if (!rt->shown || idmap_put(&run->backlog.tasks, (uint64_t)p.id, rt)) {
        err_set(&err, ERR_NOMEM, "no memory for the backlog");
        goto fail;
    }
    rc = planner_task_add(run->planner, &p, &err);
    if (rc == 0)
        return;
    idmap_remove(&run->backlog.tasks, (uint64_t)p.id);
    if (rc == 1) {
        finish_odd(run, &rt->t);
        run_note_unfinalized(run);
    } else if (rc == ERR_INPUT) {
        run_check(run, ledger_failed(run->ledger, p.id, ERR_INPUT, err.msg, -1, &err), &err);
        run_note_commit(run);
        figures_failed(run, rt->t.media_id, err.msg);
    } else {
        goto fail;
    }
    task_free(rt);
    return;
fail:
    task_free(rt);
    store_task_free(t);
    run_fail(run, &err);
}

/* One page; false when nothing further can be read now. */
static bool read_page(struct run *run)
{
    struct backlog *b = &run->backlog;
    struct store_task page[PAGE];
    struct err err = {0};
    size_t n = 0, i;

    /* Results in the ledger would be read as still to do. */
    if (!run_flush(run))
        return false;
    if (store_runnable(run->st, b->stage.stage_id, b->cursor, clock_wall_ms(), page, PAGE, &n,
                       &err)) {
        err_prefix(&err, "reading what is to be done");
        run_fail(run, &err);
        return false;
    }
    for (i = 0; i < n; i++) {
        b->cursor = page[i].position;
        if (run->failure.code || planner_task_known(run->planner, page[i].task_id))
            store_task_free(&page[i]);
        else
            add_backlog_task(run, &page[i]);
    }
    b->exhausted = n < PAGE;
    return !b->exhausted && !run->failure.code;
}

/* Takes over what *row owns, and of the others what may listen. */
static void begin_stage(struct run *run, struct store_stage_row *row, struct store_stage_row *rows,
                        size_t n)
{
    struct backlog *b = &run->backlog;
    bool had = b->has_stage;

    backlog_end_stage(run);
    b->stage = *row;
    memset(row, 0, sizeof(*row));
    b->has_stage = true;
    memset(&b->kind, 0, sizeof(b->kind));
    if (run->o->stage)
        run->o->stage(b->stage.name, b->stage.params_json, &b->kind);
    report_event(run, LOG_INFO, "stage %s: loading the model %s", b->stage.name, b->stage.model);
    tracks_choose(run, rows, n);
    figures_begin_stage(run);
    if (had)
        worker_pool_leave(run);
    worker_pool_new_stage(run);
}

/* Chooses the stage whose first task is of the highest priority, the lowest one among equals, that
 * is not disabled. Workers keep their model when
 * it is the same one. */
static bool choose_stage(struct run *run)
{
    struct store_stage_row *rows = NULL;
    struct err err = {0};
    size_t n = 0, i, pick = 0;

    run->backlog.overtaken = false;
    if (!run_flush(run))
        return false;
    if (store_stages_runnable(run->st, clock_wall_ms(), &rows, &n, &err)) {
        err_prefix(&err, "reading what is to be done");
        run_fail(run, &err);
        return false;
    }
    while (pick < n && run_is_disabled(run, rows[pick].stage_id))
        pick++;
    if (pick < n && !(run->backlog.has_stage && run->backlog.stage.stage_id == rows[pick].stage_id))
        begin_stage(run, &rows[pick], rows, n);
    for (i = 0; i < n; i++)
        store_stage_row_free(&rows[i]);
    free(rows);
    if (pick == n)
        return false;
    backlog_rescan(run);
    return true;
}

double backlog_unread(const struct run *run)
{
    const struct store_totals *t = &run->figures.totals;
    uint64_t ended = run->figures.tasks_done - run->figures.totals_done +
                     run->figures.tasks_failed - run->figures.totals_failed;
    uint64_t here = run->backlog.tasks.count + ended;
    struct rate_backlog b = {
        .known_left_ms = t->audio_left_ms,
        .tasks_unknown = t->tasks_unknown,
        .known_ms = t->audio_known_ms,
        .tasks_known = t->tasks_pending - t->tasks_unknown + t->tasks_done,
    };
    int64_t left = rate_left_ms(&b);

    if (run->backlog.exhausted || t->tasks_pending <= here)
        return 0;
    /* A shard each where no length is known. */
    return (double)(t->tasks_pending - here) *
           (left > 0 ? (double)left / (double)t->tasks_pending / run->o->shard_ms : 1);
}

/* Suspects wait for all the others, also for those that are still to be read. */
static size_t count_due_tasks(const struct run *run)
{
    return planner_queued(run->planner) - planner_suspects(run->planner);
}

bool backlog_refill(struct run *run)
{
    struct backlog *b = &run->backlog;

    if (!b->has_stage) { /* what a disabled one has left must be gone first */
        if (run_leased(run) || (planner_queued(run->planner) && !backlog_forget_queued(run)) ||
            !choose_stage(run))
            return false;
    }
    if (count_due_tasks(run) < QUEUE_LOW)
        while (!b->exhausted && count_due_tasks(run) < QUEUE_HIGH && read_page(run))
            ;
    if (planner_queued(run->planner) || run_leased(run) || run->failure.code)
        return planner_queued(run->planner) > 0;
    /* The stage is through, for now: another one, or the same with what has become due. */
    if (!b->exhausted || !choose_stage(run))
        return false;
    while (!b->exhausted && count_due_tasks(run) < QUEUE_HIGH && read_page(run))
        ;
    return planner_queued(run->planner) > 0;
}

/* --------------------------------------------------------------------------------- requests */

bool backlog_forget_queued(struct run *run)
{
    struct backlog *b = &run->backlog;
    struct idmap rest = IDMAP_INIT;
    struct run_task *t;
    struct err err = {0};
    size_t at = 0;

    if (!run_flush(run))
        return false;
    planner_forget_queued(run->planner);
    /* Those that the planner does not know any more had no lease. */
    while ((t = idmap_next(&b->tasks, &at)))
        if (planner_task_known(run->planner, t->t.task_id) &&
            idmap_put(&rest, (uint64_t)t->t.task_id, t)) {
            idmap_free(&rest);
            err_set(&err, ERR_NOMEM, "no memory for the backlog");
            run_fail(run, &err);
            return false;
        }
    at = 0;
    while ((t = idmap_next(&b->tasks, &at)))
        if (!idmap_get(&rest, (uint64_t)t->t.task_id))
            task_free(t);
    idmap_free(&b->tasks);
    b->tasks = rest;
    backlog_rescan(run);
    return true;
}

/* The first runnable stage that is not disabled; 0: none, or it could not be read. */
static int64_t first_stage(struct run *run, struct err *err)
{
    struct store_stage_row *rows = NULL;
    int64_t ret = 0;
    size_t n = 0, i;

    if (store_stages_runnable(run->st, clock_wall_ms(), &rows, &n, err))
        return 0;
    for (i = 0; i < n; i++) {
        if (ret == 0 && !run_is_disabled(run, rows[i].stage_id))
            ret = rows[i].stage_id;
        store_stage_row_free(&rows[i]);
    }
    free(rows);
    return ret;
}

/* Higher than all that the run's own stage has to do. */
static bool is_overtaken(struct run *run, struct err *err)
{
    int64_t now = clock_wall_ms(), first = first_stage(run, err);
    int theirs = 0, ours = 0;

    return first && first != run->backlog.stage.stage_id &&
           store_first_priority(run->st, first, now, &theirs, err) == 0 &&
           store_first_priority(run->st, run->backlog.stage.stage_id, now, &ours, err) == 0 &&
           ours >= STORE_LOW && theirs > ours;
}

void backlog_overtake(struct run *run)
{
    struct backlog *b = &run->backlog;
    struct err err = {0};
    struct run_task *t;
    bool overtaken;
    size_t at = 0;

    if (!b->has_stage || !run_flush(run))
        return;
    overtaken = is_overtaken(run, &err);
    if (err.code)
        run_fail(run, &err);
    if (!overtaken || !backlog_forget_queued(run))
        return;
    b->overtaken = b->exhausted = true;
    while ((t = idmap_next(&b->tasks, &at))) {
        t->stopping = true;
        lease_revoke_at_checkpoint(run, t->t.task_id);
    }
}

void backlog_recheck(struct run *run, bool cancel)
{
    struct run_task *t;
    size_t at = 0;

    if (!backlog_forget_queued(run))
        return;
    while ((t = idmap_next(&run->backlog.tasks, &at))) {
        if (t->stopping || planner_task_complete(run->planner, t->t.task_id) ||
            still_wanted(run, &t->t))
            continue;
        t->stopping = true;
        if (cancel)
            lease_revoke_task(run, t->t.task_id);
        else
            lease_revoke_at_checkpoint(run, t->t.task_id);
    }
    tracks_recheck(run);
}
