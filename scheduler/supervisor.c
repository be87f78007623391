#include "scheduler/supervisor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/utf8.h"
#include "gpu/devices/devices.h"
#include "gpu/precision.h"
#include "scheduler/disabled_stages.h"
#include "scheduler/intake.h"
#include "scheduler/lease/tracks.h"
#include "scheduler/run/figures.h"
#include "scheduler/run/process.h"
#include "scheduler/run/remembered_batch.h"
#include "scheduler/run/report.h"
#include "scheduler/run/run.h"
#include "scheduler/worker_pool.h"

#define JUDGED_MS 30000
/* A run whose last GPU is held by a process that was killed waits so long for its end: it may only
 * be slow to give back its memory, and nobody is awake to begin the run again. */
#define STUCK_WAIT_MS 30000
#define DEVICE_LOST "its device is lost: "

/*   STARTING --HELLO--> UP --READY--> ready     what process.h has of it, and how far UP is
 *
 * ASIDE: it died too often, or could not but die again. It is tried again after a long pause while
 * there is work, and with one more death is quarantined again; never when it is of another build.
 */
static bool all_quarantined(const struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->devices.count; i++)
        if (run->devices.workers[i].process.state != PROCESS_QUARANTINED)
            return false;
    return true;
}

/* ------------------------------------------------------------------------------------ deaths */

/* No more recordings for a dead man. */
static void on_condemned(void *owner)
{
    struct run_worker *w = owner;

    planner_worker_gone(w->process.run->planner, w->index);
}

/* A process in the driver that cannot be ended: the next one on that GPU would get stuck beside it.
 * On the processor the next one may do other recordings. */
static bool holds_stuck_gpu(const struct run_worker *w)
{
    return w->process.stuck_pid != 0 &&
           w->process.run->devices.picked->list[w->index].kind != DEVICE_CPU;
}

static bool awaits_stuck_gpu(const struct run *run)
{
    const int64_t now = clock_mono_ms();

    for (uint32_t i = 0; i < run->devices.count; i++)
        if (holds_stuck_gpu(&run->devices.workers[i]) &&
            now - run->devices.workers[i].process.stuck_ms < STUCK_WAIT_MS)
            return true;
    return false;
}

/* Ends the run, or its stage, if no worker is left. why: what became of w, of which that is said.
 */
static void end_without_workers(struct run_worker *w, const char *why)
{
    struct run *run = w->process.run;
    int code = w->process.last.code;
    struct err err = {0};

    if (!all_quarantined(run) || awaits_stuck_gpu(run) || run->tick.mode == RUN_ENDING)
        return;
    err_set(&err, code ? code : ERR_DEVICE,
            "no worker is left: %s; see `nightshift %s`, then run again", why,
            code == ERR_VRAM ? "plan" : "doctor");
    if (run->backlog.has_stage && worker_pool_all_too_small(run))
        disabled_stage_put(run, &run->backlog.stage, &err);
    else
        run_fail(run, &err);
}

static void on_quarantined(void *owner, const char *why, const char *sentence)
{
    struct run_worker *w = owner;
    struct run *run = w->process.run;
    struct err err = {0};

    run_check(run, ledger_event(run->ledger, "worker-aside", 0, w->device, sentence, &err), &err);
    run_note_commit(run);
    end_without_workers(w, why);
}

static void on_gone(void *owner, struct process_loss *loss)
{
    struct run_worker *w = owner;
    struct run *run = w->process.run;
    const struct err *last = &w->process.last;

    planner_worker_gone(run->planner, w->index);
    w->is_fp16 = false;
    remembered_gone(w);
    figures_worker_gone(&run->figures, w->pulse.audio_ms);
    w->pulse.audio_ms = w->pulse.memory_bytes = 0;
    if (!loss) {
        intake_worker_lost(w, ERR_CANCELLED, "the worker ended", NULL, NULL);
        return;
    }
    intake_worker_lost(w, last->code, last->msg, &loss->cause, &loss->task);
    /* A model that did not fit at the start will not fit a second later, and a library does not
     * install itself. */
    if (last->code == ERR_VRAM && !w->was_ready)
        loss->hopeless = "the model does not fit: ";
    else if (last->code == ERR_LIBRARY)
        loss->hopeless = "";
    else if (holds_stuck_gpu(w))
        loss->hopeless = DEVICE_LOST;
}

