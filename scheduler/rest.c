#include "scheduler/rest.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/loop_tick.h"
#include "scheduler/plan/progress.h"
#include "scheduler/run/gpu_watch.h"
#include "scheduler/run/report.h"
#include "scheduler/run/run.h"
#include "scheduler/worker_pool.h"

void working_hours_text(const struct run *run, char ret[WORKING_HOURS_TEXT])
{
    const struct hours *h = &run->o->hours;
    char end[HOURS_TEXT], opens[HOURS_TEXT], shuts[HOURS_TEXT];

    hours_text(h->end, end);
    hours_text(h->opens, opens);
    hours_text(h->shuts, shuts);
    snprintf(ret, WORKING_HOURS_TEXT, "%s%s%s%s%s%s", h->between ? opens : "",
             h->between ? "-" : "", h->between ? shuts : "", h->between && h->until ? ", " : "",
             h->until ? "until " : "", h->until ? end : "");
}

void working_hours_begin(struct run *run)
{
    char text[WORKING_HOURS_TEXT], span[PROGRESS_SPAN];
    const int64_t now = clock_wall_ms();

    if (!run->o->hours.until && !run->o->hours.between)
        return;
    run->hours.end_ms = hours_next(run->o->hours.end, now, run->tune.zone);
    working_hours_text(run, text);
    progress_span(run->hours.end_ms - now, span);
    report_event(run, LOG_INFO, "it works %s%s%s%s", text, run->o->hours.until ? " (in " : "",
                 run->o->hours.until ? span : "", run->o->hours.until ? ")" : "");
}

static void update_resting_state(struct run *run, bool shut)
{
    char opens[HOURS_TEXT];

    if (run->hours.shut == shut)
        return;
    run->hours.shut = shut;
    hours_text(run->o->hours.opens, opens);
    snprintf(run->hours.text, sizeof(run->hours.text), "resting until %s", opens);
    if (shut)
        report_event(run, LOG_INFO, "resting until %s: started work is finished to a checkpoint",
                     opens);
    else
        report_event(run, LOG_INFO, "it is %s; continuing", opens);
    loop_tick_hold(run);
}

void working_hours_tick(struct run *run)
{
    char end[HOURS_TEXT];

    if (run->tick.mode != RUN_GOING && run->tick.mode != RUN_PAUSED)
        return;
    switch (hours_look(&run->o->hours, run->hours.end_ms, clock_wall_ms(), run->tune.zone)) {
    case HOURS_OPEN:
        update_resting_state(run, false);
        break;
    case HOURS_SHUT:
        update_resting_state(run, true);
        break;
    case HOURS_OVER:
        hours_text(run->o->hours.end, end);
        report_event(run, LOG_INFO, "it is %s", end);
        run->hours.over = true;
        loop_tick_stop(run);
        break;
    }
}

/* ---- run --idle: a GPU that others use is left to them, at a checkpoint, and taken again when it
 * was free for some minutes (plan/idle */

/* The kernel's number for the outermost namespace of processes (PROC_PID_INIT_INO). */
#define OUTERMOST "pid:[4026531836]"

static bool in_container(void)
{
    char name[64];
    ssize_t n = readlink("/proc/self/ns/pid", name, sizeof(name) - 1);

    name[n < 0 ? 0 : n] = 0;
    return strcmp(name, OUTERMOST) != 0;
}

static enum idle_sees look_at(const struct run *run, struct run_worker *w, int64_t now)
{
    const struct gpu_sample *s = gpu_watch_sample(w, now);
    struct idle_process list[GPU_SAMPLE_PROCESSES];
    struct idle_gpu g = {.process = list,
                         .worker = process_pid(&w->process),
                         .other_numbers = run->way.other_numbers};
    enum idle_sees sees;
    uint32_t who;

    if (!s)
        return IDLE_BLIND;
    g.lists = s->lists;
    g.percent = s->percent;
    for (uint32_t i = 0; i < s->process_count; i++)
        list[g.process_count++] =
            (struct idle_process){s->process[i].pid, s->process[i].computes, s->process[i].percent};
    sees = idle_judge(&g, &who);
    if (sees == IDLE_USED && who > 0)
        snprintf(w->way.user, sizeof(w->way.user), "pid %u", who);
    else if (sees == IDLE_USED)
        w->way.user[0] = 0;
    return sees;
}

static void yield_device(struct run *run, struct run_worker *w)
{
    const char *label = run->devices.picked->list[w->index].label;

    if (w->way.idle.saw == IDLE_USED)
        report_event(run, LOG_INFO, "others use %s%s%s%s: it is freed at the next checkpoint",
                     label, w->way.user[0] ? " (" : "", w->way.user, w->way.user[0] ? ")" : "");
    else if (w->way.idle.begun)
        report_event(run, LOG_WARN,
                     "who uses %s is no longer known: it is freed at the next checkpoint", label);
    worker_pool_drain_one(w);
}

static void take_again(struct run *run, const struct run_worker *w)
{
    char span[PROGRESS_SPAN];

    progress_span(run->tune.idle.free_ms, span);
    report_event(run, LOG_INFO, "nobody else has used %s for %s; continuing",
                 run->devices.picked->list[w->index].label, span);
}

/* "waiting: others use cuda:0, cuda:1" */
static void format_waiting_text(struct run *run)
{
    size_t n = (size_t)snprintf(run->way.text, sizeof(run->way.text), "waiting: others use ");

    for (uint32_t i = 0; i < run->devices.count; i++) {
        int more = snprintf(run->way.text + n, sizeof(run->way.text) - n, "%s%s", i > 0 ? ", " : "",
                            run->devices.picked->list[i].label);

        if (more < 0 || n + (size_t)more >= sizeof(run->way.text)) {
            snprintf(run->way.text, sizeof(run->way.text), "waiting: others use all of the GPUs");
            return;
        }
        n += (size_t)more;
    }
}

static void look_all(struct run *run, int64_t now)
{
    run->way.all_left = true;
    for (uint32_t i = 0; i < run->devices.count; i++) {
        struct run_worker *w = &run->devices.workers[i];
        bool left = false;

        if (run->devices.picked->list[i].kind != DEVICE_CPU)
            left = idle_look(&w->way.idle, &run->tune.idle, look_at(run, w, now), now);
        run->way.all_left &= left;
        if (left == w->way.left)
            continue;
        w->way.left = left;
        if (left)
            yield_device(run, w);
        else
            take_again(run, w);
        run_touch(run);
    }
}

void make_way_begin(struct run *run)
{
    char span[PROGRESS_SPAN];

    if (!run->o->idle)
        return;
    run->way.other_numbers = in_container();
    format_waiting_text(run);
    progress_span(run->tune.idle.free_ms, span);
    report_event(run, LOG_INFO,
                 "it works on GPUs that nobody else uses, and on one that others used when that "
                 "was over for %s",
                 span);
    look_all(run, clock_mono_ms());
}

void make_way_tick(struct run *run, int64_t now)
{
    if (run->o->idle && run->tick.mode != RUN_ENDING)
        look_all(run, now);
}
