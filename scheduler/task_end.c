#include "scheduler/task_end.h"

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/stage_aside.h"
#include "scheduler/backlog.h"
#include "scheduler/failure.h"
#include "scheduler/lease/lease_passages.h"
#include "scheduler/run/report.h"

/* The same for every recording of its stage: none of them is charged. */
static void put_stage_aside(struct run *run, const struct run_task *t, const char *message)
{
    struct err err = {0};

    err_set(&err, t->code, "%s", message);
    backlog_drop(run, t->t.task_id);
    if (run->backlog.has_stage) /* else it is aside already */
        stage_aside_put(run, &run->backlog.stage, &err);
}

static void requeue(struct run *run, struct run_task *t)
{
    struct err err = {0};

    failure_clear(t);
    run_check(run, planner_task_requeue(run->planner, t->t.task_id, &err), &err);
}

/* Tries the recording's next place; what decide says when there is none is `otherwise`. */
static bool next_place(struct run *run, struct run_task *t)
{
    struct err err = {0};
    int rc = store_task_place(run->st, &t->t, t->place + 1, &err);

    if (rc == ERR_EMPTY)
        return false;
    if (rc) {
        run_fail(run, &err);
        return false;
    }
    t->place++;
    report_event(run, LOG_INFO, "%s: %s; trying another place of it", t->shown, t->message);
    return true;
}

static void decide(struct run *run, struct run_task *t, const struct planner_ended *e)
{
    struct retry_rule rule = {.limit = run->o->attempts, .base_ms = run->tune.retry_base_ms};
    struct retry_failure f = {
        .code = t->code,
        .message = t->message,
        .died = t->died,
        .alone = e->alone,
        .progress = e->progress,
        .other_place = true,
    };
    struct retry_decision d;

    if (retry_counts(f.code, f.died) && !failure_history(run, t->t.task_id, &f))
        return;
    retry_decide(&rule, &f, clock_wall_ms(), (uint64_t)t->t.task_id, &d);
    if (d.verdict == RETRY_PLACE && !next_place(run, t)) {
        if (run->failure.code)
            return;
        f.other_place = false;
        retry_decide(&rule, &f, clock_wall_ms(), (uint64_t)t->t.task_id, &d);
    }
    switch (d.verdict) {
    case RETRY_BACK:
    case RETRY_PLACE:
        requeue(run, t);
        break;
    case RETRY_SUSPECT:
        failure_record_task(run, t, &d);
        if (d.at_ms) {
            backlog_drop(run, t->t.task_id);
            break;
        }
        if (!t->died) /* else the planner knows on which worker; its last lease may be another's */
            planner_task_suspect(run->planner, t->t.task_id, e->worker);
        requeue(run, t);
        break;
    case RETRY_AGAIN:
    case RETRY_FAIL:
        failure_record_task(run, t, &d);
        backlog_drop(run, t->t.task_id);
        break;
    case RETRY_STOP:
        put_stage_aside(run, t, d.message);
        break;
    }
}

/* No lease of it is open any more. */
void task_end(struct run *run, struct run_task *t, const struct planner_ended *e)
{
    passages_drop(t);
    if (e->complete) {
        if (run->backlog.kind.settles)
            run_note_unsettled(run);
        run_note_commit(run);
        failure_over(&run->failures, t->t.task_id);
        backlog_drop(run, t->t.task_id);
    } else if (t->stopping) {
        backlog_drop(run, t->t.task_id);
        backlog_rescan(run); /* it may have been wanted again meanwhile */
    } else if (t->failed || t->died) {
        decide(run, t, e);
    } else {
        requeue(run, t);
    }
    run_touch(run);
}
