/* The watcher is `nightshift probe --watch`, with a pipe as its standard output that is read
 * without waiting.
 *
 *   none --start--> on --line--> on ... --silence--> killed --ends--> none, and later again
 *    ^               `------- ends, with an answer or by a crash ------'
 *    `-- for good where it never saw anything: there is no NVML, or none that can be used */
#include "scheduler/run/gpu_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"
#include "scheduler/run/report.h"

#define CHUNK 65536
#define OLD_PERIODS 8 /* a look that is so many periods old says nothing of now */
#define END_MS 200    /* in the end it is not waited for any longer */

struct gpu_watch {
    pid_t pid;     /* 0: none */
    int file;      /* -1: none */
    bool killed;   /* it was silent; it ends when the driver lets it */
    bool seen;     /* this or an earlier one saw something */
    bool told;     /* that nothing is seen any more was said */
    struct buf in; /* of a line that is not whole yet */
    char words[300];
    int64_t heard_ms, again_ms; /* monotonic; again 0: never */
    struct gpu_sample *sample;  /* of each of: */
    uint32_t *worker;           /* indices */
    uint32_t count;
};

/* ----------------------------------------------------------------------------- the process */

static const char *uuid_of(const struct device *d)
{
    return d->kind == DEVICE_CUDA ? d->id : d->name; /* a simulated one is known by its name */
}

static int spawn_watcher(struct run *run, int file)
{
    struct gpu_watch *g = run->devices.watch;
    const char **argv = calloc(g->count + 5u, sizeof(*argv));
    char period[24];
    int rc;

    if (!argv)
        return ENOMEM;
    snprintf(period, sizeof(period), "%u", run->tune.sample_ms);
    argv[0] = "nightshift";
    argv[1] = "probe";
    argv[2] = "--watch";
    argv[3] = period;
    for (uint32_t i = 0; i < g->count; i++)
        argv[4 + i] = uuid_of(&run->devices.picked->list[g->worker[i]]);
    rc = spawn_start(run->tune.worker_program, argv, (int[]){SPAWN_NULL, file, STDERR_FILENO}, 3,
                     &g->pid);
    free(argv);
    return rc;
}

/* One that cannot be started is one that ended at once. */
static void start_gpu_watcher(struct run *run)
{
    struct gpu_watch *g = run->devices.watch;
    int ends[2];

    g->heard_ms = clock_mono_ms();
    g->again_ms = g->heard_ms + run->tune.sample_again_ms;
    g->killed = false;
    buf_clear(&g->in);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (spawn_watcher(run, ends[1]) != 0) {
        g->pid = 0;
        close(ends[0]);
    } else {
        g->file = ends[0];
    }
    close(ends[1]);
}

/* It has ended, or is to end: nothing of it is read any more. */
static void stop_reading(struct gpu_watch *g)
{
    if (g->file >= 0)
        close(g->file);
    g->file = -1;
}

static void say_lost(struct run *run, const char *how)
{
    if (run->devices.watch->seen && !run->devices.watch->told)
        report_event(run, LOG_WARN,
                     "NVML %s: what the driver sees of the GPUs is not known; it is tried again",
                     how);
    run->devices.watch->told = true;
}

/* --------------------------------------------------------------------------- what it says */

/* Before the catalog is open only --idle looks. */
static void tell_health(struct run_worker *w, int64_t now)
{
    struct gpu_health_news news[GPU_HEALTH_NEWS];
    struct run *run = w->process.run;
    struct err err = {0};
    size_t n;

    if (!run->ledger)
        return;
    n = gpu_health_look(&w->sample.told, run->devices.picked->list[w->index].label, &w->sample.seen,
                        now, news);
    for (size_t i = 0; i < n; i++) {
        report_event(run, news[i].good ? LOG_INFO : LOG_WARN, "%s", news[i].text);
        run_check(run, ledger_event(run->ledger, news[i].kind, 0, w->device, news[i].text, &err),
                  &err);
    }
    if (n > 0)
        run_note_commit(run);
}

static void take_line(struct run *run, const char *line, size_t len, int64_t now)
{
    struct gpu_watch *g = run->devices.watch;

    if (gpu_sample_read(line, len, g->sample, g->count, g->words, sizeof(g->words)) !=
        GPU_SAMPLE_SEEN)
        return;
    if (g->told && g->seen)
        report_event(run, LOG_INFO, "NVML answers again");
    g->told = false;
    g->seen = true;
    for (uint32_t i = 0; i < g->count; i++) {
        run->devices.workers[g->worker[i]].sample.seen = g->sample[i];
        run->devices.workers[g->worker[i]].sample.at_ms = now;
        tell_health(&run->devices.workers[g->worker[i]], now);
    }
}

static void take_lines(struct run *run, int64_t now)
{
    struct gpu_watch *g = run->devices.watch;
    size_t at = 0;
    const uint8_t *end;

    while (at < g->in.len && (end = memchr(g->in.data + at, '\n', g->in.len - at))) {
        const size_t n = (size_t)(end - g->in.data) - at;

        take_line(run, (const char *)g->in.data + at, n, now);
        at += n + 1;
    }
    buf_consume(&g->in, at);
    if (g->in.len > GPU_SAMPLE_LINE || g->in.failed) { /* no line of ours */
        buf_free(&g->in);
        g->in = (struct buf)BUF_INIT;
    }
}

