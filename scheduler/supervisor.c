#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/companions.h"
#include "workers/process/worker.h"

#define JUDGED_MS 30000
#define LEAVE_MS 5000 /* after QUIT, to leave by itself */

static bool has_process(const struct run_worker *w) { return w->link != NULL; }

bool supervisor_all_off(const struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->worker_count; i++)
        if (has_process(&run->workers[i]))
            return false;
    return true;
}

bool supervisor_all_aside(const struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->worker_count; i++)
        if (run->workers[i].state != WORKER_ASIDE)
            return false;
    return true;
}

uint32_t supervisor_ready(const struct run *run)
{
    uint32_t i, n = 0;

    for (i = 0; i < run->worker_count; i++)
        n += run->workers[i].state == WORKER_READY;
    return n;
}

void supervisor_send(struct run_worker *w, uint8_t type, const struct buf *payload)
{
    struct err err = {0};

    /* A worker that has gone is learnt from `gone`; only memory is a fault of ours. */
    if (w->link && link_send(w->link, type, payload, &err) == ERR_NOMEM)
        run_fail(w->run, &err);
}

void supervisor_condemn(struct run_worker *w, int code, const char *why)
{
    if (!w->link || w->condemned)
        return;
    w->condemned = true;
    if (!w->last.code) { /* else it has said itself why */
        err_set(&w->last, code, "%s", why);
        w->death_code = code;
    }
    planner_worker_gone(w->run->planner, w->index); /* no more recordings for a dead man */
    link_kill(w->link);
}

/* ------------------------------------------------------------------------------------ deaths */

void supervisor_describe_death(int status, struct err *last)
{
    if (last->code)
        return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == WORKER_EXIT_DEVICE)
        err_set(last, ERR_DEVICE, "its device was lost");
    else if (WIFSIGNALED(status))
        err_set(last, ERR_CRASH, "it was ended by signal %d (%s)", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    else if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        err_set(last, ERR_DEVICE, "it could not be started");
    else
        err_set(last, ERR_CRASH, "it left with status %d",
                WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* The stage's model had no room there: another stage's may. */
static bool too_small(const struct run_worker *w)
{
    return w->state == WORKER_ASIDE && w->last.code == ERR_VRAM && !w->was_ready;
}

static bool all_too_small(const struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->worker_count; i++)
        if (!too_small(&run->workers[i]))
            return false;
    return true;
}

void supervisor_new_stage(struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->worker_count; i++) {
        run->workers[i].solo = false;
        if (too_small(&run->workers[i])) {
            run->workers[i].state = WORKER_OFF;
            run->workers[i].on_trial = false;
        }
    }
}

static void put_aside(struct run_worker *w, const char *why)
{
    struct run *run = w->run;
    struct err err = {0};
    char text[600];

    w->state = WORKER_ASIDE;
    w->due_ms = clock_mono_ms() + run->tune.aside_ms;
    snprintf(text, sizeof(text), "%s is %s aside: %s", w->label, w->on_trial ? "still put" : "put",
             why);
    report_event(run, w->on_trial ? LOG_INFO : LOG_ERROR, "%s", text);
    w->on_trial = false;
    run_check(run, ledger_event(run->ledger, "worker-aside", 0, w->device, text, &err), &err);
    run_note_commit(run);
    if (supervisor_all_aside(run) && run->mode != RUN_ENDING) {
        err_set(&err, w->last.code ? w->last.code : ERR_DEVICE,
                "no worker is left: %s; see `nightshift %s`, then run again", why,
                w->last.code == ERR_VRAM ? "plan" : "doctor");
        if (run->has_stage && all_too_small(run))
            backlog_put_aside(run, &run->stage, &err);
        else
            run_fail(run, &err);
    }
}

static const char *why_aside(const struct run_worker *w)
{
    if (w->last.code == ERR_VERSION || w->on_trial)
        return "";
    if (w->last.code == ERR_VRAM && !w->was_ready)
        return "the model does not fit: ";
    return "it died again and again: ";
}

