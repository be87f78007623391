#include "workers/process/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/utf8.h"
#include "gpu/devices/devices.h"
#include "workers/media/decoder.h"
#include "workers/wire/frame.h"
#include "workers/stages/stage_kind.h"
#include "workers/process/engine.h"
#include "workers/pass/lease.h"
#include "workers/pass/pass.h"
#include "workers/pass/state.h"
#include "workers/pass/unpack.h"

#define HEARTBEAT_MS 1000
#define FLUSH_MS 2000 /* for the first words, and the last */
#define LEAVE_MS 5000 /* for threads that are inside a step or a slow open() */
#define DECODERS_MAX 1024u
#define DECODERS_AUTO_MAX 16u
#define RECEIVE_STEP 65536u

/* The control thread's state. */
struct control {
    struct worker w;
    struct buf in;
    int64_t next_beat_ms;
    bool set_up;
    pthread_t engine;
    pthread_t *decoders;
    uint32_t decoder_count;
    int failed; /* as worker.failed */
};

/* ---- what is said */

static void log_to_scheduler(enum log_level level, const char *line, void *arg)
{
    struct worker *w = arg;
    struct buf b = BUF_INIT;
    char *valid = utf8_repair(line, strlen(line));
    struct msg_log m = {.level = (uint8_t)level, .line = valid};

    msg_log_put(&b, &m);
    outbox_post(&w->out, MSG_LOG, &b);
    free(valid);
}

static void post_hello(struct worker *w)
{
    struct buf b = BUF_INIT;
    struct msg_hello m = {
        .pid = (uint32_t)getpid(),
        .device = w->device,
        .program = (char *)NIGHTSHIFT_VERSION,
    };

    msg_hello_put(&b, &m);
    outbox_post(&w->out, MSG_HELLO, &b);
}

