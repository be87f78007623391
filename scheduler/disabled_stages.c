#include "scheduler/disabled_stages.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "scheduler/backlog.h"
#include "scheduler/run/report.h"
#include "scheduler/lease/tracks.h"
#include "scheduler/worker_pool.h"

/* Workers leave, and what they held is forgotten when they have. */
static void stop_stage(struct run *run)
{
    struct run_task *t;
    size_t at = 0;

    while ((t = idmap_next(&run->backlog.tasks, &at)))
        t->stopping = true;
    backlog_end_stage(run);
    backlog_forget_queued(run); /* else when the catalog can be written again */
    worker_pool_leave(run);
}

void disabled_stage_why(struct disabled_stages *a, const struct err *why)
{
    if (!a->why.code)
        a->why = *why;
}

void disabled_stage_put(struct run *run, const struct store_stage_row *row, const struct err *why)
{
    int64_t *grown, stage = row->stage_id;
    struct err err = {0};
    char text[700];

    if (run_is_disabled(run, stage))
        return;
    grown = realloc(run->disabled.stages, (run->disabled.count + 1) * sizeof(*grown));
    if (!grown) {
        run_fail(run, why);
        return;
    }
    run->disabled.stages = grown;
    run->disabled.stages[run->disabled.count++] = stage;
    disabled_stage_why(&run->disabled, why);
    snprintf(text, sizeof(text), "stage %.40s with model %.120s is disabled in this run: %s",
             row->name, row->model, why->msg);
    report_event(run, LOG_ERROR, "%s", text);
    run_check(run, ledger_event(run->ledger, "stage-aside", 0, "", text, &err), &err);
    run_note_commit(run);
    tracks_stop_stage(run, stage);
    if (run->backlog.has_stage && run->backlog.stage.stage_id == stage)
        stop_stage(run);
    run_touch(run);
}

void disabled_stage_take_back(struct disabled_stages *a)
{
    a->count = 0;
    a->why = (struct err){0};
}

void disabled_stage_free(struct disabled_stages *a) { free(a->stages); }
