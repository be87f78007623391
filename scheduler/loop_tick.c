#include "scheduler/loop_tick.h"

#include "base/log.h"
#include "scheduler/backlog.h"
#include "scheduler/dispatch.h"
#include "scheduler/finalize.h"
#include "scheduler/run/figures.h"
#include "scheduler/run/report.h"
#include "scheduler/worker_pool.h"

#define WAITING_FOR_SPACE "waiting for room on the disk"
#define STEPS_MAX 64 /* in one tick of the loop; what is left waits for the next tick */

void loop_tick_end(struct run *run, bool at_once)
{
    run->tick.mode = RUN_ENDING;
    if (at_once) {
        processes_kill(&run->processes);
    } else {
        worker_pool_leave(run);
        finalize_leave(run);
    }
    run_touch(run);
}

void loop_tick_hold(struct run *run)
{
    const bool hold = run->tick.paused || run->hours.shut;

    if (hold && run->tick.mode == RUN_GOING) {
        run->tick.mode = RUN_PAUSED;
        worker_pool_drain(run);
    } else if (!hold && run->tick.mode == RUN_PAUSED) {
        run->tick.mode = RUN_GOING;
    }
    run_touch(run);
}

void loop_tick_pause(struct run *run, bool paused)
{
    run->tick.paused = paused;
    loop_tick_hold(run);
}

void loop_tick_stop(struct run *run)
{
    run->tick.mode = RUN_DRAINING;
    report_event(run, LOG_INFO, "%s",
                 run_leased(run) || finalize_in_hand(run)
                     ? "stopping at the next checkpoint; a second signal stops at once"
                     : "stopping");
    worker_pool_drain(run);
    run_touch(run);
}

/* Nothing is queued and nothing leased: is there anything to wait for? */
static void consider_end(struct run *run)
{
    if (!run_flush(run) || run->failure.code)
        return;
    if (finalize_step(run))
        run->tick.note = run->catalog.disk_space.waiting ? WAITING_FOR_SPACE : "settling";
    else if (run->failure.code)
        return;
    else if (control_server_busy(run->control.server))
        run->tick.note = "waiting for an enqueue";
    else if (run->failures.retry_due_ms != INT64_MAX)
        run->tick.note = "waiting to try again";
    else if (run->o->watch)
        run->tick.note = "waiting for more";
    else
        loop_tick_end(run, false);
}

static void step_going(struct run *run)
{
    bool more;

    if (run->commit.trouble_since_ms)
        return; /* results pile up in memory: take on nothing new */
    finalize_step(run);
    more = backlog_refill(run);
    if (run->failure.code || run->commit.trouble_since_ms)
        return;
    if (more || run_leased(run)) {
        run->tick.note = run->catalog.disk_space.waiting ? WAITING_FOR_SPACE : NULL;
        if (run->catalog.disk_space.waiting)
            return;
        worker_pool_want(run);
        dispatch_all(run);
    } else if (run->backlog.exhausted || !run->backlog.has_stage) {
        consider_end(run);
    }
}

/* Nobody waits for an evening on which there is nothing to do. */
static void step_resting(struct run *run)
{
    if (run->hours.shut && !run->tick.paused && !run->o->watch && !run_leased(run) &&
        !finalize_in_hand(run) && !control_server_busy(run->control.server) && run_flush(run) &&
        figures_all_done(run))
        loop_tick_end(run, false);
}

static void advance_run_mode(struct run *run)
{
    if (run->failure.code && run->tick.mode != RUN_ENDING)
        loop_tick_end(run, true);
    switch (run->tick.mode) {
    case RUN_GOING:
        step_going(run);
        break;
    case RUN_PAUSED:
        step_resting(run);
        break;
    case RUN_DRAINING:
        if (!run_leased(run) && !finalize_in_hand(run) &&
            !control_server_working(run->control.server))
            loop_tick_end(run, false);
        break;
    case RUN_ENDING:
        if (processes_all_off(&run->processes))
            uv_stop(&run->loop.uv);
        break;
    }
}

void loop_tick_steps(struct run *run)
{
    for (int i = 0; run->tick.dirty && i < STEPS_MAX; i++) {
        run->tick.dirty = false;
        advance_run_mode(run);
    }
}
