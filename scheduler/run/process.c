#include "scheduler/run/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/utf8.h"
#include "scheduler/run/report.h"
#include "workers/process/worker.h"

#define LEAVE_MS 5000       /* after QUIT, to leave by itself */
#define UNKILLABLE_MS 10000 /* after it was killed */
#define EOF_GRACE_MS 3000   /* from the socket's end to SIGKILL */
#define READ_GRACE_MS 1000  /* from the process's end to giving up on the socket's */
#define READ_CHUNK 65536
#define MANY_FRAMES 30 /* between two ticks: after each reading its socket waits then */
#define GROUP_MS 20

/* The loop's handles of a process. The loop closes them later, when the next process may already be
 * there. */
struct link {
    uv_pipe_t pipe;
    uv_timer_t timer;
    struct process *of; /* NULL: it is being closed */
    pid_t pid;
    int status;
    int64_t killed_ms; /* when it was first; 0: it was not */
    bool reaped, ended;
    bool left_behind; /* it counts as reaped, and is not: it cannot be ended */
    bool waits;       /* is not read from until the group is over */
    int open_handles;
    struct buf in, out; /* out: frames of this tick of the loop */
};

struct send {
    uv_write_t req;
    struct buf data; /* owned */
};

/* -------------------------------------------------------------------------------- closing */

static void kill_it(struct link *l)
{
    if (l->killed_ms == 0)
        l->killed_ms = clock_mono_ms();
    spawn_kill(l->pid);
}

static void on_closed(uv_handle_t *handle)
{
    struct link *l = handle->data;

    if (--l->open_handles)
        return;
    buf_free(&l->in);
    buf_free(&l->out);
    free(l);
}

static void drop_link(struct process *p)
{
    struct link *l = p->link;

    p->link = NULL;
    l->of = NULL;
    uv_close((uv_handle_t *)&l->timer, on_closed);
    uv_close((uv_handle_t *)&l->pipe, on_closed);
}

/* ----------------------------------------------------------------------------------- deaths */

