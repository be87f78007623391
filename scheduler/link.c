#include "scheduler/link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workers/process/worker.h"

#define EOF_GRACE_MS 3000  /* from the socket's end to SIGKILL */
#define READ_GRACE_MS 1000 /* from the process's end to giving up on the socket's */
#define READ_CHUNK 65536

struct link {
    uv_pipe_t pipe;
    uv_timer_t timer;
    struct link_handler h;
    pid_t pid;
    int status;
    bool reaped, ended, broken, told, freed;
    int open_handles;
    struct buf in;
};

struct send {
    uv_write_t req;
    struct buf data;
};

/* ----------------------------------------------------------------------------- the process */

/* Back to what a program expects. The handlers of the loop must go before signals are let in: they
 * would write to the run's own pipe, and a Ctrl-C would count twice. What is ignored (nohup) stays
 * so. */
static void reset_signals(void)
{
    struct sigaction now, plain = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int n = 1; n < NSIG; n++)
        if (sigaction(n, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(n, &plain, NULL);
    sigaction(SIGPIPE, &plain, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Between fork and exec: only calls that are safe there. Every signal is blocked. */
static void child(const char *program, const char *const argv[], int sock, pid_t parent)
{
    static const char failed[] = "nightshift: a process of the run could not be started\n";
    int null;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    reset_signals();
    signal(SIGTTOU, SIG_IGN); /* a log line must not stop a background group */
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    /* Standard output may be a stream of JSON: what a library prints does not belong there. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    if (sock == WORKER_SOCKET_FD)
        fcntl(sock, F_SETFD, 0);
    else
        dup2(sock, WORKER_SOCKET_FD);
    execv(program, (char *const *)argv); /* which does not write to them */
    if (write(STDERR_FILENO, failed, sizeof(failed) - 1) < 0)
        _exit(126);
    _exit(127);
}

static int spawn(const char *program, const char *const argv[], int *sock, pid_t *pid,
                 struct err *err)
{
    pid_t parent = getpid();
    sigset_t all, before;
    int fds[2], why;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return err_sys(err, errno, "a socket for a process of the run");
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    *pid = fork();
    if (*pid == 0)
        child(program ? program : "/proc/self/exe", argv, fds[1], parent);
    why = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(fds[1]);
    if (*pid < 0) {
        close(fds[0]);
        return err_sys(err, why, "starting a process of the run");
    }
    setpgid(*pid, *pid); /* as the child does: whoever is first */
    *sock = fds[0];
    return 0;
}

/* -------------------------------------------------------------------------------- closing */

static void on_closed(uv_handle_t *handle)
{
    struct link *l = handle->data;

    if (--l->open_handles || !l->freed)
        return;
    buf_free(&l->in);
    free(l);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_closed);
}

static void tell_gone(struct link *l)
{
    if (l->told)
        return;
    l->told = true;
    uv_timer_stop(&l->timer);
    l->h.gone(l->h.arg, l->status);
}

static void on_timer(uv_timer_t *timer)
{
    struct link *l = timer->data;

    if (l->reaped)
        tell_gone(l);
    else
        link_kill(l);
}

/* Gone when the process has ended and the socket has: results that were on their way when it died
 * are results. A grandchild that still holds the socket is not waited for. */
static void consider(struct link *l)
{
    if (l->freed)
        return;
    if (l->reaped && l->ended)
        uv_timer_start(&l->timer, on_timer, 0, 0); /* from the loop, not from within a call */
    else if (l->reaped)
        uv_timer_start(&l->timer, on_timer, READ_GRACE_MS, 0);
    else if (l->ended)
        uv_timer_start(&l->timer, on_timer, EOF_GRACE_MS, 0);
}

/* -------------------------------------------------------------------------------- reading */

static void on_alloc(uv_handle_t *handle, size_t want, uv_buf_t *buf)
{
    struct link *l = handle->data;
    uint8_t *p = buf_reserve(&l->in, READ_CHUNK);

    (void)want;
    *buf = uv_buf_init((char *)p, p ? READ_CHUNK : 0);
}

static void end_reading(struct link *l)
{
    uv_read_stop((uv_stream_t *)&l->pipe);
    l->ended = true;
    consider(l);
}

static void break_link(struct link *l, const struct err *err)
{
    if (l->broken)
        return;
    l->broken = true;
    l->h.broken(l->h.arg, err);
    if (!l->freed)
        end_reading(l);
}

static void take_frames(struct link *l)
{
    size_t at = 0;

    while (!l->broken && !l->freed) {
        struct err err = {0};
        struct frame f;
        size_t used;
        int rc = frame_take(l->in.data + at, l->in.len - at, &f, &used, &err);

        if (rc == ERR_EMPTY)
            break;
        if (rc) {
            break_link(l, &err);
            return;
        }
        at += used;
        l->h.frame(l->h.arg, &f);
    }
    buf_consume(&l->in, at);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct link *l = stream->data;
    struct err err = {0};

    (void)buf;
    if (n == 0)
        return;
    if (n == UV_ENOBUFS) {
        err_set(&err, ERR_NOMEM, "no memory to read from a process of the run");
        break_link(l, &err);
        return;
    }
    if (n < 0) {
        end_reading(l);
        return;
    }
    l->in.len += (size_t)n;
    take_frames(l);
}

/* ------------------------------------------------------------------------------- interface */

int link_start(uv_loop_t *loop, const char *program, const char *const argv[],
               const struct link_handler *h, struct link **ret, struct err *err)
{
    struct link *l = calloc(1, sizeof(*l));
    int sock = -1, rc;

    if (!l)
        return err_set(err, ERR_NOMEM, "no memory for a process of the run");
    rc = spawn(program, argv, &sock, &l->pid, err);
    if (rc) {
        free(l);
        return rc;
    }
    l->h = *h;
    l->open_handles = 2;
    uv_timer_init(loop, &l->timer);
    uv_pipe_init(loop, &l->pipe, 0);
    l->timer.data = l->pipe.data = l;
    rc = uv_pipe_open(&l->pipe, sock);
    if (rc)
        close(sock);
    else
        rc = uv_read_start((uv_stream_t *)&l->pipe, on_alloc, on_read);
    if (rc) {
        link_free(l);
        return err_set(err, ERR_IO, "its socket: %s", uv_strerror(rc));
    }
    *ret = l;
    return 0;
}

static void on_written(uv_write_t *req, int status)
{
    struct send *s = req->data;
    struct link *l = req->handle->data;
    struct err err = {0};

    /* A peer that has gone is learnt from reading, where its last words are. */
    if (status < 0 && status != UV_ECANCELED && status != UV_EPIPE && status != UV_ECONNRESET &&
        !l->freed) {
        err_set(&err, ERR_IO, "writing to it: %s", uv_strerror(status));
        break_link(l, &err);
    }
    buf_free(&s->data);
    free(s);
    if (status == 0 && !l->freed && l->h.written)
        l->h.written(l->h.arg);
}

int link_send(struct link *l, uint8_t type, const struct buf *payload, struct err *err)
{
    struct send *s;
    uv_buf_t b;
    int rc;

    if (l->broken || l->ended || l->reaped)
        return err_set(err, ERR_IO, "it has gone");
    if (payload && payload->failed)
        return err_set(err, ERR_NOMEM, "no memory for a message");
    s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_NOMEM, "no memory for a message");
    frame_put(&s->data, type, payload ? payload->data : NULL, payload ? payload->len : 0);
    if (s->data.failed) {
        buf_free(&s->data);
        free(s);
        return err_set(err, ERR_NOMEM, "a message is too large");
    }
    s->req.data = s;
    b = uv_buf_init((char *)s->data.data, (unsigned)s->data.len);
    rc = uv_write(&s->req, (uv_stream_t *)&l->pipe, &b, 1, on_written);
    if (rc) {
        buf_free(&s->data);
        free(s);
        return err_set(err, ERR_IO, "writing to it: %s", uv_strerror(rc));
    }
    return 0;
}

size_t link_queued(const struct link *l)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&l->pipe);
}

void link_kill(struct link *l)
{
    if (l->reaped)
        return;
    kill(-l->pid, SIGKILL);
    kill(l->pid, SIGKILL); /* should its group not exist yet */
}

void link_reap(struct link *l)
{
    siginfo_t info = {0};

    if (l->reaped || waitid(P_PID, (id_t)l->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != l->pid)
        return;
    /* Decoders that it left behind: while its number cannot be another group's yet. */
    kill(-l->pid, SIGKILL);
    while (waitpid(l->pid, &l->status, 0) < 0 && errno == EINTR)
        ;
    l->reaped = true;
    consider(l);
}

pid_t link_pid(const struct link *l) { return l->pid; }

void link_free(struct link *l)
{
    if (!l || l->freed)
        return;
    l->freed = true;
    if (!l->reaped) {
        link_kill(l);
        while (waitpid(l->pid, &l->status, 0) < 0 && errno == EINTR)
            ;
        l->reaped = true;
    }
    close_handle((uv_handle_t *)&l->timer);
    close_handle((uv_handle_t *)&l->pipe);
}
