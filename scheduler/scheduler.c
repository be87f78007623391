#include "scheduler/scheduler.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "scheduler/backlog.h"
#include "scheduler/catalog_watch.h"
#include "scheduler/dispatch.h"
#include "scheduler/failure.h"
#include "scheduler/lease/tracks.h"
#include "scheduler/loop_tick.h"
#include "scheduler/rest.h"
#include "scheduler/run/diary.h"
#include "scheduler/run/figures.h"
#include "scheduler/run/metrics_file.h"
#include "scheduler/run/gpu_watch.h"
#include "scheduler/run/process.h"
#include "scheduler/run/remembered_batch.h"
#include "scheduler/run/report.h"
#include "scheduler/run_control.h"
#include "scheduler/finalize.h"
#include "scheduler/disabled_stages.h"
#include "scheduler/supervisor.h"
#include "scheduler/worker_pool.h"
#include "store/files.h"
#include "store/lock.h"

/* ---- shards whose results would be more than a message can hold: known before anything is
 * decoded. Loop thread only */

struct run;

/* way_out: before the option that would do. */
static int check_stage_shard_length(const struct run *run, const struct store_stage_row *row,
                                    int code, const char *way_out, struct err *err)
{
    struct scheduler_stage kind = {0};
    uint32_t asked = run->o->shard_ms, most;

    if (run->o->stage)
        run->o->stage(row->name, row->params_json, &kind);
    most = kind.most_shard_ms;
    if (most == 0 || asked <= most) /* 0: any length will do */
        return 0;
    return err_set(err, code,
                   "a shard of %g min is too long for the stage %.40s: it may give more than a "
                   "message can hold; %s --shard=%u%s or less%s",
                   asked / 60000.0, row->name, way_out, most / (most < 60000 ? 1000 : 60000),
                   most < 60000 ? "s" : "m",
                   most < kind.mixed_most_shard_ms && asked <= kind.mixed_most_shard_ms
                       ? ", or enqueue with --channels=mix (and one track)"
                       : "");
}

static void free_rows(struct store_stage_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        store_stage_row_free(&rows[i]);
    free(rows);
}

/* Whether the length that was asked for, if any, suits every stage with work. ERR_USAGE names the
 * stage that it is too long for, and what would do. Before the catalog keeps the length. */