/* How long to wait before it is started again; -1: put it aside. */
static int64_t wait_after(struct run_worker *w, enum restart_cause cause, int64_t task)
{
    if (w->last.code == ERR_VERSION || w->on_trial)
        return -1;
    /* What did not fit at the start will not fit a second later. */
    if (w->last.code == ERR_VRAM && !w->was_ready)
        return -1;
    return restart_death(&w->restart, cause, task, w->run->tune.restart_base_ms);
}

static void worker_died(struct run_worker *w, int status)
{
    struct run *run = w->run;
    enum restart_cause cause = RESTART_OWN;
    int64_t task = 0, wait;
    struct err err = {0};
    char text[600];

    supervisor_describe_death(status, &w->last);
    snprintf(text, sizeof(text), "%s died: %s", w->label, w->last.msg);
    report_event(run, LOG_WARN, "%s", text);
    dispatch_worker_lost(w, w->death_code ? w->death_code : w->last.code, w->last.msg, &cause,
                         &task);
    run_check(run, ledger_event(run->ledger, "worker-died", 0, w->device, text, &err), &err);
    run_note_commit(run);
    if (run->mode == RUN_ENDING || run->mode == RUN_DRAINING) {
        w->state = WORKER_OFF;
        return;
    }
    wait = wait_after(w, cause, task);
    if (wait < 0) {
        snprintf(text, sizeof(text), "%s%s", why_aside(w), w->last.msg);
        put_aside(w, text);
        return;
    }
    w->state = WORKER_WAITING;
    w->due_ms = clock_mono_ms() + wait;
}

static void on_gone(void *arg, int status)
{
    struct run_worker *w = arg;
    struct run *run = w->run;
    bool leaving = w->state == WORKER_LEAVING;

    link_free(w->link);
    w->link = NULL;
    planner_worker_gone(run->planner, w->index);
    tuning_gone(w);
    run->audio_seen_ms += w->audio_ms;
    w->audio_ms = 0;
    run_touch(run);
    if (leaving) {
        dispatch_worker_lost(w, ERR_CANCELLED, "the worker left", NULL, NULL);
        w->state = WORKER_OFF;
    } else {
        worker_died(w, status);
    }
    run_flush(run); /* who sees that it has gone may look for what it did */
}

static void on_broken(void *arg, const struct err *err)
{
    struct run_worker *w = arg;
    char why[600];

    w->broken = true;
    snprintf(why, sizeof(why), "it does not speak our protocol (%s)", err->msg);
    supervisor_condemn(w, ERR_PROTOCOL, why);
}

/* ---------------------------------------------------------------------------------- messages */

static void send_setup(struct run_worker *w)
{
    struct run *run = w->run;
    struct buf b = BUF_INIT;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = run->o->threads;
    struct msg_companion companions[SETUP_MAX_COMPANIONS];
    struct msg_setup m = {
        .stage = run->stage.name,
        .model_dir = run->stage.model_dir,
        .model_hash = run->stage.model_hash,
        .precision = (char *)(run->o->precision ? run->o->precision : "auto"),
        .params_json = run->stage.params_json,
        .slots = run->o->slots,
        .decoders = run->o->decoders,
        .windows = run->o->windows,
        .vram_budget = run->o->vram_budget,
        .deterministic = run->o->deterministic,
    };

    /* Several host workers share the processor's threads. */
    if (threads == 0 && run->worker_count > 1 && cores > 0)
        threads = (uint32_t)cores > run->worker_count ? (uint32_t)cores / run->worker_count : 1;
    m.threads = threads;
    w->stage_id = run->stage.stage_id;
    tuning_recall(w, &m);
    companions_setup(w, &m, companions);
    msg_setup_put(&b, &m);
    supervisor_send(w, MSG_SETUP, &b);
    buf_free(&b);
    w->state = WORKER_SETTING_UP;
    w->due_ms = clock_mono_ms() + run->tune.ready_ms;
}