/* Reads once. A process that writes without end must wait for the next tick. */
static void listen_once(struct run *run, int64_t now)
{
    struct gpu_watch *g = run->devices.watch;
    uint8_t *place = g->file >= 0 ? buf_reserve(&g->in, CHUNK) : NULL;
    ssize_t n = place ? read(g->file, place, CHUNK) : -1;

    if (n <= 0)
        return; /* that it has ended is seen by its process */
    g->in.len += (size_t)n;
    g->heard_ms = now;
    take_lines(run, now);
}

static void check_gpu_watcher(struct run *run, int64_t now)
{
    struct gpu_watch *g = run->devices.watch;

    if (g->pid > 0 && !g->killed && now - g->heard_ms > run->tune.sample_still_ms) {
        say_lost(run, "does not answer");
        spawn_kill(g->pid);
        g->killed = true;
        stop_reading(g);
    }
    if (g->pid > 0 && spawn_ended(g->pid)) {
        listen_once(run, now); /* its last words */
        if (!g->killed)
            say_lost(run, "made its process end");
        spawn_end(g->pid, 0);
        g->pid = 0;
        g->again_ms = g->seen ? now + run->tune.sample_again_ms : 0;
        stop_reading(g);
    }
    if (g->pid == 0 && g->again_ms > 0 && now >= g->again_ms)
        start_gpu_watcher(run);
}

void gpu_watch_tick(struct run *run, int64_t now)
{
    if (!run->devices.watch)
        return;
    listen_once(run, now);
    check_gpu_watcher(run, now);
}

const struct gpu_sample *gpu_watch_sample(const struct run_worker *w, int64_t now)
{
    const struct run *run = w->process.run;
    const int64_t old = (int64_t)OLD_PERIODS * run->tune.sample_ms;

    return w->sample.at_ms > 0 && now - w->sample.at_ms <= old ? &w->sample.seen : NULL;
}

/* ------------------------------------------------------------------------- begin and end */

static int create_gpu_watch(struct run *run, struct err *err)
{
    struct gpu_watch *g = calloc(1, sizeof(*g));

    if (!g)
        return err_set(err, ERR_NOMEM, "no memory for the GPUs");
    run->devices.watch = g;
    g->file = -1;
    g->sample = calloc(run->devices.count, sizeof(*g->sample));
    g->worker = calloc(run->devices.count, sizeof(*g->worker));
    if (!g->sample || !g->worker)
        return err_set(err, ERR_NOMEM, "no memory for the GPUs");
    for (uint32_t i = 0; i < run->devices.count; i++)
        if (run->devices.picked->list[i].kind != DEVICE_CPU)
            g->worker[g->count++] = i;
    return 0;
}

/* Until the first look, or the process's end; not for one that was killed: where the driver hangs
 * it ends when that lets it. */
static void wait_for_first(struct run *run)
{
    struct gpu_watch *g = run->devices.watch;

    while (g->pid > 0 && !g->killed && !g->seen) {
        struct pollfd fd = {.fd = g->file, .events = POLLIN};

        poll(&fd, 1, RUN_TICK_MS);
        gpu_watch_tick(run, clock_mono_ms());
    }
}

static int require_gpu_usage(struct run *run, struct err *err)
{
    struct gpu_watch *g = run->devices.watch;

    wait_for_first(run);
    if (!g->seen)
        return err_set(err, ERR_DEVICE,
                       "--idle asks NVML who uses a GPU, and %.200s: install the driver's "
                       "libnvidia-ml.so.1, or run without --idle",
                       g->words[0] ? g->words
                       : g->killed ? "it does not answer"
                                   : "the process that asks it ended");
    for (uint32_t i = 0; i < g->count; i++)
        if (!g->sample[i].lists)
            return err_set(err, ERR_DEVICE,
                           "--idle asks NVML who uses a GPU, and of %s it does not tell: leave it "
                           "out (--devices), or run without --idle",
                           run->devices.picked->list[g->worker[i]].label);
    return 0;
}

int gpu_watch_start(struct run *run, struct err *err)
{
    int rc = create_gpu_watch(run, err);

    if (rc)
        return rc;
    if (run->devices.watch->count > 0) {
        start_gpu_watcher(run);
        return run->o->idle ? require_gpu_usage(run, err) : 0;
    }
    gpu_watch_end(run);
    return run->o->idle ? err_set(err, ERR_USAGE,
                                  "--idle leaves GPUs to others, and no device of this run is one")
                        : 0;
}

void gpu_watch_end(struct run *run)
{
    struct gpu_watch *g = run->devices.watch;

    if (!g)
        return;
    if (g->pid > 0) {
        spawn_kill(g->pid);
        spawn_end(g->pid, END_MS);
    }
    stop_reading(g);
    buf_free(&g->in);
    free(g->sample);
    free(g->worker);
    free(g);
    run->devices.watch = NULL;
}
