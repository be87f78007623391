#include "scheduler/scheduler.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/backlog.h"
#include "scheduler/dispatch.h"
#include "scheduler/run/figures.h"
#include "scheduler/run/process.h"
#include "scheduler/run/remembered_batch.h"
#include "scheduler/run/report.h"
#include "scheduler/run_devices.h"
#include "scheduler/settle.h"
#include "scheduler/shard_length.h"
#include "scheduler/supervisor.h"
#include "scheduler/tracks.h"
#include "store/log_file.h"
#include "store/rescue.h"

#define SHARD_MS 300000u
#define SILENCE_MS 30000u
#define REQUEST_PATIENCE_MS 10000 /* while somebody else has the catalog locked */
#define WAITING_FOR_ROOM "waiting for room on the disk"
#define STEPS_MAX 64 /* in one turn of the loop; what is left waits for the next tick */

static void on_durable(void *arg, int64_t task, int64_t audio_ms)
{
    struct run *run = arg;

    (void)task;
    (void)audio_ms;
    run->shards_done++;
}

static void on_refused(void *arg, int64_t task, const struct err *err)
{
    struct run *run = arg;

    report_event(run, LOG_ERROR, "the catalog refused a result of task %lld: %s", (long long)task,
                 err->msg);
}

/* ------------------------------------------------------------------------------------- steps */

static void end_run(struct run *run, bool at_once)
{
    run->mode = RUN_ENDING;
    if (at_once) {
        processes_kill(run);
    } else {
        supervisor_leave(run);
        settle_leave(run);
    }
    run_touch(run);
}

/* Nothing is queued and nothing leased: is there anything to wait for? */
static void consider_end(struct run *run)
{
    if (!run_flush(run) || run->failure.code)
        return;
    if (settle_step(run))
        run->note = run->room.waiting ? WAITING_FOR_ROOM : "settling";
    else if (run->failure.code)
        return;
    else if (control_server_busy(run->control))
        run->note = "waiting for an enqueue";
    else if (run->retry_due_ms != INT64_MAX)
        run->note = "waiting to try again";
    else if (run->o->watch)
        run->note = "waiting for more";
    else
        end_run(run, false);
}

static void step_going(struct run *run)
{
    bool more;

    if (run->trouble_since_ms)
        return; /* results pile up in memory: take on nothing new */
    settle_step(run);
    more = backlog_refill(run);
    if (run->failure.code || run->trouble_since_ms)
        return;
    if (more || run_leased(run)) {
        run->note = run->room.waiting ? WAITING_FOR_ROOM : NULL;
        if (run->room.waiting)
            return;
        supervisor_want(run);
        dispatch_all(run);
    } else if (run->exhausted || !run->has_stage) {
        consider_end(run);
    }
}

static void step(struct run *run)
{
    if (run->failure.code && run->mode != RUN_ENDING)
        end_run(run, true);
    switch (run->mode) {
    case RUN_GOING:
        step_going(run);
        break;
    case RUN_PAUSED:
        break;
    case RUN_DRAINING:
        if (!run_leased(run) && !settle_in_hand(run) && !control_server_working(run->control))
            end_run(run, false);
        break;
    case RUN_ENDING:
        if (processes_all_off(run))
            uv_stop(&run->loop);
        break;
    }
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct run *run = prepare->data;
    int i;

    for (i = 0; run->dirty && i < STEPS_MAX; i++) {
        run->dirty = false;
        step(run);
    }
}

/* Retries that have become due are looked for in the catalog, which alone knows them all. */
static void look_for_retries(struct run *run)
{
    int64_t now = clock_wall_ms();
    struct err err = {0};

    if (now < run->retry_due_ms || !run_flush(run))
        return;
    if (store_next_retry(run->st, now, &run->retry_due_ms, &err)) {
        run_fail(run, &err);
        return;
    }
    backlog_rescan(run);
    settle_wake(run);
}

/* What is committed from here on would be gone with the last who has the file open. */
static void look_for_catalog(struct run *run)
{
    if (run->astray.code || store_in_place(run->st, &run->astray) == 0)
        return;
    report_event(run, LOG_ERROR, "%s; stopping", run->astray.msg);
    run_fail(run, &run->astray);
}

