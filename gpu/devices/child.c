#include "gpu/devices/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/spawn.h"
#include "base/utf8.h"

#define TICK_MS 50   /* between looks at the stop flag */
#define GRACE_MS 500 /* from the program's end to its output's, which a grandchild may hold */
#define REAP_MS 2000 /* not waited for any longer */
#define CHUNK 4096
#define TAIL 2048 /* of standard error */

struct running {
    const struct child_options *o;
    struct child_result *r;
    pid_t pid;
    int out, err; /* -1: ended */
    int64_t ends_ms;
    bool ended;      /* the process has */
    char tail[TAIL]; /* the last of standard error */
    size_t tail_len;
};

/* -------------------------------------------------------------------------------- starting */

static int start_child(struct running *c, struct err *err)
{
    int out[2], errors[2], rc;

    if (pipe2(out, O_CLOEXEC) != 0)
        return err_sys(err, errno, "a pipe");
    if (pipe2(errors, O_CLOEXEC) != 0) {
        rc = errno;
        close(out[0]);
        close(out[1]);
        return err_sys(err, rc, "a pipe");
    }
    rc = spawn_start(c->o->program, c->o->argv, (int[]){SPAWN_NULL, out[1], errors[1]}, 3, &c->pid);
    close(out[1]);
    close(errors[1]);
    c->out = out[0];
    c->err = errors[0];
    if (rc == 0) {
        fcntl(c->out, F_SETFL, O_NONBLOCK);
        fcntl(c->err, F_SETFL, O_NONBLOCK);
        return 0;
    }
    close(c->out);
    close(c->err);
    return err_sys(err, rc, "starting a process");
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

/* Reads from one pipe what is there. */
static void read_pipe(struct running *c, int *fd, struct err *err)
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

/* False: nothing more is to come from it. */
static bool goes_on(struct running *c, const struct err *failed, int64_t now)
{
    if (failed->code != 0 || c->r->too_much || c->r->timed_out || c->r->stopped)
        return false;
    if (!c->ended) {
        c->ended = spawn_ended(c->pid);
        if (c->ended && c->ends_ms > now + GRACE_MS)
            c->ends_ms = now + GRACE_MS;
    }
    if (c->ended && c->out < 0 && c->err < 0)
        return false;
    if (now >= c->ends_ms)
        c->r->timed_out = !c->ended;
    return now < c->ends_ms;
}

/* How long poll may wait for it. With both ends closed there is nothing to poll but the process
 * itself. */
static int64_t tick_of(const struct running *c, int64_t now)
{
    const int64_t tick = c->out < 0 && c->err < 0 ? 1 : TICK_MS;

    return c->ends_ms - now < tick ? c->ends_ms - now : tick;
}

static void listen_to(struct running *all, size_t n, struct err *failed)
{
    for (;;) {
        struct pollfd fds[2 * CHILD_MOST];
        const int64_t now = clock_mono_ms();
        int64_t wait = -1;

        for (size_t i = 0; i < n; i++) {
            const bool on = goes_on(&all[i], &failed[i], now);
            const int64_t tick = on ? tick_of(&all[i], now) : 0;

            if (on && (wait < 0 || tick < wait))
                wait = tick;
            fds[2 * i] = (struct pollfd){.fd = on ? all[i].out : -1, .events = POLLIN};
            fds[2 * i + 1] = (struct pollfd){.fd = on ? all[i].err : -1, .events = POLLIN};
        }
        if (wait < 0)
            return;
        if (poll(fds, 2 * n, (int)wait) > 0)
            for (size_t i = 0; i < n; i++) {
                if (fds[2 * i].revents)
                    read_pipe(&all[i], &all[i].out, &failed[i]);
                if (fds[2 * i + 1].revents)
                    read_pipe(&all[i], &all[i].err, &failed[i]);
            }
        for (size_t i = 0; i < n; i++)
            all[i].r->stopped = all[i].o->stop && *all[i].o->stop;
    }
}

/* ---------------------------------------------------------------------------------- ending */

static void end_child(struct running *c)
{
    if (c->out >= 0)
        close(c->out);
    if (c->err >= 0)
        close(c->err);
    c->r->status = spawn_end(c->pid, REAP_MS);
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
    if (shown)
        utf8_copy(c->r->words, sizeof(c->r->words), shown);
    free(shown);
}

int child_run_all(const struct child_options *o, struct child_result *ret, size_t n,
                  struct err *err)
{
    struct running all[CHILD_MOST];
    struct err failed[CHILD_MOST] = {0};
    size_t started = 0;

    *err = (struct err){0};
    if (n > CHILD_MOST)
        return err_set(err, ERR_LIMIT, "more than %u processes at once", CHILD_MOST);
    for (; started < n; started++) {
        ret[started] = (struct child_result){.status = -1};
        all[started] = (struct running){
            .o = &o[started], .r = &ret[started], .ends_ms = clock_mono_ms() + o[started].limit_ms};
        if (start_child(&all[started], err) != 0)
            break;
    }
    if (started == n)
        listen_to(all, n, failed);
    for (size_t i = 0; i < started; i++) {
        end_child(&all[i]);
        last_words(&all[i]);
        if (failed[i].code != 0 && err->code == 0)
            *err = failed[i];
    }
    for (size_t i = 0; err->code != 0 && i < started; i++)
        buf_free(&ret[i].out);
    return err->code;
}

int child_run(const struct child_options *o, struct child_result *ret, struct err *err)
{
    return child_run_all(o, ret, 1, err);
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