/* ---------------------------------------------------------------------------------- messages */

static bool is_precision_auto(const struct run *run)
{
    enum precision wish = PRECISION_AUTO;
    struct err none = {0};

    return !run->o->precision ||
           (precision_parse(run->o->precision, &wish, &none) == 0 && wish == PRECISION_AUTO);
}

/* A model that has left fp16's range is tried in what has more. */
static const char *choose_precision(const struct run_worker *w)
{
    const struct run *run = w->process.run;
    const struct device *d = &run->devices.picked->list[w->index];

    if (run->backlog.left_fp16 && is_precision_auto(run))
        return precision_name(precision_auto(d->precisions & ~(1u << PRECISION_F16)));
    return run->o->precision ? run->o->precision : "auto";
}

static void send_setup(struct run_worker *w)
{
    struct run *run = w->process.run;
    struct buf b = BUF_INIT;
    struct msg_stage stages[SETUP_MAX_STAGES] = {{
        .name = run->backlog.stage.name,
        .model_dir = run->backlog.stage.model_dir,
        .model_hash = run->backlog.stage.model_hash,
        .params_json = run->backlog.stage.params_json,
    }};
    struct msg_setup m = {
        .stage_count = 1,
        .stages = stages,
        .precision = (char *)choose_precision(w),
        .cache = run->o->cache,
        .slots = run->o->slots,
        .decoders = run->o->decoders,
        .workers = run->devices.count,
        .windows = run->o->windows,
        .memory_limit = run->devices.picked->list[w->index].memory_limit,
        .deterministic = run->o->deterministic,
    };

    /* Several host workers share the processor's threads. */
    m.threads = run->o->threads;
    if (m.threads == 0 && run->devices.count > 1)
        m.threads = device_threads(run->devices.picked, w->index);
    w->stage_id = run->backlog.stage.stage_id;
    w->is_fp16 = !run->backlog.left_fp16 && is_precision_auto(run) &&
                 precision_auto(run->devices.picked->list[w->index].precisions) == PRECISION_F16;
    tracks_setup(w, &m);
    remembered_fill(w, &m);
    msg_setup_put(&b, &m);
    process_send(&w->process, MSG_SETUP, &b);
    buf_free(&b);
    free(m.algorithms);
    w->process.due_ms = clock_mono_ms() + run->tune.ready_ms;
}

static double shards_a_second(const struct run *run, double times_real_time)
{
    return times_real_time * 1000 / run->o->shard_ms;
}

/* A quarantined device works again. */
static void note_back(struct run_worker *w)
{
    struct run *run = w->process.run;
    struct err err = {0};
    char text[200];

    if (!w->process.on_trial)
        return;
    w->process.on_trial = false;
    snprintf(text, sizeof(text), "%s is back", w->label);
    run_check(run, ledger_event(run->ledger, "worker-back", 0, w->device, text, &err), &err);
    run_note_commit(run);
}

static bool take_ready(struct run_worker *w, const struct frame *f, struct err *err)
{
    struct run *run = w->process.run;
    struct msg_ready m;
    char *shown;
    bool ok;

    if (w->process.state == PROCESS_LEAVING || w->process.last.code) /* said before it read that */
        return true;
    if (w->process.state != PROCESS_UP || w->was_ready) {
        err_set(err, ERR_PROTOCOL, "READY at the wrong time");
        return false;
    }
    if (msg_ready_get(f->payload, f->len, &m, err))
        return false;
    w->pulse.moved_ms = w->pulse.engine_ms = w->pulse.busy_ms = clock_mono_ms();
    w->pulse.speed = 0;
    w->was_ready = true;
    w->is_fp16 = is_precision_auto(run) && strcmp(m.precision, "fp16") == 0;
    planner_worker_ready(run->planner, w->index, m.capacity);
    planner_worker_rate(run->planner, w->index, shards_a_second(run, m.rate));
    remembered_ready(w, &m);
    shown = utf8_display(m.description, strlen(m.description));
    report_event(run, LOG_INFO, "%s is ready: %.300s", w->label, shown ? shown : "");
    free(shown);
    ok = tracks_ready(w, &m, err);
    msg_ready_free(&m);
    if (ok && w->is_fp16 && run->backlog.left_fp16) /* it was loading when the others left */
        worker_pool_dismiss(w);
    return ok;
}