static bool take_hello(struct run_worker *w, const struct frame *f, struct err *err)
{
    struct msg_hello m;

    if (w->state != WORKER_STARTING) {
        err_set(err, ERR_PROTOCOL, "HELLO at the wrong time");
        return false;
    }
    if (msg_hello_get(f->payload, f->len, &m, err))
        return false;
    if (strcmp(m.program, NIGHTSHIFT_VERSION) != 0) {
        char why[400], *shown = utf8_display(m.program, strlen(m.program));

        snprintf(why, sizeof(why),
                 "it is of another build (%.60s, this is %s); reinstall nightshift",
                 shown ? shown : "?", NIGHTSHIFT_VERSION);
        free(shown);
        supervisor_condemn(w, ERR_VERSION, why);
    } else if (!w->run->has_stage) {
        supervisor_send(w, MSG_QUIT, NULL);
        w->state = WORKER_LEAVING;
        w->due_ms = clock_mono_ms() + LEAVE_MS;
    } else {
        send_setup(w);
    }
    msg_hello_free(&m);
    return true;
}

static double shards_a_second(const struct run *run, double times_real_time)
{
    return times_real_time * 1000 / run->o->shard_ms;
}

/* A device that was aside works again. */
static void note_back(struct run_worker *w)
{
    struct err err = {0};
    char text[200];

    if (!w->on_trial)
        return;
    w->on_trial = false;
    snprintf(text, sizeof(text), "%s is back", w->label);
    run_check(w->run, ledger_event(w->run->ledger, "worker-back", 0, w->device, text, &err), &err);
    run_note_commit(w->run);
}

static bool take_ready(struct run_worker *w, const struct frame *f, struct err *err)
{
    struct msg_ready m;
    char *shown;
    bool ok;

    if (w->state != WORKER_SETTING_UP) {
        err_set(err, ERR_PROTOCOL, "READY at the wrong time");
        return false;
    }
    if (msg_ready_get(f->payload, f->len, &m, err))
        return false;
    w->state = WORKER_READY;
    w->moved_ms = w->engine_ms = w->busy_ms = clock_mono_ms();
    w->speed = 0;
    w->was_ready = true;
    planner_worker_ready(w->run->planner, w->index, m.capacity);
    planner_worker_rate(w->run->planner, w->index, shards_a_second(w->run, m.rate));
    tuning_ready(w, &m);
    shown = utf8_display(m.description, strlen(m.description));
    report_event(w->run, LOG_INFO, "%s is ready: %.300s", w->label, shown ? shown : "");
    free(shown);
    ok = companions_ready(w, &m, err);
    msg_ready_free(&m);
    return ok;
}

static bool take_fatal(struct run_worker *w, const struct frame *f, struct err *err)
{
    struct msg_fatal m;
    char *shown;

    if (msg_fatal_get(f->payload, f->len, &m, err))
        return false;
    shown = utf8_display(m.message, strlen(m.message));
    err_set(&w->last, m.code, "%s", shown ? shown : "");
    w->death_code = m.code;
    planner_worker_gone(w->run->planner, w->index);
    if (m.code == ERR_MODEL && w->run->has_stage && w->stage_id == w->run->stage.stage_id)
        backlog_put_aside(w->run, &w->run->stage, &w->last);
    free(shown);
    msg_fatal_free(&m);
    return true;
}

/* Times real time: what is seen of it, once it has worked long enough to be judged; before, what
 * was measured. Results come in lots, so that the first half minute shows too little. */
static double speed_seen(struct run_worker *w, int64_t now)
{
    double speed;

    if (planner_worker_leases(w->run->planner, w->index, NULL, 0) == 0) {
        w->rate = (struct rate){0};
        w->busy_ms = now;
    }
    rate_add(&w->rate, now, w->audio_ms);
    speed = rate_speed(&w->rate, now);
    if (speed > 0 && (now - w->busy_ms >= JUDGED_MS || w->use.rate <= 0))
        w->speed = speed;
    return w->speed > 0 ? w->speed : (double)w->use.rate;
}

