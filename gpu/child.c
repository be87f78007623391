#include "gpu/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"

#define TICK_MS 50   /* between looks at the stop flag */
#define GRACE_MS 500 /* from the program's end to its output's, which a grandchild may hold */
#define REAP_MS \
    2000 /* a process in the depths of a broken driver cannot be killed: not waited for */
#define CHUNK 4096
#define TAIL 2048 /* of standard error */

struct running {
    const struct child_options *o;
    struct child_result *r;
    pid_t pid;
    int out, err; /* -1: ended */
    int64_t ends_ms;
    bool ended;      /* the process has; it is kept as a zombie, so that its number stays its own */
    char tail[TAIL]; /* the last of standard error */
    size_t tail_len;
};

/* -------------------------------------------------------------------------------- starting */

/* Between fork and exec: only calls that are safe there. Every signal is blocked. */
static void become(const struct child_options *o, int out, int errors, pid_t parent)
{
    const struct rlimit none = {0, 0};
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t empty;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    setrlimit(RLIMIT_CORE, &none);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    for (int n = 1; n < NSIG; n++)
        sigaction(n, &plain, NULL);
    sigemptyset(&empty);
    sigprocmask(SIG_SETMASK, &empty, NULL);
    execv(o->program != NULL ? o->program : "/proc/self/exe", (char *const *)o->argv);
    _exit(127);
}

static int start(struct running *c, struct err *err)
{
    int out[2], errors[2], why;
    pid_t parent = getpid();
    sigset_t all, before;

    if (pipe2(out, O_CLOEXEC) != 0)
        return err_sys(err, errno, "a pipe");
    if (pipe2(errors, O_CLOEXEC) != 0) {
        why = errno;
        close(out[0]);
        close(out[1]);
        return err_sys(err, why, "a pipe");
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    c->pid = fork();
    if (c->pid == 0)
        become(c->o, out[1], errors[1], parent);
    why = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(out[1]);
    close(errors[1]);
    c->out = out[0];
    c->err = errors[0];
    if (c->pid > 0) {
        setpgid(c->pid, c->pid); /* as the child does: whoever is first */
        fcntl(c->out, F_SETFL, O_NONBLOCK);
        fcntl(c->err, F_SETFL, O_NONBLOCK);
        return 0;
    }
    close(c->out);
    close(c->err);
    return err_sys(err, why, "starting a process");
}

/* -------------------------------------------------------------------------------- listening */

static void keep_tail(struct running *c, const char *bytes, size_t n)
{
    size_t keep = c->tail_len;

    if (n > TAIL) {
        bytes += n - TAIL;
        n = TAIL;
    }
    if (keep + n > TAIL) {
        keep = TAIL - n;
        memmove(c->tail, c->tail + c->tail_len - keep, keep);
    }
    memcpy(c->tail + keep, bytes, n);
    c->tail_len = keep + n;
}

/* What is there of one pipe. */
static void take(struct running *c, int *fd, struct err *err)
{
    char bytes[CHUNK];
    ssize_t n = read(*fd, bytes, sizeof(bytes));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(*fd);
        *fd = -1;
    } else if (fd == &c->err) {
        keep_tail(c, bytes, (size_t)n);
    } else if (c->r->out.len + (size_t)n > c->o->max_bytes) {
        c->r->too_much = true;
    } else {
        buf_put(&c->r->out, bytes, (size_t)n);
        if (c->r->out.failed)
            err_set(err, ERR_NOMEM, "no memory for what a process said");
    }
}

static void look(struct running *c)
{
    siginfo_t info = {0};
    int rc = waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT);

    /* ECHILD: children are not kept (SIGCHLD is ignored). */
    c->ended = rc == 0 ? info.si_pid == c->pid : errno != EINTR;
}

static void listen_to(struct running *c, struct err *err)
{
    while (err->code == 0 && !c->r->too_much && !c->r->timed_out && !c->r->stopped) {
        struct pollfd fds[2] = {{.fd = c->out, .events = POLLIN}, {.fd = c->err, .events = POLLIN}};
        int64_t now = clock_mono_ms(), wait = c->ends_ms - now;
        /* With both ends closed there is nothing to poll but the process itself. */
        int64_t tick = c->out < 0 && c->err < 0 ? 1 : TICK_MS;

        if (!c->ended) {
            look(c);
            if (c->ended && c->ends_ms > now + GRACE_MS)
                c->ends_ms = now + GRACE_MS;
        }
        if (c->ended && c->out < 0 && c->err < 0)
            return;
        if (wait <= 0) {
            c->r->timed_out = !c->ended;
            return;
        }
        if (poll(fds, 2, (int)(wait < tick ? wait : tick)) > 0) {
            if (fds[0].revents)
                take(c, &c->out, err);
            if (fds[1].revents)
                take(c, &c->err, err);
        }
        c->r->stopped = c->o->stop != NULL && *c->o->stop;
    }
}

/* ---------------------------------------------------------------------------------- ending */

static void end(struct running *c)
{
    int64_t until = clock_mono_ms() + REAP_MS;
    pid_t pid;

    if (c->out >= 0)
        close(c->out);
    if (c->err >= 0)
        close(c->err);
    kill(-c->pid, SIGKILL); /* what it has left behind, too */
    while ((pid = waitpid(c->pid, &c->r->status, WNOHANG)) == 0 && clock_mono_ms() < until)
        poll(NULL, 0, 1);
    if (pid != c->pid)
        c->r->status = -1;
}

/* The last line with anything in it, without what a terminal would obey. */
static void last_words(struct running *c)
{
    size_t end_at = c->tail_len, at;
    char *shown;

    while (end_at > 0 && (unsigned char)c->tail[end_at - 1] <= ' ')
        end_at--;
    for (at = end_at; at > 0 && c->tail[at - 1] != '\n';)
        at--;
    shown = utf8_display(c->tail + at, end_at - at);
    if (shown != NULL)
        utf8_copy(c->r->words, sizeof(c->r->words), shown);
    free(shown);
}

int child_run(const struct child_options *o, struct child_result *ret, struct err *err)
{
    struct child_result r = {.status = -1};
    struct running c = {.o = o, .r = &r, .ends_ms = clock_mono_ms() + o->limit_ms};
    struct err failed = {0};

    if (start(&c, err) != 0)
        return err->code;
    listen_to(&c, &failed);
    end(&c);
    if (failed.code != 0) {
        buf_free(&r.out);
        *err = failed;
        return err->code;
    }
    last_words(&c);
    *ret = r;
    return 0;
}

void child_fate(const struct child_options *o, const struct child_result *r, char *ret, size_t cap)
{
    if (r->timed_out)
        snprintf(ret, cap, "did not answer within %lld s", (long long)(o->limit_ms + 500) / 1000);
    else if (r->too_much)
        snprintf(ret, cap, "did not stop talking");
    else if (r->stopped)
        snprintf(ret, cap, "were interrupted");
    else if (r->status >= 0 && WIFSIGNALED(r->status))
        snprintf(ret, cap, "crashed (signal %d, %s)", WTERMSIG(r->status),
                 strsignal(WTERMSIG(r->status)));
    else if (r->status >= 0 && WEXITSTATUS(r->status) != 0)
        snprintf(ret, cap, "left with status %d", WEXITSTATUS(r->status));
    else
        snprintf(ret, cap, "%s", "");
}