static bool take_fatal(struct run_worker *w, const struct frame *f, struct err *err)
{
    struct run *run = w->process.run;
    struct msg_fatal m;
    char *shown;

    if (msg_fatal_get(f->payload, f->len, &m, err))
        return false;
    shown = utf8_display(m.message, strlen(m.message));
    err_set(&w->process.last, m.code, "%s", shown ? shown : "");
    planner_worker_gone(run->planner, w->index);
    if (m.code == ERR_MODEL && run->backlog.has_stage &&
        w->stage_id == run->backlog.stage.stage_id &&
        !worker_pool_left_fp16(w, w->process.last.msg))
        disabled_stage_put(run, &run->backlog.stage, &w->process.last);
    free(shown);
    msg_fatal_free(&m);
    return true;
}

/* Times real time: what is seen of it, once it has worked long enough to be judged; before, what
 * was measured. Results come in lots, so that the first half minute shows too little. */
static double speed_seen(struct run_worker *w, int64_t now)
{
    double speed;

    if (planner_worker_leases(w->process.run->planner, w->index, NULL, 0) == 0) {
        w->pulse.rate = (struct rate){0};
        w->pulse.busy_ms = now;
    }
    rate_add(&w->pulse.rate, now, w->pulse.audio_ms);
    speed = rate_speed(&w->pulse.rate, now);
    if (speed > 0 && (now - w->pulse.busy_ms >= JUDGED_MS || w->memory.use.rate <= 0))
        w->pulse.speed = speed;
    return w->pulse.speed > 0 ? w->pulse.speed : (double)w->memory.use.rate;
}

static bool take_heartbeat(struct run_worker *w, const struct frame *f, struct err *err)
{
    struct run *run = w->process.run;
    int64_t now = clock_mono_ms();
    struct msg_heartbeat m;

    if (msg_heartbeat_get(f->payload, f->len, &m, err))
        return false;
    if (m.engine_beat != w->pulse.engine_beat || m.windows == 0)
        w->pulse.engine_ms = now;
    if (m.engine_beat != w->pulse.engine_beat || m.audio_ms != w->pulse.audio_ms ||
        m.decoded_ms != w->pulse.decoded_ms)
        w->pulse.moved_ms = now;
    w->pulse.engine_beat = m.engine_beat;
    w->pulse.decoded_ms = m.decoded_ms;
    if (m.audio_ms > w->pulse.audio_ms)
        w->pulse.audio_ms = m.audio_ms;
    remembered_heartbeat(w, &m);
    w->pulse.memory_bytes = m.vram_bytes > 0 ? m.vram_bytes : m.rss_bytes;
    planner_worker_rate(run->planner, w->index, shards_a_second(run, speed_seen(w, now)));
    planner_worker_busy(run->planner, w->index, m.windows);
    msg_heartbeat_free(&m);
    return true;
}

static bool take_tuned(struct run_worker *w, const struct frame *f, struct err *err)
{
    struct msg_tuned m;

    if (!run_worker_ready(w) && w->process.state != PROCESS_LEAVING) {
        err_set(err, ERR_PROTOCOL, "TUNED at the wrong time");
        return false;
    }
    if (msg_tuned_get(f->payload, f->len, &m, err))
        return false;
    remembered_lowered(w, &m);
    planner_worker_capacity(w->process.run->planner, w->index, 2 * m.slots); /* as in READY */
    msg_tuned_free(&m);
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
        ok = intake_media(w, &m, err);
        msg_media_free(&m);
        break;
    }
    case MSG_SHARD_DONE: {
        struct msg_shard_done m;

        if (msg_shard_done_get(f->payload, f->len, &m, err))
            return false;
        ok = intake_shard_done(w, &m, err);
        if (ok)
            note_back(w); /* a device that only loads a model is not back */
        msg_shard_done_free(&m);
        break;
    }
    case MSG_SHARD_FAILED: {
        struct msg_shard_failed m;

        if (msg_shard_failed_get(f->payload, f->len, &m, err))
            return false;
        ok = intake_shard_failed(w, &m, err);
        msg_shard_failed_free(&m);
        break;
    }
    default: {
        struct msg_lease_end m;

        if (msg_lease_end_get(f->payload, f->len, &m, err))
            return false;
        ok = intake_lease_end(w, &m, err);
        msg_lease_end_free(&m);
        break;
    }
    }
    w->pulse.moved_ms = clock_mono_ms();
    return ok;
}

