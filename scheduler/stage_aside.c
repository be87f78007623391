#include "scheduler/stage_aside.h"

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

void stage_aside_why(struct stages_aside *a, const struct err *why)
{
    if (!a->why.code)
        a->why = *why;
}

void stage_aside_put(struct run *run, const struct store_stage_row *row, const struct err *why)
{
    int64_t *grown, stage = row->stage_id;
    struct err err = {0};
    char text[700];

    if (run_is_aside(run, stage))
        return;
    grown = realloc(run->aside.stages, (run->aside.count + 1) * sizeof(*grown));
    if (!grown) {
        run_fail(run, why);
        return;
    }
    run->aside.stages = grown;
    run->aside.stages[run->aside.count++] = stage;
    stage_aside_why(&run->aside, why);
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

void stage_aside_take_back(struct stages_aside *a)
{
    a->count = 0;
    a->why = (struct err){0};
}

void stage_aside_free(struct stages_aside *a) { free(a->stages); }