static int shard_length_asked(const struct run *run, struct err *err)
{
    struct store_stage_row *rows = NULL;
    size_t n = 0;
    int rc = 0;

    if (run->o->shard_ms == 0)
        return 0;
    rc = store_stages_runnable(run->st, clock_wall_ms(), &rows, &n, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = check_stage_shard_length(run, &rows[i], ERR_USAGE, "use", err);
    free_rows(rows, n);
    return rc;
}

/* Disables the stages that the catalog's own length is too long for, which is nobody's mistake:
 * the others go on. When the run has begun. */
static void shard_length_disable(struct run *run)
{
    struct store_stage_row *rows = NULL;
    struct err err = {0};
    size_t n = 0;

    if (store_stages_runnable(run->st, clock_wall_ms(), &rows, &n, &err) != 0) {
        run_fail(run, &err);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (check_stage_shard_length(run, &rows[i], ERR_LIMIT, "use another catalog for it, with",
                                     &err))
            disabled_stage_put(run, &rows[i], &err);
    free_rows(rows, n);
}

/* ---- one run */

#define SILENCE_MS 30000u

/* Reports a refused result. If its task failed by that, the recording counts as failed, with the
 * message of its first failure. */
static void on_refused(void *arg, int64_t task, const struct err *err)
{
    struct run *run = arg;
    struct err why = {0};
    int64_t media = 0;

    report_event(run, LOG_ERROR, "the catalog refused a result of task %lld: %s", (long long)task,
                 err->msg);
    run_check(run, store_task_failed_media(run->st, task, &media, &why), &why);
    if (media && !idmap_get(&run->figures.failed, (uint64_t)media))
        figures_failed(run, media, err->msg);
}

/* ------------------------------------------------------------------------------------- steps */

static void on_prepare(uv_prepare_t *prepare)
{
    struct run *run = prepare->data;

    loop_tick_steps(run);
    processes_write(&run->processes);
}

/* Retries that have become due are looked for in the catalog, which alone knows them all. */
static void look_for_retries(struct run *run)
{
    struct err err = {0};

    if (clock_wall_ms() < run->failures.retry_due_ms || !run_flush(run))
        return;
    if (failure_next_retry(run, &err)) {
        run_fail(run, &err);
        return;
    }
    backlog_rescan(run);
    backlog_overtake(run);
    run_note_unfinalized(run);
}

static void on_tick(uv_timer_t *timer)
{
    struct run *run = timer->data;
    int64_t now = clock_mono_ms();

    catalog_watch_place(run);
    catalog_watch_log(run, now);
    working_hours_tick(run);
    gpu_watch_tick(run, now);
    make_way_tick(run, now);
    processes_reap(&run->processes); /* a SIGCHLD may have been somebody else's to take */
    processes_tick(&run->processes, now);
    if (run->commit.trouble_since_ms && run->tick.mode != RUN_ENDING)
        run_flush(run);
    if (run->tick.mode == RUN_GOING)
        look_for_retries(run);
    report_tick(run, now);
    diary_tick(run);
    metrics_file_tick(run, now);
    run_touch(run);
}

/* ----------------------------------------------------------------------------------- signals */

static void on_stop_signal(uv_signal_t *handle, int signum)
{
    struct run *run = handle->data;

    (void)signum;
    run->interrupted = true;
    switch (run->tick.mode) {
    case RUN_GOING:
    case RUN_PAUSED:
        loop_tick_stop(run);
        break;
    case RUN_DRAINING:
        report_event(run, LOG_INFO, "stopping at once: the next run does the unfinished work");
        loop_tick_end(run, true);
        break;
    case RUN_ENDING:
        processes_kill(&run->processes);
        break;
    }
    run_touch(run);
}

static void on_child(uv_signal_t *handle, int signum)
{
    struct run *run = handle->data;

    (void)signum;
    processes_reap(&run->processes);
}

/* The early signal's caller has these blocked, so that none comes between two handlers: they come
 * while the loop has them. */
static void let_signals_in(struct run *run, bool in)
{
    sigset_t set;

    if (!run->o->early_signal)
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(in ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
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
    t->quarantine_ms = or_else(t->quarantine_ms, 600000);
    t->commit_ms = or_else(t->commit_ms, 500);
    t->full_retry_ms = or_else(t->full_retry_ms, 3000);
    t->full_give_up_ms = or_else(t->full_give_up_ms, 60000);
    t->busy_ms = or_else(t->busy_ms, 1000);
    t->line_ms = or_else(t->line_ms, 30000);
    t->room_ms = or_else(t->room_ms, 5000);
    t->idle.busy_ms = t->idle.busy_ms ? t->idle.busy_ms : IDLE_BUSY_MS;
    t->idle.free_ms = t->idle.free_ms ? t->idle.free_ms : IDLE_FREE_MS;
    t->idle.blind_ms = t->idle.blind_ms ? t->idle.blind_ms : IDLE_BLIND_MS;
    t->sample_ms = or_else(t->sample_ms, 2000);
    t->sample_still_ms = or_else(t->sample_still_ms, 30000);
    t->sample_again_ms = or_else(t->sample_again_ms, 60000);
    t->zone = t->zone ? t->zone : clock_zone_s;
    t->log_bytes = t->log_bytes ? t->log_bytes : STORE_LOG_KEPT;
    t->free_bytes = t->free_bytes ? t->free_bytes : 256u << 20;
    t->full_bytes = t->full_bytes ? t->full_bytes : 256u << 20;
    t->kept_bytes = t->kept_bytes ? t->kept_bytes : 256u << 20;
    t->queued_bytes = t->queued_bytes ? t->queued_bytes : 8u << 20;
}

static void start_loop(struct run *run)
{
    struct run_loop *l = &run->loop;
    uv_signal_t *const stops[] = {&l->sig_int, &l->sig_term, &l->sig_hup, &l->sig_usr1};
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    struct sigaction now;
    size_t i;

    uv_prepare_init(&l->uv, &l->prepare);
    l->prepare.data = run;
    uv_timer_init(&l->uv, &l->tick);
    l->tick.data = run;
    uv_timer_init(&l->uv, &run->commit.timer);
    run->commit.timer.data = run;
    processes_begin(&run->processes, &l->uv);
    uv_signal_init(&l->uv, &l->sig_child);
    l->sig_child.data = run;
    for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        uv_signal_init(&l->uv, stops[i]);
        stops[i]->data = run;
        /* nohup: a night's run outlives the terminal. */
        if (signals[i] == SIGHUP && sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            continue;
        if (signals[i] == SIGUSR1 && !run->o->early_signal)
            continue;
        uv_signal_start(stops[i], on_stop_signal, signals[i]);
    }
    uv_signal_start(&l->sig_child, on_child, SIGCHLD);
    uv_prepare_start(&l->prepare, on_prepare);
    uv_timer_start(&l->tick, on_tick, RUN_TICK_MS, RUN_TICK_MS);
    l->started = true;
    let_signals_in(run, true);
}

static int open_catalog(struct run *run, struct catalog_lock **lock, struct err *err)
{
    const char *path = run->o->catalog;
    int rc;

    if (access(path, F_OK) != 0 && errno == ENOENT)
        return err_set(err, ERR_MISSING,
                       "there is no catalog '%.300s'; `nightshift enqueue` makes one", path);
    rc = catalog_lock_inherit(path, "run", lock, err);
    if (rc == 0)
        rc = store_open(path, STORE_WRITE, &run->st, err);
    if (rc == 0)
        store_patience(run->st, run->tune.busy_ms);
    if (rc == 0)
        rc = shard_length_asked(run, err);
    if (rc == 0)
        rc = store_shard_length(run->st, run->o->shard_ms, SCHEDULER_SHARD_MS, &run->opt.shard_ms,
                                err);
    return rc;
}

/* If the catalog cannot be written now, the next run does it. */
static int drop_cancelled_tasks(struct run *run, struct err *err)
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

    figures_begin(&run->figures);
    run->planner = planner_new(run->o->shard_ms);
    run->ledger = ledger_new(run->st, on_refused, run);
    if (!run->planner || !run->ledger)
        return err_set(err, ERR_NOMEM, "no memory for the run");
    rc = finalize_open(run, err);
    if (rc == 0)
        rc = drop_cancelled_tasks(run, err);
    if (rc == 0)
        rc = failure_next_retry(run, err);
    if (rc)
        return rc;
    figures_totals(run);
    rc = ledger_event(run->ledger, "run-start", 0, "", "", err);
    if (rc == 0)
        rc = diary_begin(run, err);
    if (rc == 0 && is_unguarded(run))
        rc = ledger_event(run->ledger, "sandbox", 0, "", run->o->unguarded, err);
    return rc;
}

/* A paused catalog: say so and end, unless the run was told to stay. */
static void say_first(struct run *run)
{
    const struct store_totals *t = &run->figures.totals;
    const struct store_archive *a = &t->archive;
    /* Some of one that is paused may be runnable, by another stage. */
    uint64_t n = a->pending > 0 ? a->pending : a->paused;
    char audio[PROGRESS_SPAN];

    report_start(run);
    run_devices_say(run);
    working_hours_begin(run);
    make_way_begin(run);
    if (is_unguarded(run))
        report_event(run, LOG_WARN, "%s", run->o->unguarded);
    if (t->paused) {
        report_event(run, LOG_WARN, "the catalog is paused; `nightshift resume` continues");
        loop_tick_pause(run, true);
        if (!run->o->watch)
            loop_tick_end(run, false);
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

static void last_words(struct run *run, struct scheduler_result *ret)
{
    struct err err = {0};
    char text[1024], memory[768];

    run_flush_at_once(run);   /* the last chance of what waits */
    if (!run->failure.code) { /* all else is done */
        run->failure = run->disabled.why;
        ret->stages_disabled = run->disabled.why.code != 0;
    }
    remembered_summary(run, memory, sizeof(memory));
    snprintf(text, sizeof(text), "%llu done, %llu failed%s%s",
             (unsigned long long)run->figures.recordings_done,
             (unsigned long long)run->figures.failed.count,
             run->failure.code  ? ", stopped by a failure"
             : run->interrupted ? ", interrupted"
             : run->hours.over  ? ", its time was up"
                                : "",
             memory);
    ledger_event(run->ledger, "run-end", 0, "", text, &err);
    figures_totals(run);
    diary_end(run);
    metrics_file_end(run);
    run_flush_at_once(run);
    catalog_watch_place(run);
    if (run->catalog.astray.code)
        catalog_watch_rescue(run);
    figures_totals(run);
    report_end(run);
    ret->tasks_done = run->figures.tasks_done;
    ret->tasks_failed = run->figures.tasks_failed;
    ret->tasks_left = run->figures.totals.tasks_pending;
    ret->recordings_done = run->figures.recordings_done;
    ret->recordings_failed = run->figures.failed.count;
    ret->recordings_left = run->figures.totals.archive.pending;
    ret->audio_ms = run->figures.audio_ms;
    ret->work_ms = run->diary.work_ms;
    ret->why = diary_why(run);
    ret->interrupted = run->interrupted;
    ret->timed_out = run->hours.over;
}

/* The processes and the control socket close their own handles; ours are what is left. */
static void close_loop(struct run *run)
{
    struct run_loop *l = &run->loop;

    uv_handle_t *const ours[] = {
        (uv_handle_t *)&l->prepare,           (uv_handle_t *)&l->tick,
        (uv_handle_t *)&run->commit.timer,    (uv_handle_t *)&l->sig_int,
        (uv_handle_t *)&l->sig_term,          (uv_handle_t *)&l->sig_hup,
        (uv_handle_t *)&l->sig_usr1,          (uv_handle_t *)&l->sig_child,
        (uv_handle_t *)&run->processes.group,
    };
    size_t i;

    let_signals_in(run, false);
    processes_free(&run->processes);
    control_server_stop(run->control.server);
    if (l->started)
        for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
            uv_close(ours[i], NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    uv_loop_close(&l->uv);
}

int scheduler_run(const struct scheduler_options *o, struct scheduler_result *ret, struct err *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    struct run *run = calloc(1, sizeof(*run));
    struct catalog_lock *lock = NULL;
    int rc;

    if (!run)
        return err_set(err, ERR_NOMEM, "no memory for the run");
    memset(ret, 0, sizeof(*ret));
    fill_options(run, o);
    sigaction(SIGPIPE, &ignore, &before);
    rc = uv_loop_init(&run->loop.uv);
    if (rc) {
        rc = err_set(err, ERR_NOMEM, "the event loop: %s", uv_strerror(rc));
        goto out;
    }
    rc = run_devices_init(run, err);
    if (rc == 0)
        rc = gpu_watch_start(run, err);
    if (rc == 0)
        rc = open_catalog(run, &lock, err);
    if (rc == 0)
        rc = open_run(run, err);
    if (rc == 0) {
        start_loop(run);
        run_control_start(run);
        say_first(run);
        working_hours_tick(run);
        shard_length_disable(run);
        run_note_commit(run); /* that it has started must not wait for its first result */
        run_touch(run);
        uv_run(&run->loop.uv, UV_RUN_DEFAULT);
        last_words(run, ret);
        if (run->failure.code) {
            *err = run->failure;
            rc = err->code;
        }
    }
    close_loop(run);
out:
    sigaction(SIGPIPE, &before, NULL);
    gpu_watch_end(run);
    dispatch_free(run);
    tracks_free(&run->beside);
    finalize_free(run);
    backlog_free(run);
    failure_free(&run->failures);
    disabled_stage_free(&run->disabled);
    figures_free(&run->figures);
    planner_free(run->planner);
    ledger_free(run->ledger);
    store_close(run->st);
    catalog_lock_release(lock);
    run_devices_free(&run->devices);
    run_free(run);
    return rc;
}