static bool take_heartbeat(struct run_worker *w, const struct frame *f, struct err *err)
{
    struct run *run = w->run;
    int64_t now = clock_mono_ms();
    struct msg_heartbeat m;

    if (msg_heartbeat_get(f->payload, f->len, &m, err))
        return false;
    if (m.engine_beat != w->engine_beat || m.windows == 0)
        w->engine_ms = now;
    if (m.engine_beat != w->engine_beat || m.audio_ms != w->audio_ms ||
        m.decoded_ms != w->decoded_ms)
        w->moved_ms = now;
    w->engine_beat = m.engine_beat;
    w->decoded_ms = m.decoded_ms;
    if (m.audio_ms > w->audio_ms)
        w->audio_ms = m.audio_ms;
    tuning_heartbeat(w, &m);
    planner_worker_rate(run->planner, w->index, shards_a_second(run, speed_seen(w, now)));
    planner_worker_busy(run->planner, w->index, m.windows);
    msg_heartbeat_free(&m);
    return true;
}

static bool take_tuned(struct run_worker *w, const struct frame *f, struct err *err)
{
    struct msg_tuned m;

    if (w->state != WORKER_READY && w->state != WORKER_LEAVING) {
        err_set(err, ERR_PROTOCOL, "TUNED at the wrong time");
        return false;
    }
    if (msg_tuned_get(f->payload, f->len, &m, err))
        return false;
    tuning_lowered(w, &m);
    planner_worker_capacity(w->run->planner, w->index, 2 * m.slots); /* as in READY */
    msg_tuned_free(&m);
    return true;
}

static bool take_log(struct run_worker *w, const struct frame *f, struct err *err)
{
    struct msg_log m;
    char *shown;

    if (msg_log_get(f->payload, f->len, &m, err))
        return false;
    shown = utf8_display(m.line, strlen(m.line));
    report_event(w->run, m.level <= LOG_DEBUG ? m.level : LOG_DEBUG, "%s: %.900s", w->label,
                 shown ? shown : "");
    free(shown);
    msg_log_free(&m);
    return true;
}

static bool take_result(struct run_worker *w, const struct frame *f, struct err *err)
{
    bool ok = false;

    switch (f->type) {
    case MSG_MEDIA: {
        struct msg_media m;

        if (msg_media_get(f->payload, f->len, &m, err))
            return false;
        ok = dispatch_media(w, &m, err);
        msg_media_free(&m);
        break;
    }
    case MSG_SHARD_DONE: {
        struct msg_shard_done m;

        if (msg_shard_done_get(f->payload, f->len, &m, err))
            return false;
        ok = dispatch_shard_done(w, &m, err);
        if (ok)
            note_back(w); /* a device that only loads a model is not back */
        msg_shard_done_free(&m);
        break;
    }
    case MSG_SHARD_FAILED: {
        struct msg_shard_failed m;

        if (msg_shard_failed_get(f->payload, f->len, &m, err))
            return false;
        ok = dispatch_shard_failed(w, &m, err);
        msg_shard_failed_free(&m);
        break;
    }
    default: {
        struct msg_lease_end m;

        if (msg_lease_end_get(f->payload, f->len, &m, err))
            return false;
        ok = dispatch_lease_end(w, &m, err);
        msg_lease_end_free(&m);
        break;
    }
    }
    w->moved_ms = clock_mono_ms();
    return ok;
}

