#include "scheduler/worker_pool.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/numa.h"
#include "gpu/devices/devices.h"
#include "scheduler/run/report.h"

/* The stage's model had no room there: another stage's may. */
static bool too_small(const struct run_worker *w)
{
    return w->process.state == PROCESS_QUARANTINED && w->process.last.code == ERR_VRAM &&
           !w->was_ready && w->process.stuck_pid == 0;
}

bool worker_pool_all_too_small(const struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->devices.count; i++)
        if (!too_small(&run->devices.workers[i]))
            return false;
    return true;
}

void worker_pool_new_stage(struct run *run)
{
    uint32_t i;

    run->backlog.left_fp16 = false;
    for (i = 0; i < run->devices.count; i++) {
        run->devices.workers[i].tracks.solo = false;
        if (too_small(&run->devices.workers[i]))
            run->devices.workers[i].process.state = PROCESS_OFF;
    }
}

void worker_pool_start(struct run_worker *w)
{
    const struct devices *picked = w->process.run->devices.picked;
    const char *visible = picked->list[w->index].visible;
    const char *argv[9] = {"nightshift", "worker", "--device", w->device};
    const int node = device_node(picked, w->index);
    char number[12];
    size_t n = 4;

    if (visible[0]) {
        argv[n++] = "--visible";
        argv[n++] = visible;
    }
    if (node != NUMA_NONE) {
        snprintf(number, sizeof(number), "%d", node);
        argv[n++] = "--node";
        argv[n++] = number;
    }

    w->drained = w->was_ready = w->is_fp16 = false;
    w->pulse.engine_beat = w->pulse.audio_ms = w->pulse.decoded_ms = 0;
    w->pulse.rate = (struct rate){0};
    process_start(&w->process, argv);
}

void worker_pool_want(struct run *run)
{
    uint32_t i;

    for (i = 0; run->backlog.has_stage && i < run->devices.count; i++)
        if (run->devices.workers[i].process.state == PROCESS_OFF &&
            !run->devices.workers[i].way.left)
            worker_pool_start(&run->devices.workers[i]);
}

void worker_pool_dismiss(struct run_worker *w)
{
    struct run *run = w->process.run;

    if (run_worker_ready(w))
        run_flush(run); /* it is not counted as ready any more: see control.h */
    planner_worker_gone(run->planner, w->index);
    process_leave(&w->process);
}

void worker_pool_leave(struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->devices.count; i++)
        worker_pool_dismiss(&run->devices.workers[i]);
}

static void note_left_fp16(struct run_worker *w, const char *why)
{
    struct run *run = w->process.run;
    struct err err = {0};
    char text[600];

    snprintf(
        text, sizeof(text),
        "%s: stage %.40s with model %.120s goes on in bf16, or in float32 where there is none; "
        "in fp16: %.300s",
        w->label, run->backlog.stage.name, run->backlog.stage.model, why);
    report_event(run, LOG_WARN, "%s", text);
    run_check(run, ledger_event(run->ledger, "device-range", 0, w->device, text, &err), &err);
    run_note_commit(run);
}

bool worker_pool_left_fp16(struct run_worker *w, const char *why)
{
    struct run *run = w->process.run;

    if (!w->is_fp16 || !run->backlog.has_stage || w->stage_id != run->backlog.stage.stage_id)
        return false;
    if (!run->backlog.left_fp16)
        note_left_fp16(w, why);
    run->backlog.left_fp16 = true;
    for (uint32_t i = 0; i < run->devices.count; i++)
        if (run->devices.workers[i].is_fp16)
            worker_pool_dismiss(&run->devices.workers[i]);
    return true;
}

void worker_pool_drain_one(struct run_worker *w)
{
    if (run_worker_ready(w)) {
        planner_worker_gone(w->process.run->planner, w->index);
        if (!w->drained)
            process_send(&w->process, MSG_DRAIN, NULL);
        w->drained = true;
    } else {
        worker_pool_dismiss(w);
    }
}

void worker_pool_drain(struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->devices.count; i++)
        worker_pool_drain_one(&run->devices.workers[i]);
}