static bool on_frame(void *owner, const struct frame *f, struct err *err)
{
    struct run_worker *w = owner;

    switch (f->type) {
    case MSG_READY:
        return take_ready(w, f, err);
    case MSG_FATAL:
        return take_fatal(w, f, err);
    case MSG_HEARTBEAT:
        return take_heartbeat(w, f, err);
    case MSG_TUNED:
        return take_tuned(w, f, err);
    case MSG_MEDIA:
    case MSG_SHARD_DONE:
    case MSG_SHARD_FAILED:
    case MSG_LEASE_END:
        return take_result(w, f, err);
    default:
        err_set(err, ERR_PROTOCOL, "message %u", f->type);
        return false;
    }
}

/* ------------------------------------------------------------------------- its life */

static void on_ready(void *owner)
{
    struct run_worker *w = owner;

    if (w->process.run->backlog.has_stage)
        send_setup(w);
    else
        worker_pool_dismiss(w);
}

static bool holds_leases(const struct run_worker *w)
{
    return planner_worker_leases(w->process.run->planner, w->index, NULL, 0) > 0;
}

static void check_worker_alive(struct run_worker *w, int64_t now)
{
    struct run *run = w->process.run;
    const struct scheduler_tuning *t = &run->tune;
    bool busy = holds_leases(w);
    char why[200];

    if (now - w->process.heard_ms > run->o->worker_silence_ms) {
        snprintf(why, sizeof(why), "it did not answer for %u s",
                 (unsigned)((now - w->process.heard_ms) / 1000));
        process_condemn(&w->process, ERR_TIMEOUT, why);
        return;
    }
    if (!busy) {
        w->pulse.moved_ms = w->pulse.engine_ms = now;
        return;
    }
    if (now - w->pulse.moved_ms > t->still_ms || now - w->pulse.engine_ms > t->still_ms) {
        snprintf(why, sizeof(why), "it made no progress for %u s", (unsigned)(t->still_ms / 1000));
        process_condemn(&w->process, ERR_TIMEOUT, why);
    }
}

/* A program of another build stays one; anything else may have passed: memory that others held, a
 * card that was reset. */
static bool may_come_back(const struct run_worker *w)
{
    struct run *run = w->process.run;

    return run->tick.mode == RUN_GOING && run->backlog.has_stage && !w->way.left &&
           w->process.last.code != ERR_VERSION && !holds_stuck_gpu(w);
}

static void try_again(struct run_worker *w)
{
    report_event(w->process.run, LOG_INFO, "%s was disabled, and is tried again", w->label);
    w->process.on_trial = true;
    w->process.restart = (struct restart){0};
    worker_pool_start(w);
}

static void end_without_stuck_gpu(struct run_worker *w)
{
    char why[sizeof(w->process.last.msg) + sizeof(DEVICE_LOST)];

    snprintf(why, sizeof(why), DEVICE_LOST "%s", w->process.last.msg);
    end_without_workers(w, why);
}

static void on_tick(void *owner, int64_t now, int64_t lost)
{
    struct run_worker *w = owner;
    struct process *p = &w->process;

    w->pulse.moved_ms += lost;
    w->pulse.engine_ms += lost;
    if (run_worker_ready(w) && w->drained && !holds_leases(w))
        worker_pool_dismiss(w); /* it takes no more; who wants it again starts it again */
    else if (run_worker_ready(w))
        check_worker_alive(w, now);
    else if (p->state == PROCESS_UP && now >= p->due_ms)
        process_condemn(p, ERR_TIMEOUT, "it did not load the model in time");
    else if (p->state == PROCESS_QUARANTINED && now >= p->due_ms && may_come_back(w))
        try_again(w);
    else if (p->state == PROCESS_QUARANTINED && holds_stuck_gpu(w) &&
             now - p->stuck_ms >= STUCK_WAIT_MS)
        end_without_stuck_gpu(w);
}