static void on_frame(void *arg, const struct frame *f)
{
    struct run_worker *w = arg;
    struct err err = {0};
    bool ok;

    if (w->run->mode == RUN_ENDING && w->run->failure.code)
        return;
    if (w->broken) /* nothing is believed after a message that cannot be */
        return;
    w->heard_ms = clock_mono_ms();
    run_touch(w->run);
    /* Said before it read that it is not wanted any more, or before it was condemned. */
    if ((w->state == WORKER_LEAVING || w->last.code) &&
        (f->type == MSG_HELLO || f->type == MSG_READY))
        return;
    switch (f->type) {
    case MSG_HELLO:
        ok = take_hello(w, f, &err);
        break;
    case MSG_READY:
        ok = take_ready(w, f, &err);
        break;
    case MSG_FATAL:
        ok = take_fatal(w, f, &err);
        break;
    case MSG_HEARTBEAT:
        ok = take_heartbeat(w, f, &err);
        break;
    case MSG_LOG:
        ok = take_log(w, f, &err);
        break;
    case MSG_TUNED:
        ok = take_tuned(w, f, &err);
        break;
    case MSG_MEDIA:
    case MSG_SHARD_DONE:
    case MSG_SHARD_FAILED:
    case MSG_LEASE_END:
        ok = take_result(w, f, &err);
        break;
    default:
        err_set(&err, ERR_PROTOCOL, "message %u", f->type);
        ok = false;
    }
    if (!ok && err.code == ERR_NOMEM)
        run_fail(w->run, &err);
    else if (!ok)
        on_broken(w, &err);
}

/* ------------------------------------------------------------------------- starting and ending */

static void start(struct run_worker *w)
{
    const struct link_handler h = {
        .frame = on_frame, .broken = on_broken, .gone = on_gone, .arg = w};
    const char *const argv[] = {"nightshift", "worker", "--device", w->device, NULL};
    struct run *run = w->run;
    int64_t now = clock_mono_ms();
    struct err err = {0};

    w->last = (struct err){0};
    w->death_code = 0;
    w->drained = w->was_ready = w->condemned = w->broken = false;
    w->engine_beat = w->audio_ms = w->decoded_ms = 0;
    w->rate = (struct rate){0};
    w->heard_ms = now;
    if (link_start(&run->loop, run->tune.worker_program, argv, &h, &w->link, &err)) {
        int64_t wait;

        w->link = NULL;
        w->last = err;
        wait = wait_after(w, RESTART_OWN, 0);
        if (wait < 0) {
            put_aside(w, err.msg);
        } else {
            w->state = WORKER_WAITING;
            w->due_ms = now + wait;
        }
        return;
    }
    w->state = WORKER_STARTING;
    w->due_ms = now + run->tune.hello_ms;
}

void supervisor_want(struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->worker_count; i++)
        if (run->workers[i].state == WORKER_OFF) {
            run->workers[i].state = WORKER_WAITING;
            run->workers[i].due_ms = clock_mono_ms();
        }
}

static void leave(struct run_worker *w)
{
    if (w->state == WORKER_WAITING)
        w->state = WORKER_OFF;
    if (!has_process(w) || w->state == WORKER_LEAVING)
        return;
    if (w->state == WORKER_READY)
        run_flush(w->run); /* it is not counted as ready any more: see control.h */
    planner_worker_gone(w->run->planner, w->index);
    supervisor_send(w, MSG_QUIT, NULL);
    w->state = WORKER_LEAVING;
    w->due_ms = clock_mono_ms() + LEAVE_MS;
}

void supervisor_leave(struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->worker_count; i++)
        leave(&run->workers[i]);
}

void supervisor_drain(struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->worker_count; i++) {
        struct run_worker *w = &run->workers[i];

        if (w->state == WORKER_READY) {
            planner_worker_gone(run->planner, w->index);
            if (!w->drained)
                supervisor_send(w, MSG_DRAIN, NULL);
            w->drained = true;
        } else {
            leave(w);
        }
    }
}