static void describe_death(int status, struct err *last)
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
        err_set(last, ERR_CRASH, "it ended with status %d",
                WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void quarantine(struct process *p, const char *before)
{
    char why[600], sentence[700];

    snprintf(why, sizeof(why), "%s%s", before, p->last.msg);
    snprintf(sentence, sizeof(sentence), "%s%s is %s: %s", p->kind->a, p->label,
             p->on_trial ? "still disabled" : "disabled", why);
    report_event(p->run, p->on_trial ? LOG_INFO : LOG_ERROR, "%s", sentence);
    p->state = PROCESS_QUARANTINED;
    p->due_ms = clock_mono_ms() + p->run->tune.quarantine_ms;
    p->on_trial = false;
    p->kind->quarantined(p->owner, why, sentence);
}

/* Started again later, or not. */
static void consider_restart(struct process *p, const struct process_loss *loss)
{
    const char *before = "it died again and again: ";
    int64_t wait = -1;

    if (p->run->tick.mode == RUN_ENDING || p->run->tick.mode == RUN_DRAINING) {
        p->state = PROCESS_OFF;
        return;
    }
    if (p->last.code == ERR_VERSION || p->on_trial)
        before = "";
    else if (loss->hopeless)
        before = loss->hopeless;
    else
        wait = restart_death(&p->restart, loss->cause, loss->task, p->run->tune.restart_base_ms);
    if (wait < 0) {
        quarantine(p, before);
        return;
    }
    p->state = PROCESS_WAITING;
    p->due_ms = clock_mono_ms() + wait;
}

static void handle_process_death(struct process *p)
{
    struct process_loss loss = {.cause = RESTART_OWN};
    struct run *run = p->run;
    struct err err = {0};
    char text[600];

    snprintf(text, sizeof(text), "%s%s died: %s", p->kind->a, p->label, p->last.msg);
    report_event(run, LOG_WARN, "%s", text);
    p->kind->gone(p->owner, &loss);
    run_check(run, ledger_event(run->ledger, p->kind->died, 0, p->device, text, &err), &err);
    run_note_commit(run);
    consider_restart(p, &loss);
}

/* A process that was left behind is a death even where it was asked to leave: whatever holds it
 * holds the next one, too. */
static void on_gone(struct process *p)
{
    int status = p->link->status;
    const bool as_asked = p->state == PROCESS_LEAVING && !p->link->left_behind;

    drop_link(p);
    p->condemned = false;
    run_touch(p->run);
    if (as_asked) {
        p->state = PROCESS_OFF;
        p->kind->gone(p->owner, NULL);
    } else {
        describe_death(status, &p->last);
        handle_process_death(p);
    }
    run_flush(p->run); /* who sees that it has gone may look for what it did */
}

static void on_timer(uv_timer_t *timer)
{
    struct link *l = timer->data;

    if (l->reaped)
        on_gone(l->of);
    else
        kill_it(l);
}

/* Gone when the process has ended and the socket has: results that were on their way when it died
 * are results. A grandchild that still holds the socket is not waited for. */
static void consider_gone(struct link *l)
{
    if (l->reaped && l->ended)
        uv_timer_start(&l->timer, on_timer, 0, 0); /* from the loop, not from within a call */
    else if (l->reaped)
        uv_timer_start(&l->timer, on_timer, READ_GRACE_MS, 0);
    else if (l->ended)
        uv_timer_start(&l->timer, on_timer, EOF_GRACE_MS, 0);
}

void process_condemn(struct process *p, int code, const char *why)
{
    if (!p->link || p->condemned)
        return;
    p->condemned = true;
    if (code && !p->last.code) /* else it has said itself why */
        err_set(&p->last, code, "%s", why);
    if (p->kind->condemned)
        p->kind->condemned(p->owner);
    if (!p->link->reaped)
        kill_it(p->link);
}

/* --------------------------------------------------------------------------------- messages */

static void end_reading(struct link *l)
{
    uv_read_stop((uv_stream_t *)&l->pipe);
    l->ended = true;
    consider_gone(l);
}

static void break_with(struct process *p, const struct err *err)
{
    char why[600];

    if (p->broken)
        return;
    p->broken = true;
    snprintf(why, sizeof(why), "it does not speak our protocol (%s)", err->msg);
    process_condemn(p, ERR_PROTOCOL, why);
    end_reading(p->link);
}

static bool take_hello(struct process *p, const struct frame *f, struct err *err)
{
    struct msg_hello m;

    if (p->state == PROCESS_LEAVING || p->last.code) /* said before it read that, or was killed */
        return true;
    if (p->state != PROCESS_STARTING) {
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
        process_condemn(p, ERR_VERSION, why);
    } else {
        p->state = PROCESS_UP;
        if (p->kind->ready)
            p->kind->ready(p->owner);
    }
    msg_hello_free(&m);
    return true;
}

static bool take_log(struct process *p, const struct frame *f, struct err *err)
{
    struct msg_log m;
    char *shown;

    if (msg_log_get(f->payload, f->len, &m, err))
        return false;
    shown = utf8_display(m.line, strlen(m.line));
    report_event(p->run, m.level <= LOG_DEBUG ? m.level : LOG_DEBUG, "%s: %.900s", p->label,
                 shown ? shown : "");
    free(shown);
    msg_log_free(&m);
    return true;
}

static void receive_frame(struct process *p, const struct frame *f)
{
    struct err err = {0};
    bool ok;

    if (p->run->tick.mode == RUN_ENDING && p->run->failure.code)
        return;
    p->heard_ms = clock_mono_ms();
    run_touch(p->run);
    if (f->type == MSG_HELLO)
        ok = take_hello(p, f, &err);
    else if (f->type == MSG_LOG)
        ok = take_log(p, f, &err);
    else
        ok = p->kind->frame(p->owner, f, &err);
    if (!ok && err.code == ERR_NOMEM)
        run_fail(p->run, &err);
    else if (!ok)
        break_with(p, &err);
}

static void take_frames(struct link *l)
{
    size_t at = 0;

    while (!l->of->broken) {
        struct err err = {0};
        struct frame f;
        size_t used;
        int rc = frame_take(l->in.data + at, l->in.len - at, &f, &used, &err);

        if (rc == ERR_EMPTY)
            break;
        if (rc) {
            break_with(l->of, &err);
            return;
        }
        at += used;
        l->of->run->processes.frames++;
        receive_frame(l->of, &f);
    }
    buf_consume(&l->in, at);
}

static void on_alloc(uv_handle_t *handle, size_t want, uv_buf_t *buf)
{
    struct link *l = handle->data;
    uint8_t *p = buf_reserve(&l->in, READ_CHUNK);

    (void)want;
    *buf = uv_buf_init((char *)p, p ? READ_CHUNK : 0);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

static void on_group(uv_timer_t *timer)
{
    const struct processes *all = timer->data;

    for (struct process *p = all->first; p; p = p->next) {
        struct link *l = p->link;
        struct err err = {0};

        if (!l || !l->waits || l->ended)
            continue;
        l->waits = false;
        if (uv_read_start((uv_stream_t *)&l->pipe, on_alloc, on_read) == 0)
            continue;
        err_set(&err, ERR_IO, "its socket cannot be read");
        break_with(p, &err);
    }
}

/* Many small messages are read in groups, because each wake-up costs the processor more than the
 * message. The rest of a large message is awaited. */
static void wait_for_more(struct link *l)
{
    struct run *run = l->of->run;
    struct processes *all = &run->processes;

    if (!all->many || run->tick.mode != RUN_GOING || l->ended || l->in.len)
        return;
    uv_read_stop((uv_stream_t *)&l->pipe);
    l->waits = true;
    if (!uv_is_active((uv_handle_t *)&all->group))
        uv_timer_start(&all->group, on_group, GROUP_MS, 0);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct link *l = stream->data;
    struct err err = {0};

    (void)buf;
    if (n == UV_ENOBUFS) {
        err_set(&err, ERR_NOMEM, "no memory to read from a process of the run");
        break_with(l->of, &err);
    } else if (n < 0) {
        end_reading(l);
    } else if (n > 0) {
        l->in.len += (size_t)n;
        take_frames(l);
        wait_for_more(l);
    }
}

static void on_written(uv_write_t *req, int status)
{
    struct send *s = req->data;
    struct link *l = req->handle->data;
    struct process *p = l->of;
    struct err err = {0};

    buf_free(&s->data);
    free(s);
    /* One that has gone is learnt from reading, where its last words are. */
    if (p && status < 0 && status != UV_ECANCELED && status != UV_EPIPE &&
        status != UV_ECONNRESET) {
        err_set(&err, ERR_IO, "writing to it: %s", uv_strerror(status));
        break_with(p, &err);
    }
    if (p && status == 0 && p->kind->written)
        p->kind->written(p->owner);
}

static int write_out(struct link *l, struct err *err)
{
    struct send *s = calloc(1, sizeof(*s));
    uv_buf_t b = {(char *)l->out.data, l->out.len}; /* uv_buf_init takes 32 bits of a length */
    int rc;

    if (!s)
        return err_set(err, ERR_NOMEM, "no memory for a message");
    s->req.data = s;
    s->data = l->out;
    l->out = (struct buf)BUF_INIT;
    rc = uv_write(&s->req, (uv_stream_t *)&l->pipe, &b, 1, on_written);
    if (rc == 0)
        return 0;
    buf_free(&s->data);
    free(s);
    return err_set(err, ERR_IO, "writing to it: %s", uv_strerror(rc));
}

static bool accepts_frames(const struct process *p)
{
    return p->link && !p->broken && !p->link->ended && !p->link->reaped;
}

int process_send(struct process *p, uint8_t type, const struct buf *payload)
{
    struct err err = {0};

    if (!accepts_frames(p))
        return ERR_IO;
    frame_put(&p->link->out, type, payload ? payload->data : NULL, payload ? payload->len : 0);
    if (!p->link->out.failed && !(payload && payload->failed))
        return 0;
    err_set(&err, ERR_NOMEM, "no memory for a message");
    run_fail(p->run, &err);
    return ERR_NOMEM;
}

/* One write for all that was queued: a system call costs as much as what it says. */
void processes_write(struct processes *all)
{
    for (struct process *p = all->first; p; p = p->next) {
        struct err err = {0};

        if (!accepts_frames(p) || !p->link->out.len || p->link->out.failed ||
            !write_out(p->link, &err))
            continue;
        if (err.code == ERR_NOMEM)
            run_fail(p->run, &err);
        else
            break_with(p, &err);
    }
}

uint32_t process_pid(const struct process *p)
{
    return p->link && !p->link->reaped ? (uint32_t)p->link->pid : 0;
}

uint64_t process_queued(const struct process *p)
{
    const struct link *l = p->link;

    return l ? l->out.len + uv_stream_get_write_queue_size((const uv_stream_t *)&l->pipe) : 0;
}

/* ------------------------------------------------------------------------- starting and ending */

void process_init(struct process *p, struct run *run, const struct process_kind *kind,
                  const char *label, const char *device, void *owner)
{
    p->run = run;
    p->kind = kind;
    p->label = label;
    p->device = device;
    p->owner = owner;
    p->next = run->processes.first;
    run->processes.first = p;
}

/* Standard output may be a stream of JSON: what a library prints does not belong there. */
static int spawn_process(const char *program, const char *const argv[], int *sock, pid_t *pid,
                         struct err *err)
{
    int fds[2], rc;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return err_sys(err, errno, "it could not be started: a socket");
    rc = spawn_start(program, argv, (int[]){SPAWN_NULL, STDERR_FILENO, STDERR_FILENO, fds[1]},
                     WORKER_SOCKET_FD + 1, pid);
    close(fds[1]);
    if (rc) {
        close(fds[0]);
        return err_set(err, ERR_DEVICE, "it could not be started: %s", strerror(rc));
    }
    *sock = fds[0];
    return 0;
}

static int open_link(struct process *p, const char *const argv[])
{
    struct link *l = calloc(1, sizeof(*l));
    int sock = -1, rc;

    if (!l)
        return err_set(&p->last, ERR_NOMEM, "no memory for a process of the run");
    rc = spawn_process(p->run->tune.worker_program, argv, &sock, &l->pid, &p->last);
    if (rc) {
        free(l);
        return rc;
    }
    p->link = l;
    l->of = p;
    l->open_handles = 2;
    uv_timer_init(&p->run->loop.uv, &l->timer);
    uv_pipe_init(&p->run->loop.uv, &l->pipe, 0);
    l->timer.data = l->pipe.data = l;
    rc = uv_pipe_open(&l->pipe, sock);
    if (rc)
        close(sock);
    else
        rc = uv_read_start((uv_stream_t *)&l->pipe, on_alloc, on_read);
    if (rc == 0)
        return 0;
    spawn_end(l->pid, -1);
    drop_link(p);
    return err_set(&p->last, ERR_IO, "its socket: %s", uv_strerror(rc));
}

void process_start(struct process *p, const char *const argv[])
{
    p->last = (struct err){0};
    p->broken = false;
    p->heard_ms = clock_mono_ms();
    if (open_link(p, argv)) {
        handle_process_death(p);
        return;
    }
    p->state = PROCESS_STARTING;
    p->due_ms = p->heard_ms + p->run->tune.hello_ms;
}

void process_leave(struct process *p)
{
    if (p->state == PROCESS_WAITING)
        p->state = PROCESS_OFF;
    if (!p->link || p->state == PROCESS_LEAVING)
        return;
    process_send(p, MSG_QUIT, NULL);
    p->state = PROCESS_LEAVING;
    p->due_ms = clock_mono_ms() + LEAVE_MS;
}

void process_kill(struct process *p)
{
    process_leave(p);
    if (p->link && !p->link->reaped)
        kill_it(p->link);
}

/* -------------------------------------------------------------------------------- all of them */

/* A thread of it waits in the kernel for a disk, a share or a driver that does not answer: nobody
 * can end it, and the run goes on without it. */
static void leave_behind(struct process *p)
{
    struct link *l = p->link;
    char before[sizeof(p->last.msg)];

    snprintf(before, sizeof(before), "%.290s%s", p->last.code ? p->last.msg : "",
             p->last.code ? ", and " : "");
    err_set(&p->last, p->last.code ? p->last.code : ERR_TIMEOUT,
            "%.300sits process (pid %ld) cannot be ended and is left behind", before, (long)l->pid);
    p->stuck_pid = l->pid;
    p->stuck_ms = clock_mono_ms();
    l->status = SIGKILL;
    l->reaped = l->left_behind = true;
    consider_gone(l);
}

/* The kernel let it go after all. What was quarantined for it may be tried again at once: it may
 * only have been slow to give back its memory. */
static void reap_stuck(struct process *p, int64_t now)
{
    if (p->stuck_pid == 0 || !spawn_ended(p->stuck_pid))
        return;
    spawn_end(p->stuck_pid, 0);
    report_event(p->run, LOG_INFO, "%s: its process (pid %ld), which was left behind, has ended",
                 p->label, (long)p->stuck_pid);
    p->stuck_pid = 0;
    if (p->state == PROCESS_QUARANTINED)
        p->due_ms = now;
}

static void tick_process(struct process *p, int64_t now, int64_t lost)
{
    p->heard_ms += lost;
    reap_stuck(p, now);
    if (p->link && !p->link->reaped && p->link->killed_ms &&
        now - p->link->killed_ms > UNKILLABLE_MS && !spawn_ended(p->link->pid))
        leave_behind(p);
    if (p->state != PROCESS_WAITING)
        p->due_ms += lost;
    if (now >= p->due_ms && p->state == PROCESS_WAITING)
        p->state = PROCESS_OFF;
    else if (now >= p->due_ms && p->state == PROCESS_STARTING)
        process_condemn(p, ERR_TIMEOUT, "it did not say who it is in time");
    else if (now >= p->due_ms && p->state == PROCESS_LEAVING)
        process_kill(p);
    p->kind->tick(p->owner, now, lost);
}

void processes_begin(struct processes *all, uv_loop_t *loop)
{
    uv_timer_init(loop, &all->group);
    all->group.data = all;
    all->ticked_ms = clock_mono_ms();
}

/* While the loop itself was held (a commit waited for a disk, a terminal was stopped) nobody
 * listened: that time is not held against the processes, whose words are read after this. */
void processes_tick(struct processes *all, int64_t now)
{
    int64_t lost = now - all->ticked_ms - RUN_TICK_MS;

    all->ticked_ms = now;
    all->many = all->frames > MANY_FRAMES;
    all->frames = 0;
    for (struct process *p = all->first; p; p = p->next)
        tick_process(p, now, lost > 2 * RUN_TICK_MS ? lost : 0);
}

void processes_reap(struct processes *all)
{
    for (struct process *p = all->first; p; p = p->next) {
        struct link *l = p->link;

        if (!l || l->reaped || !spawn_ended(l->pid))
            continue;
        l->status = spawn_end(l->pid, -1);
        l->reaped = true;
        consider_gone(l);
    }
}

void processes_kill(struct processes *all)
{
    for (struct process *p = all->first; p; p = p->next)
        process_kill(p);
}

bool processes_all_off(const struct processes *all)
{
    for (const struct process *p = all->first; p; p = p->next)
        if (p->link)
            return false;
    return true;
}

void processes_free(struct processes *all)
{
    for (struct process *p = all->first; p; p = p->next) {
        if (!p->link)
            continue;
        if (!p->link->reaped)
            spawn_end(p->link->pid, UNKILLABLE_MS);
        drop_link(p);
    }
}