void supervisor_add(struct run *run, struct run_worker *w)
{
    static const struct process_kind worker = {
        .died = "worker-died",
        .a = "",
        .ready = on_ready,
        .frame = on_frame,
        .condemned = on_condemned,
        .gone = on_gone,
        .quarantined = on_quarantined,
        .tick = on_tick,
    };

    process_init(&w->process, run, &worker, w->label, w->device, w);
}

/* ---- the devices of a run: one worker for each. Chosen before anything is begun or written, so
 * that what cannot be is told while somebody is still looking */

static int add_worker(struct run *run, const struct device *d, struct err *err)
{
    struct run_worker *p, *w;

    if (run->devices.count == PLANNER_MAX_WORKERS)
        return err_set(err, ERR_USAGE, "more than %u devices", PLANNER_MAX_WORKERS);
    p = realloc(run->devices.workers, (run->devices.count + 1) * sizeof(*p));
    if (!p)
        return err_set(err, ERR_NOMEM, "no memory for the workers");
    run->devices.workers = p;
    w = &p[run->devices.count];
    memset(w, 0, sizeof(*w));
    w->index = run->devices.count++;
    snprintf(w->device, sizeof(w->device), "%s", d->name);
    return 0;
}

static void label_workers(struct run *run)
{
    uint32_t i;

    for (i = 0; i < run->devices.count; i++) {
        struct run_worker *w = &run->devices.workers[i];
        const char *label = run->devices.picked->list[i].label;

        if (run->devices.count == 1)
            snprintf(w->label, sizeof(w->label), "worker %s", label);
        else
            snprintf(w->label, sizeof(w->label), "worker %u (%s)", i + 1, label);
        supervisor_add(run, w);
    }
}

int run_devices_init(struct run *run, struct err *err)
{
    const struct scheduler_options *o = run->o;
    struct devices *all = malloc(sizeof(*all)), *picked = malloc(sizeof(*picked));
    uint32_t i;
    int rc = 0;

    run->devices.picked = picked;
    if (!all || !picked) {
        free(all);
        return err_set(err, ERR_NOMEM, "no memory for the devices");
    }
    if (devices_list_wants_gpus(o->devices))
        rc = devices_find(run->tune.worker_program, all, err);
    else
        devices_processor(all);
    if (rc == 0)
        rc = devices_pick(all, o->devices, o->allow_cpu, picked, err);
    if (rc == 0)
        rc = devices_cap(picked, o->device_memory, err);
    for (i = 0; rc == 0 && i < picked->count; i++)
        rc = add_worker(run, &picked->list[i], err);
    if (rc == 0)
        label_workers(run);
    free(all);
    return rc;
}

void run_devices_free(struct run_devices *d)
{
    free(d->workers);
    free(d->picked);
}

void run_devices_say(struct run *run)
{
    const struct devices *d = run->devices.picked;
    const char *list = run->o->devices;
    bool any = !list || !list[0] || strcmp(list, "auto") == 0;
    struct err err = {0};
    char text[480];
    uint32_t i;

    /* Report no libraries that nothing here needs. */
    for (i = 0; d->expects_gpu && i < d->finding_count; i++) {
        const struct device_finding *f = &d->findings[i];

        if (f->state != FINDING_WARNING)
            continue;
        report_event(run, LOG_WARN, "%s: %s; wanted: %s; %s", f->name, f->found, f->wanted,
                     f->todo);
        if (strncmp(f->name, "cuda:", 5) != 0)
            continue;
        snprintf(text, sizeof(text), "%s: %s", f->name, f->found);
        run_check(run, ledger_event(run->ledger, "device-warning", 0, f->name, text, &err), &err);
    }
    if (any && d->list[0].kind == DEVICE_CPU)
        report_event(run, d->expects_gpu ? LOG_WARN : LOG_INFO,
                     "no GPU: %s; working on the processor", d->no_gpu.msg);
}