void supervisor_kill(struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->worker_count; i++) {
        struct run_worker *w = &run->workers[i];

        if (w->state == WORKER_WAITING)
            w->state = WORKER_OFF;
        if (!has_process(w))
            continue;
        w->state = WORKER_LEAVING;
        w->due_ms = clock_mono_ms() + LEAVE_MS;
        link_kill(w->link);
    }
}

static bool holds_leases(const struct run_worker *w)
{
    return planner_worker_leases(w->run->planner, w->index, NULL, 0) > 0 || w->companion_leases > 0;
}

static void watch(struct run_worker *w, int64_t now)
{
    const struct scheduler_tuning *t = &w->run->tune;
    bool busy = holds_leases(w);
    char why[200];

    if (now - w->heard_ms > w->run->o->worker_silence_ms) {
        snprintf(why, sizeof(why), "it gave no sign of life for %u s",
                 (unsigned)((now - w->heard_ms) / 1000));
        supervisor_condemn(w, ERR_TIMEOUT, why);
        return;
    }
    if (!busy) {
        w->moved_ms = w->engine_ms = now;
        return;
    }
    if (now - w->moved_ms > t->still_ms || now - w->engine_ms > t->still_ms) {
        snprintf(why, sizeof(why), "its work stood still for %u s", (unsigned)(t->still_ms / 1000));
        supervisor_condemn(w, ERR_TIMEOUT, why);
    }
}

/* While the loop itself was held (a commit waited for a disk, a terminal was stopped) nobody
 * listened: that time is not held against the workers, whose words are read after this. */
static void forgive(struct run *run, int64_t now)
{
    int64_t lost = now - run->ticked_ms - RUN_TICK_MS;
    uint32_t i;

    run->ticked_ms = now;
    if (lost <= 2 * RUN_TICK_MS)
        return;
    for (i = 0; i < run->worker_count; i++) {
        struct run_worker *w = &run->workers[i];

        w->heard_ms += lost;
        w->moved_ms += lost;
        w->engine_ms += lost;
        if (w->state != WORKER_WAITING)
            w->due_ms += lost;
    }
    settle_forgive(run, lost);
}

/* A program of another build stays one; anything else may have passed: memory that others held, a
 * card that was reset. */
static bool may_come_back(const struct run_worker *w)
{
    return w->run->mode == RUN_GOING && w->run->has_stage && w->last.code != ERR_VERSION;
}

static void try_again(struct run_worker *w)
{
    report_event(w->run, LOG_INFO, "%s was put aside, and is tried again", w->label);
    w->on_trial = true;
    w->restart = (struct restart){0};
    start(w);
}

void supervisor_tick(struct run *run, int64_t now)
{
    uint32_t i;

    forgive(run, now);
    for (i = 0; i < run->worker_count; i++) {
        struct run_worker *w = &run->workers[i];

        switch (w->state) {
        case WORKER_WAITING:
            if (now >= w->due_ms && run->mode == RUN_GOING && run->has_stage)
                start(w);
            break;
        case WORKER_STARTING:
            if (now >= w->due_ms)
                supervisor_condemn(w, ERR_TIMEOUT, "it did not say who it is in time");
            break;
        case WORKER_SETTING_UP:
            if (now >= w->due_ms)
                supervisor_condemn(w, ERR_TIMEOUT, "it did not load the model in time");
            break;
        case WORKER_READY:
            if (w->drained && !holds_leases(w))
                leave(w); /* it takes no more; who wants it again starts it again */
            else
                watch(w, now);
            break;
        case WORKER_LEAVING:
            if (now >= w->due_ms)
                link_kill(w->link);
            break;
        case WORKER_ASIDE:
            if (now >= w->due_ms && may_come_back(w))
                try_again(w);
            break;
        case WORKER_OFF:
            break;
        }
    }
}

void supervisor_reap(struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->worker_count; i++)
        if (run->workers[i].link)
            link_reap(run->workers[i].link);
}

void supervisor_free(struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->worker_count; i++) {
        link_free(run->workers[i].link);
        run->workers[i].link = NULL;
    }
}
