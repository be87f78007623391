#include "scheduler/run_control.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/disabled_stages.h"
#include "scheduler/backlog.h"
#include "scheduler/failure.h"
#include "scheduler/run/diary.h"
#include "scheduler/run/figures.h"
#include "scheduler/run/gpu_watch.h"
#include "scheduler/run/report.h"
#include "scheduler/finalize.h"
#include "scheduler/loop_tick.h"
#include "scheduler/rest.h"

#define REQUEST_PATIENCE_MS 10000 /* while somebody else has the catalog locked */

/* After a request that may have changed which tasks are runnable, and when. */
static int follow_request(struct run *run, enum request_type type, bool vanished, struct err *err)
{
    bool paused;
    int rc;

    figures_stale(&run->figures);
    if (type == REQUEST_ENQUEUE_BEGIN || type == REQUEST_RETRY || type == REQUEST_RESUME) {
        disabled_stage_take_back(&run->disabled);
        finalize_take_back(run);
    }
    if (type != REQUEST_CANCEL && type != REQUEST_RETRY && type != REQUEST_PAUSE &&
        type != REQUEST_RESUME) {
        backlog_rescan(run);
        run_note_unfinalized(run);
        /* Tasks that are gone must not be tried, because they would fail; and the order may have
         * changed. */
        if (vanished || type == REQUEST_PRIORITY || type == REQUEST_ERASE)
            backlog_forget_queued(run);
        /* Tasks that were superseded or are gone must not be tried, either. */
        if (type == REQUEST_ENQUEUE_END || type == REQUEST_FORGET || type == REQUEST_ERASE) {
            backlog_recheck(run, type == REQUEST_ERASE);
            finalize_recheck(run);
        }
        if (type == REQUEST_ENQUEUE_END || type == REQUEST_PRIORITY)
            backlog_overtake(run);
        return 0;
    }
    rc = store_is_paused(run->st, &paused, err);
    if (rc == 0)
        rc = failure_next_retry(run, err);
    if (rc)
        return rc;
    if (paused && !run->tick.paused)
        report_event(run, LOG_INFO,
                     "paused: started work is finished; `nightshift resume` continues");
    else if (!paused && run->tick.paused)
        report_event(run, LOG_INFO, "resumed");
    loop_tick_pause(run, paused);
    if (!paused) {
        backlog_recheck(run, type == REQUEST_CANCEL);
        finalize_recheck(run);
    }
    return 0;
}

/* A shell in a transaction: the request is tried again, between turns of the loop. */
static bool wait_for_lock(struct run *run)
{
    int64_t now = clock_mono_ms();

    if (run->control.locked_since_ms == 0)
        run->control.locked_since_ms = now;
    return now - run->control.locked_since_ms < REQUEST_PATIENCE_MS;
}

static int on_request(void *arg, const struct request *rq, struct request_work **work,
                      struct request_reply *ret, struct err *err)
{
    struct run *run = arg;
    struct err ignored = {0};
    bool first = *work == NULL;
    int rc = 0;

    run_touch(run);
    if (run->tick.mode == RUN_ENDING)
        return err_set(err, ERR_LOCKED, "the run is just ending; try again in a moment");
    if (first)
        rc = request_begin(run->st, rq, work, err);
    if (rc == 0 && !run_flush(run))
        rc = err_set(err, run->failure.code ? run->failure.code : run->commit.trouble_code,
                     "the catalog cannot be written now; see the run's messages");
    if (rc == 0)
        rc = request_step(*work, ret, err);
    if (rc == ERR_LOCKED && wait_for_lock(run))
        return 2;
    run->control.locked_since_ms = 0;
    if (rc == 0)
        return follow_request(run, rq->type, ret->counts.vanished > 0, err);
    if (rc < 0 && !first) /* some of it was done */
        follow_request(run, rq->type, true, &ignored);
    return rc;
}

static void look_at_device(const struct run *run, uint32_t index, struct control_device *ret)
{
    const struct run_worker *w = &run->devices.workers[index];
    const struct gpu_sample *s = gpu_watch_sample(w, clock_mono_ms());

    diary_device(run, index, ret->name, sizeof(ret->name));
    ret->ready = run_worker_ready(w);
    ret->left = w->way.left;
    if (w->way.left)
        utf8_copy(ret->user, sizeof(ret->user), w->way.user);
    ret->percent = s ? s->percent : -1;
    ret->celsius = s && s->celsius != GPU_SAMPLE_COLD ? s->celsius : -1;
    ret->milliwatts = s ? s->milliwatts : -1;
    ret->used_bytes = s && s->total_bytes > 0 ? (int64_t)s->used_bytes : -1;
    ret->total_bytes = s && s->total_bytes > 0 ? (int64_t)s->total_bytes : -1;
    if (s)
        gpu_health_say(&s->health, ret->health, sizeof(ret->health));
}

static void on_status(void *arg, struct control_live *ret)
{
    struct run *run = arg;
    struct progress p;

    figures_view(run, &p);
    *ret = (struct control_live){
        .pid = (uint32_t)getpid(),
        .workers = run->devices.count,
        .workers_ready = p.workers_ready,
        .started_ms = run->figures.started_wall_ms,
        .audio_done_ms = figures_audio_seen(run),
        .speed = p.speed,
        .low_ms = p.low_ms,
        .high_ms = p.high_ms,
        .work_percent = p.work_percent,
        .work_more = p.work_more,
        .draining = run->tick.mode == RUN_DRAINING || run->tick.mode == RUN_ENDING,
    };
    utf8_copy(ret->note, sizeof(ret->note), p.note);
    working_hours_text(run, ret->hours);
    if (p.work)
        utf8_copy(ret->work, sizeof(ret->work), p.work);
    for (uint32_t i = 0; i < run->devices.count && i < CONTROL_DEVICES; i++)
        look_at_device(run, i, &ret->device[ret->devices++]);
}

void run_control_start(struct run *run)
{
    const struct control_handler h = {.request = on_request,
                                      .status = on_status,
                                      .arg = run,
                                      .patience_ms = run->tune.request_ms};
    struct err err = {0};

    /* Some file systems have no sockets; the run is worth more than its remote control. */
    if (control_server_start(&run->loop.uv, run->o->catalog, &h, &run->control.server, &err))
        log_warn("other commands cannot reach this run: %s", err.msg);
}