/* The second number of /proc/self/statm, in pages. */
static uint64_t resident_bytes(void)
{
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    char *second;

    if (fd >= 0)
        close(fd);
    second = n > 0 ? strchr(text, ' ') : NULL;
    return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* One beat for all engine threads, so that one that hangs is seen though others work: it goes up
 * when each of those that are inside a step has done a piece of it since the last time. Lock held.
 */
static void count_beat(struct worker *w)
{
    bool any = false;

    for (uint32_t i = 0; i < SETUP_MAX_STAGES; i++) {
        if (w->engine[i].stepping && w->engine[i].beat == w->engine[i].told)
            return;
        any |= w->engine[i].beat != w->engine[i].told;
    }
    w->beat += any;
    for (uint32_t i = 0; i < SETUP_MAX_STAGES; i++)
        w->engine[i].told = w->engine[i].beat;
}

/* How many windows are in flight; while only shards are waited for within a step, one at least.
 * Lock held. */
static uint32_t count_windows(const struct worker *w)
{
    uint32_t windows = 0, stepping = 0;

    for (uint32_t i = 0; i < SETUP_MAX_STAGES; i++) {
        windows += w->engine[i].windows;
        stepping += w->engine[i].stepping;
    }
    return windows ? windows : stepping;
}

static void post_heartbeat(struct worker *w)
{
    struct buf b = BUF_INIT;
    struct msg_heartbeat m;

    pthread_mutex_lock(&w->lock);
    count_beat(w);
    m = (struct msg_heartbeat){
        .audio_ms = (uint64_t)w->engine_samples / 16,
        .decoded_ms = (uint64_t)w->decoded_samples / 16 + w->pulses,
        .leases = w->lease_count,
        .windows = count_windows(w),
        .engine_beat = w->beat,
        .vram_bytes = w->vram_bytes,
        .vram_peak = w->vram_peak,
    };
    pthread_mutex_unlock(&w->lock);
    m.rss_bytes = resident_bytes();
    msg_heartbeat_put(&b, &m);
    outbox_post(&w->out, MSG_HEARTBEAT, &b);
}

/* ---- threads */

static uint32_t decoder_threads(const struct msg_setup *setup)
{
    uint32_t n = setup->decoders ? setup->decoders : cpu_processors();
    uint32_t most = setup->decoders ? DECODERS_MAX : DECODERS_AUTO_MAX;

    return n < 1 ? 1 : n > most ? most : n;
}

/* The name shows in top -H, and tells the benchmark of a night whose time it is. */
static int start_thread(struct control *c, const char *name, pthread_t *t, void *(*run)(void *),
                        struct err *err)
{
    int rc;

    pthread_mutex_lock(&c->w.lock);
    rc = pthread_create(t, NULL, run, &c->w);
    if (rc == 0) {
        c->w.threads++;
        pthread_setname_np(*t, name);
    }
    pthread_mutex_unlock(&c->w.lock);
    return rc == 0 ? 0 : err_set(err, ERR_NOMEM, "a thread cannot be started: %s", strerror(rc));
}

static void describe_stages(struct worker *w)
{
    for (uint32_t k = 0; k < w->setup.stage_count; k++) {
        const struct msg_stage *s = &w->setup.stages[k];
        const char *name = s->name[0] ? s->name : stage_kinds[0]->name;

        w->stages[k] = (struct worker_stage){
            .name = name,
            .tail = stage_tail(name),
            .apart = stage_hears_apart(name, s->params_json),
            .hearing = stage_hearing(name, s->params_json),
            .most_shard_ms = lease_most_shard_ms(name, s->params_json),
        };
    }
    w->stage_count = w->setup.stage_count;
}

static int on_setup(struct control *c, const struct frame *f, struct err *err)
{
    struct worker *w = &c->w;
    uint32_t want;
    int rc;

    if (c->set_up)
        return err_set(err, ERR_PROTOCOL, "SETUP came twice");
    rc = msg_setup_get(f->payload, f->len, &w->setup, err);
    if (rc != 0)
        return rc;
    describe_stages(w);
    w->pool.budget_bytes = w->setup.pcm_bytes ? w->setup.pcm_bytes : PCM_BYTES_LEAST;
    unpack_bound(w);
    want = decoder_threads(&w->setup);
    c->decoders = calloc(want, sizeof(*c->decoders));
    if (!c->decoders)
        return err_set(err, ERR_NOMEM, "no memory for %u decoder threads", want);
    rc = start_thread(c, "engine", &c->engine, engine_thread, err);
    if (rc != 0)
        return rc;
    c->set_up = true;
    while (rc == 0 && c->decoder_count < want) {
        rc = start_thread(c, "pass", &c->decoders[c->decoder_count], pass_thread, err);
        c->decoder_count += rc == 0;
    }
    return rc;
}

/* True when every thread has ended within LEAVE_MS, and was joined. */
static bool join_threads(struct control *c)
{
    struct worker *w = &c->w;
    struct timespec until;
    int rc = 0;
    bool all;

    lease_leave(w);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LEAVE_MS / 1000;
    pthread_mutex_lock(&w->lock);
    while (w->threads && rc == 0)
        rc = pthread_cond_timedwait(&w->over, &w->lock, &until);
    all = w->threads == 0;
    pthread_mutex_unlock(&w->lock);
    if (!all)
        return false;
    if (c->set_up)
        pthread_join(c->engine, NULL);
    for (uint32_t i = 0; i < c->decoder_count; i++)
        pthread_join(c->decoders[i], NULL);
    decoder_drop_server();
    return true;
}

/* ---- what is heard */

static int on_lease(struct worker *w, const struct frame *f, struct err *err)
{
    struct msg_lease m;
    int rc = msg_lease_get(f->payload, f->len, &m, err);

    if (rc == 0)
        lease_accept(w, &m);
    return rc;
}

static int on_cap(struct worker *w, const struct frame *f, struct err *err)
{
    struct msg_cap m;
    int rc = msg_cap_get(f->payload, f->len, &m, err);

    if (rc == 0)
        lease_cap(w, &m);
    return rc;
}

static int on_cancel(struct worker *w, const struct frame *f, struct err *err)
{
    struct msg_cancel m;
    int rc = msg_cancel_get(f->payload, f->len, &m, err);

    if (rc == 0)
        lease_cancel(w, &m);
    return rc;
}

static int handle_worker_message(struct control *c, const struct frame *f, struct err *err)
{
    switch (f->type) {
    case MSG_SETUP:
        return on_setup(c, f, err);
    case MSG_LEASE:
        return on_lease(&c->w, f, err);
    case MSG_CAP:
        return on_cap(&c->w, f, err);
    case MSG_CANCEL:
        return on_cancel(&c->w, f, err);
    case MSG_DRAIN:
        lease_drain(&c->w);
        return 0;
    case MSG_QUIT:
        return err_set(err, ERR_EMPTY, "the scheduler wants this worker to leave");
    default:
        return err_set(err, ERR_PROTOCOL, "the scheduler sent a message of type %u", f->type);
    }
}

static int handle_all(struct control *c, struct err *err)
{
    size_t at = 0, used;
    struct frame f;
    int rc = 0;

    while (rc == 0 && at < c->in.len) {
        rc = frame_take(c->in.data + at, c->in.len - at, &f, &used, err);
        if (rc == ERR_EMPTY) {
            rc = 0;
            break;
        }
        if (rc == 0)
            rc = handle_worker_message(c, &f, err);
        if (rc == 0)
            at += used;
    }
    if (at)
        buf_consume(&c->in, at);
    return rc;
}

/* ERR_EMPTY: the scheduler has gone, or sent QUIT. */
static int receive_messages(struct control *c, struct err *err)
{
    for (;;) {
        uint8_t *p = buf_reserve(&c->in, RECEIVE_STEP);
        ssize_t n;
        int rc;

        if (!p)
            return err_set(err, ERR_NOMEM, "no memory to receive a message");
        n = recv(WORKER_SOCKET_FD, p, RECEIVE_STEP, MSG_DONTWAIT);
        if (n == 0)
            return err_set(err, ERR_EMPTY, "the scheduler is gone");
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(err, ERR_EMPTY, "the scheduler is gone");
        c->in.len += (size_t)n;
        rc = handle_all(c, err);
        if (rc != 0)
            return rc;
    }
}

/* ---- the control thread */

/* A fault asked for by a test: dead to the world until the scheduler has closed its end. */
static void hang_if_asked(struct worker *w)
{
    struct pollfd p = {.fd = WORKER_SOCKET_FD};
    bool hung;

    pthread_mutex_lock(&w->lock);
    hung = w->hung;
    pthread_mutex_unlock(&w->lock);
    if (!hung)
        return;
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
    _exit(EX_SOFTWARE);
}

static bool read_leaving_state(struct worker *w, int *failed)
{
    bool yes;

    pthread_mutex_lock(&w->lock);
    yes = w->leaving;
    *failed = w->failed;
    pthread_mutex_unlock(&w->lock);
    return yes;
}

static void wait_for_work(struct control *c, size_t unsent)
{
    struct pollfd p[2] = {
        {.fd = WORKER_SOCKET_FD, .events = (short)(POLLIN | (unsent ? POLLOUT : 0))},
        {.fd = c->w.out.wake_fd, .events = POLLIN},
    };
    int64_t left = c->next_beat_ms - clock_mono_ms();
    uint64_t count;

    if (poll(p, 2, left > 0 ? (int)left : 0) > 0 && p[1].revents &&
        read(c->w.out.wake_fd, &count, sizeof(count)) < 0)
        return; /* somebody else cannot have read it; nothing to do */
}

static int control_loop(struct control *c, struct err *err)
{
    struct worker *w = &c->w;
    size_t unsent = 0;
    uint64_t shards;
    int rc;

    while (!read_leaving_state(w, &c->failed)) {
        hang_if_asked(w);
        if (clock_mono_ms() >= c->next_beat_ms) {
            post_heartbeat(w);
            c->next_beat_ms = clock_mono_ms() + HEARTBEAT_MS;
        }
        rc = outbox_flush(&w->out, WORKER_SOCKET_FD, &unsent, &shards, err);
        if (rc != 0)
            return rc;
        if (unsent == 0 && faults_exit_now(&w->faults, shards))
            _exit(1);
        wait_for_work(c, unsent);
        rc = receive_messages(c, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static void flush_outbox(struct worker *w)
{
    int64_t until = clock_mono_ms() + FLUSH_MS;
    struct err ignored = {0};
    uint64_t shards;
    size_t unsent = 0;

    while (outbox_flush(&w->out, WORKER_SOCKET_FD, &unsent, &shards, &ignored) == 0 && unsent &&
           clock_mono_ms() < until) {
        struct pollfd p = {.fd = WORKER_SOCKET_FD, .events = POLLOUT};

        if (poll(&p, 1, 50) < 0 && errno != EINTR)
            return;
    }
}

/* After an error of the device or of memory a fresh process is the cure; a model that cannot be
 * used stays so. */
static int exit_status(int code)
{
    switch (code) {
    case ERR_DEVICE:
    case ERR_VRAM:
    case ERR_NOMEM:
        return WORKER_EXIT_DEVICE;
    default:
        return err_exit_status(code);
    }
}

/* Turns the control loop's result into an exit status; tells the scheduler if it may still
 * listen. */
static int choose_exit_status(struct control *c, int rc, const struct err *err)
{
    switch (rc) {
    case 0:
        return c->failed ? exit_status(c->failed) : EX_OK;
    case ERR_EMPTY: /* QUIT, or the scheduler's end */
    case ERR_IO:
        return EX_OK;
    default:
        worker_post_fatal(&c->w, err);
        return exit_status(rc);
    }
}

/* Its own alone, before anything of NVIDIA's is opened: a sick card beside it can neither hang nor
 * fail what it does. */
static void show_one_gpu(const char *visible) { setenv("CUDA_VISIBLE_DEVICES", visible, 1); }

static int parse_arguments(int argc, char **argv, struct worker *w)
{
    const char *device = NULL;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            device = argv[++i];
        else if (strncmp(argv[i], "--device=", 9) == 0)
            device = argv[i] + 9;
        else if (strcmp(argv[i], "--visible") == 0 && i + 1 < argc)
            show_one_gpu(argv[++i]);
        else if (strcmp(argv[i], "--node") == 0 && i + 1 < argc)
            device_bind_node((int)strtol(argv[++i], NULL, 10)); /* before it has threads */
        else
            return -1;
    if (!device || !device[0] || strlen(device) >= sizeof(w->device))
        return -1;
    snprintf(w->device, sizeof(w->device), "%s", device);
    return 0;
}

/* Ctrl-C and a service manager's stop reach every process of the group; the scheduler decides when
 * to stop, and says so by DRAIN, QUIT or closing the socket. */
static void ignore_signals(void)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction a = {.sa_handler = SIG_IGN};

    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        sigaction(ignored[i], &a, NULL);
}

static void open_locks(struct worker *w)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->work, &attr);
    pthread_cond_init(&w->room, &attr);
    pthread_cond_init(&w->over, &attr);
    pthread_condattr_destroy(&attr);
}

static void close_all(struct control *c)
{
    struct worker *w = &c->w;

    lease_free_all(w);
    msg_setup_free(&w->setup);
    buf_free(&c->in);
    free(c->decoders);
    log_set_sink(NULL, NULL);
    outbox_close(&w->out);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->room);
    pthread_cond_destroy(&w->over);
    pthread_mutex_destroy(&w->lock);
}