static void tell_of_log(struct run *run, bool waiting, uint64_t log_bytes, uint64_t free_bytes)
{
    unsigned long long log_mb = log_bytes / 1000000, free_mb = free_bytes / 1000000;
    struct err err = {0};
    char who[160], text[480];

    store_log_readers(run->st, who, sizeof(who));
    if (waiting)
        snprintf(text, sizeof(text),
                 "%llu MB are left on the catalog's disk, and its log of %llu MB cannot be emptied "
                 "while %s reads it: nothing new is begun until that ends, or there is room",
                 free_mb, log_mb, who);
    else
        snprintf(text, sizeof(text),
                 "the catalog's log has grown to %llu MB, and grows on while %s reads in one "
                 "transaction: close it",
                 log_mb, who);
    report_event(run, LOG_WARN, "%s", text);
    run_check(run, ledger_event(run->ledger, "log-held", 0, "", text, &err), &err);
    run_note_commit(run);
}

/* A reader that was forgotten keeps the catalog's log from being emptied. */
static void look_at_log(struct run *run, int64_t now)
{
    const struct room_limits limits = {run->tune.log_bytes, run->tune.free_bytes};
    uint64_t log_bytes, free_bytes;
    struct err err = {0};

    if (now < run->room_due_ms || run->mode == RUN_ENDING)
        return;
    run->room_due_ms = now + run->tune.room_ms;
    log_bytes = store_log_bytes(run->st);
    /* That it could not be emptied its length tells, and what else is wrong the next commit. */
    if (log_bytes > limits.log_bytes && store_log_empty(run->st, &err) == 0)
        log_bytes = 0;
    if (store_log_room(run->st, &free_bytes, &err))
        return;
    switch (room_look(&run->room, &limits, log_bytes, free_bytes)) {
    case ROOM_HELD:
        tell_of_log(run, false, log_bytes, free_bytes);
        break;
    case ROOM_SHORT:
        tell_of_log(run, true, log_bytes, free_bytes);
        break;
    case ROOM_AGAIN:
        report_event(run, LOG_INFO, "there is room on the catalog's disk again; going on");
        break;
    case ROOM_NOTHING:
        break;
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct run *run = timer->data;
    int64_t now = clock_mono_ms();

    look_for_catalog(run);
    look_at_log(run, now);
    processes_reap(run); /* a SIGCHLD may have been somebody else's to take */
    processes_tick(run, now);
    if (run->trouble_since_ms && run->mode != RUN_ENDING)
        run_flush(run);
    if (run->mode == RUN_GOING)
        look_for_retries(run);
    report_tick(run, now);
    run_touch(run);
}

/* ----------------------------------------------------------------------------------- signals */

static void on_stop_signal(uv_signal_t *handle, int signum)
{
    struct run *run = handle->data;

    (void)signum;
    run->interrupted = true;
    switch (run->mode) {
    case RUN_GOING:
    case RUN_PAUSED:
        run->mode = RUN_DRAINING;
        report_event(run, LOG_INFO, "%s",
                     run_leased(run) || settle_in_hand(run)
                         ? "stopping at a checkpoint: what has begun is finished first (again to "
                           "stop at once)"
                         : "stopping");
        supervisor_drain(run);
        break;
    case RUN_DRAINING:
        report_event(run, LOG_INFO,
                     "stopping at once: what was not finished is done by the next "
                     "run");
        end_run(run, true);
        break;
    case RUN_ENDING:
        processes_kill(run);
        break;
    }
    run_touch(run);
}

static void on_child(uv_signal_t *handle, int signum)
{
    (void)signum;
    processes_reap(handle->data);
}

/* ----------------------------------------------------------------------------------- control */

/* After a request that may have changed which tasks are runnable, and when. */
static int follow_request(struct run *run, enum request_type type, bool vanished, struct err *err)
{
    bool paused;
    int rc;

    run->totals_at_ms = 0;
    if (type == REQUEST_ENQUEUE_BEGIN || type == REQUEST_RETRY || type == REQUEST_RESUME)
        backlog_take_back(run);
    if (type != REQUEST_CANCEL && type != REQUEST_RETRY && type != REQUEST_PAUSE &&
        type != REQUEST_RESUME) {
        backlog_rescan(run);
        settle_wake(run);
        if (vanished) /* what is not there any more must not be tried, and fail */
            backlog_forget_queued(run);
        /* nor what was asked for in another way, or is not there any more */
        if (type == REQUEST_ENQUEUE_END || type == REQUEST_FORGET) {
            backlog_recheck(run, false);
            settle_recheck(run);
        }
        return 0;
    }
    rc = backlog_paused(run, &paused, err);
    if (rc == 0)
        rc = store_next_retry(run->st, clock_wall_ms(), &run->retry_due_ms, err);
    if (rc)
        return rc;
    if (paused && run->mode == RUN_GOING) {
        run->mode = RUN_PAUSED;
        report_event(run, LOG_INFO,
                     "paused: what has begun is finished; `nightshift resume` goes "
                     "on");
        supervisor_drain(run);
    } else if (!paused && run->mode == RUN_PAUSED) {
        run->mode = RUN_GOING;
        report_event(run, LOG_INFO, "resumed");
    }
    if (!paused) {
        backlog_recheck(run, type == REQUEST_CANCEL);
        settle_recheck(run);
    }
    return 0;
}

/* A shell in a transaction: the request is tried again, between turns of the loop. */
static bool wait_for_lock(struct run *run)
{
    int64_t now = clock_mono_ms();

    if (run->locked_since_ms == 0)
        run->locked_since_ms = now;
    return now - run->locked_since_ms < REQUEST_PATIENCE_MS;
}

static int on_request(void *arg, const struct request *rq, struct request_work **work,
                      struct request_reply *ret, struct err *err)
{
    struct run *run = arg;
    struct err ignored = {0};
    bool first = *work == NULL;
    int rc = 0;

    run_touch(run);
    if (run->mode == RUN_ENDING)
        return err_set(err, ERR_LOCKED, "the run is just ending; try again in a moment");
    if (first)
        rc = request_begin(run->st, rq, work, err);
    if (rc == 0 && !run_flush(run))
        rc = err_set(err, run->failure.code ? run->failure.code : run->trouble_code,
                     "the catalog cannot be written now; see the run's messages");
    if (rc == 0)
        rc = request_step(*work, ret, err);
    if (rc == ERR_LOCKED && wait_for_lock(run))
        return 2;
    run->locked_since_ms = 0;
    if (rc == 0)
        return follow_request(run, rq->type, ret->counts.vanished > 0, err);
    if (rc < 0 && !first) /* some of it was done */
        follow_request(run, rq->type, true, &ignored);
    return rc;
}

static void on_status(void *arg, struct control_live *ret)
{
    struct run *run = arg;
    struct progress p;

    figures_view(run, &p);
    *ret = (struct control_live){
        .pid = (uint32_t)getpid(),
        .workers = run->worker_count,
        .workers_ready = p.workers_ready,
        .started_ms = run->started_wall_ms,
        .audio_done_ms = figures_audio_seen(run),
        .speed = p.speed,
        .low_ms = p.low_ms,
        .high_ms = p.high_ms,
        .work_percent = p.work_percent,
        .work_more = p.work_more,
        .draining = run->mode == RUN_DRAINING || run->mode == RUN_ENDING,
    };
    if (p.work)
        utf8_copy(ret->work, sizeof(ret->work), p.work);
}

/* -------------------------------------------------------------------------- beginning and end */

static uint32_t or_else(uint32_t v, uint32_t otherwise) { return v ? v : otherwise; }

static void fill_options(struct run *run, const struct scheduler_options *o)
{
    struct scheduler_tuning *t = &run->tune;

    run->opt = *o;
    run->o = &run->opt;
    run->opt.worker_silence_ms = or_else(o->worker_silence_ms, SILENCE_MS);
    if (o->tuning)
        *t = *o->tuning;
    t->hello_ms = or_else(t->hello_ms, 30000);
    t->ready_ms = or_else(t->ready_ms, 1800000);
    t->still_ms = or_else(t->still_ms, 600000);
    t->retry_base_ms = or_else(t->retry_base_ms, RETRY_BASE_MS);
    t->restart_base_ms = or_else(t->restart_base_ms, RESTART_BASE_MS);
    t->aside_ms = or_else(t->aside_ms, 600000);
    t->commit_ms = or_else(t->commit_ms, 100);
    t->full_retry_ms = or_else(t->full_retry_ms, 3000);
    t->full_give_up_ms = or_else(t->full_give_up_ms, 60000);
    t->busy_ms = or_else(t->busy_ms, 1000);
    t->room_ms = or_else(t->room_ms, 5000);
    t->log_bytes = t->log_bytes ? t->log_bytes : STORE_LOG_KEPT;
    t->free_bytes = t->free_bytes ? t->free_bytes : 256u << 20;
    t->kept_bytes = t->kept_bytes ? t->kept_bytes : 256u << 20;
    t->queued_bytes = t->queued_bytes ? t->queued_bytes : 8u << 20;
}

static void start_loop(struct run *run)
{
    uv_signal_t *const stops[] = {&run->sig_int, &run->sig_term, &run->sig_hup};
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;
    size_t i;

    uv_prepare_init(&run->loop, &run->prepare);
    run->prepare.data = run;
    uv_timer_init(&run->loop, &run->tick);
    run->tick.data = run;
    uv_timer_init(&run->loop, &run->commit);
    run->commit.data = run;
    uv_signal_init(&run->loop, &run->sig_child);
    run->sig_child.data = run;
    for (i = 0; i < 3; i++) {
        uv_signal_init(&run->loop, stops[i]);
        stops[i]->data = run;
        /* nohup: a night's run outlives the terminal. */
        if (signals[i] == SIGHUP && sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            continue;
        uv_signal_start(stops[i], on_stop_signal, signals[i]);
    }
    uv_signal_start(&run->sig_child, on_child, SIGCHLD);
    uv_prepare_start(&run->prepare, on_prepare);
    uv_timer_start(&run->tick, on_tick, RUN_TICK_MS, RUN_TICK_MS);
    run->ticked_ms = clock_mono_ms();
    run->loop_started = true;
}

static void start_control(struct run *run)
{
    const struct control_handler h = {.request = on_request,
                                      .status = on_status,
                                      .arg = run,
                                      .patience_ms = run->tune.request_ms};
    struct err err = {0};

    /* Some file systems have no sockets; the run is worth more than its remote control. */
    if (control_server_start(&run->loop, run->o->catalog, &h, &run->control, &err))
        log_warn("other commands cannot reach this run: %s", err.msg);
}

static int open_catalog(struct run *run, struct err *err)
{
    const char *path = run->o->catalog;
    int rc;

    if (access(path, F_OK) != 0 && errno == ENOENT)
        return err_set(err, ERR_MISSING,
                       "there is no catalog '%.300s'; `nightshift enqueue` makes one", path);
    rc = catalog_lock_inherit(path, "run", &run->lock, err);
    if (rc == 0)
        rc = store_open(path, STORE_WRITE, &run->st, err);
    if (rc == 0)
        store_patience(run->st, run->tune.busy_ms);
    if (rc == 0)
        rc = shard_length_asked(run, err);
    if (rc == 0)
        rc = store_shard_length(run->st, run->o->shard_ms, SHARD_MS, &run->opt.shard_ms, err);
    return rc;
}

/* What cannot be written now is for the next run. */
static int drop_cancelled(struct run *run, struct err *err)
{
    int rc = store_drop_cancelled(run->st, err);

    if (rc == 0 || retry_store(rc) != STORE_WAIT)
        return rc;
    *err = (struct err){0};
    return 0;
}

static bool is_unguarded(const struct run *run)
{
    return run->o->unguarded && run->o->unguarded[0];
}

static int open_run(struct run *run, struct err *err)
{
    int rc;

    run->started_wall_ms = clock_wall_ms();
    run->started_ms = clock_mono_ms();
    run->planner = planner_new(run->o->shard_ms);
    run->ledger = ledger_new(run->st, on_durable, on_refused, run);
    if (!run->planner || !run->ledger)
        return err_set(err, ERR_NOMEM, "no memory for the run");
    rc = settle_open(run, err);
    if (rc == 0)
        rc = drop_cancelled(run, err);
    if (rc == 0)
        rc = store_next_retry(run->st, clock_wall_ms(), &run->retry_due_ms, err);
    if (rc)
        return rc;
    figures_totals(run);
    rc = ledger_event(run->ledger, "run-start", 0, "", "", err);
    if (rc == 0 && is_unguarded(run))
        rc = ledger_event(run->ledger, "sandbox", 0, "", run->o->unguarded, err);
    return rc;
}

/* A paused catalog: say so and end, unless the run was told to stay. */
static void say_first(struct run *run)
{
    const struct store_totals *t = &run->totals;
    const struct store_archive *a = &t->archive;
    /* Some of one that is paused may be runnable, by another stage. */
    uint64_t n = a->pending > 0 ? a->pending : a->paused;
    char audio[PROGRESS_SPAN];

    report_start(run);
    run_devices_say(run);
    if (is_unguarded(run))
        report_event(run, LOG_WARN, "%s", run->o->unguarded);
    if (t->paused) {
        report_event(run, LOG_WARN, "the catalog is paused; `nightshift resume` lets it go on");
        run->mode = RUN_PAUSED;
        if (!run->o->watch)
            end_run(run, false);
        return;
    }
    progress_hours(a->audio_left_ms, a->audio_left_ms, audio);
    if (t->tasks_pending == 0)
        report_event(run, LOG_INFO, "nothing is left to do");
    else if (a->unknown > 0 || a->pending == 0)
        report_event(run, LOG_INFO, "%llu recording%s to do", (unsigned long long)n,
                     n == 1 ? "" : "s");
    else
        report_event(run, LOG_INFO, "%llu recording%s to do, %s of audio left",
                     (unsigned long long)n, n == 1 ? "" : "s", audio);
}

/* All that the open file holds goes to another one, and the run ends with that: whatever else went
 * wrong, this is what somebody must know. */
static void rescue(struct run *run)
{
    struct err err = {0};
    char *path = NULL;

    if (store_rescue(run->st, &path, &err) == 0)
        err_set(&run->failure, run->astray.code,
                "%s; the whole catalog, with what this run did, is now in '%s' beside it: move "
                "that to the catalog's place%s and try again",
                run->astray.msg, strrchr(path, '/') + 1,
                run->astray.code == ERR_CHANGED ? " (what lies there, with its -wal, away first)"
                                                : "");
    else
        err_set(&run->failure, run->astray.code,
                "%s, and what this run did could not be saved beside it: %s", run->astray.msg,
                err.msg);
    free(path);
}

static void last_words(struct run *run)
{
    struct err err = {0};
    char text[1024], memory[768];

    run->trouble_next_ms = 0; /* the last chance of what waits */
    run_flush(run);
    if (!run->failure.code) { /* all else is done */
        run->failure = run->put_off;
        run->result->put_aside = run->put_off.code != 0;
    }
    remembered_summary(run, memory, sizeof(memory));
    snprintf(text, sizeof(text), "%llu done, %llu failed%s%s", (unsigned long long)run->tasks_done,
             (unsigned long long)(run->tasks_failed + run->failed_pending),
             run->failure.code  ? ", stopped by a failure"
             : run->interrupted ? ", interrupted"
                                : "",
             memory);
    ledger_event(run->ledger, "run-end", 0, "", text, &err);
    run->trouble_next_ms = 0;
    run_flush(run);
    look_for_catalog(run);
    if (run->astray.code)
        rescue(run);
    figures_totals(run);
    report_end(run);
    run->result->tasks_done = run->tasks_done;
    run->result->tasks_failed = run->tasks_failed;
    run->result->tasks_left = run->totals.tasks_pending;
    run->result->recordings_done = run->recordings_done;
    run->result->recordings_failed = run->failed.count;
    run->result->recordings_left = run->totals.archive.pending;
    run->result->audio_ms = run->audio_ms;
    run->result->wall_ms = clock_mono_ms() - run->started_ms;
    run->result->interrupted = run->interrupted;
}

/* The processes and the control socket close their own handles; ours are what is left. */
static void close_loop(struct run *run)
{
    uv_handle_t *const ours[] = {
        (uv_handle_t *)&run->prepare,   (uv_handle_t *)&run->tick,     (uv_handle_t *)&run->commit,
        (uv_handle_t *)&run->sig_int,   (uv_handle_t *)&run->sig_term, (uv_handle_t *)&run->sig_hup,
        (uv_handle_t *)&run->sig_child,
    };
    size_t i;

    processes_free(run);
    control_server_stop(run->control);
    if (run->loop_started)
        for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
            uv_close(ours[i], NULL);
    uv_run(&run->loop, UV_RUN_DEFAULT);
    uv_loop_close(&run->loop);
}

int scheduler_run(const struct scheduler_options *o, struct scheduler_result *ret, struct err *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    struct run *run = calloc(1, sizeof(*run));
    int rc;

    if (!run)
        return err_set(err, ERR_NOMEM, "no memory for the run");
    memset(ret, 0, sizeof(*ret));
    run->result = ret;
    fill_options(run, o);
    sigaction(SIGPIPE, &ignore, &before);
    rc = uv_loop_init(&run->loop);
    if (rc) {
        rc = err_set(err, ERR_NOMEM, "the event loop: %s", uv_strerror(rc));
        goto out;
    }
    rc = run_devices_init(run, err);
    if (rc == 0)
        rc = open_catalog(run, err);
    if (rc == 0)
        rc = open_run(run, err);
    if (rc == 0) {
        start_loop(run);
        start_control(run);
        say_first(run);
        shard_length_put_aside(run);
        run_note_commit(run); /* that it has started must not wait for its first result */
        run_touch(run);
        uv_run(&run->loop, UV_RUN_DEFAULT);
        last_words(run);
        if (run->failure.code) {
            *err = run->failure;
            rc = err->code;
        }
    }
    close_loop(run);
out:
    sigaction(SIGPIPE, &before, NULL);
    dispatch_free(run);
    tracks_free(run);
    settle_free(run);
    backlog_free(run);
    figures_free(run);
    planner_free(run->planner);
    ledger_free(run->ledger);
    store_close(run->st);
    catalog_lock_release(run->lock);
    free(run->workers);
    free(run->devices);
    free(run);
    return rc;
}