static bool has_socket(void)
{
    struct stat st;

    if (fstat(WORKER_SOCKET_FD, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    /* A decoder must not inherit it: the scheduler's end would not be seen closing. */
    return fcntl(WORKER_SOCKET_FD, F_SETFD, FD_CLOEXEC) == 0;
}

static int not_for_people(void)
{
    fprintf(stderr, "nightshift worker: this command is started by 'nightshift run' only\n");
    return EX_USAGE;
}

int worker_main(int argc, char **argv)
{
    struct control c = {.in = BUF_INIT};
    struct err err = {0};
    int rc, status;

    if (parse_arguments(argc, argv, &c.w) != 0 || !has_socket())
        return not_for_people();
    if (!spawn_begun(WORKER_SOCKET_FD))
        return EX_OK;
    ignore_signals();
    faults_read(getenv("NIGHTSHIFT_FAULT"), getenv("NIGHTSHIFT_FAULT_ONCE"), &c.w.faults);
    if (outbox_open(&c.w.out, &err) != 0) {
        fprintf(stderr, "nightshift worker: %s\n", err.msg);
        return EX_OSERR;
    }
    open_locks(&c.w);
    log_set_sink(log_to_scheduler, &c.w);
    post_hello(&c.w);
    flush_outbox(&c.w);
    decoder_share_server(); /* while SETUP is on its way; that is tried before READY */
    rc = control_loop(&c, &err);
    status = choose_exit_status(&c, rc, &err);
    flush_outbox(&c.w);
    /* A thread that does not end (a step of a large model, a file system that does not answer)
     * is left behind with the process; nothing here outlives it, decoders see their socket close.
     */
    if (!join_threads(&c))
        _exit(status);
    close_all(&c);
    return status;
}
