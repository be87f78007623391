#include "workers/process/settle_main.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdbool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/log.h"
#include "base/spawn.h"
#include "base/utf8.h"
#include "workers/wire/frame.h"
#include "workers/process/worker.h"

/* Of address space: a day's recording takes some 2 GiB. */
#define MEMORY_BYTES (UINT64_C(16) << 30)
/* Of the C library, one of which takes 64 MiB of address space. */
#define MOST_ARENAS 4
/* The last pause before a model is read again. */
#define AGAIN_MOST_MS 16000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* sanitizers take terabytes of address space */
#else
#define SANITIZED 0
#endif

struct settler {
    struct frame_reader in;
    struct msg_settle work; /* model_dir NULL: none */
    struct settling voices;
    struct settling_model model; /* of the last work that was done */
    struct err failed;           /* a message of this work that cannot be used: told at its end */
};

/* ---- what is said */

static int say(uint8_t type, struct buf *b, struct err *err)
{
    int rc = b->failed ? err_set(err, ERR_NOMEM, "no memory for a message")
                       : frame_write_fd(WORKER_SOCKET_FD, type, b->data, b->len, err);

    buf_free(b);
    return rc;
}

static int say_hello(struct err *err)
{
    struct buf b = BUF_INIT;
    const struct msg_hello m = {
        .pid = (uint32_t)getpid(),
        .device = (char *)"settle",
        .program = (char *)NIGHTSHIFT_VERSION,
    };

    msg_hello_put(&b, &m);
    return say(MSG_HELLO, &b, err);
}

/* A line that cannot be sent is lost: so is who would have read it. */
static void log_to_scheduler(enum log_level level, const char *line, void *arg)
{
    struct buf b = BUF_INIT;
    struct err ignored = {0};
    char *valid = utf8_repair(line, strlen(line));
    const struct msg_log m = {.level = (uint8_t)level, .line = valid};

    (void)arg;
    msg_log_put(&b, &m);
    say(MSG_LOG, &b, &ignored);
    free(valid);
}

static int say_failed(int64_t task, const struct err *why, struct err *err)
{
    struct buf b = BUF_INIT;
    char *valid = utf8_repair(why->msg, strlen(why->msg));
    const struct msg_settle_failed m = {.task_id = task, .code = why->code, .message = valid};

    msg_settle_failed_put(&b, &m);
    free(valid);
    return say(MSG_SETTLE_FAILED, &b, err);
}

/* The message must be one that the scheduler can read: else it would close a settler that did
 * nothing wrong, again and again. */
static int encode(const struct msg_settled *m, struct buf *b, struct err *err)
{
    struct msg_settled check;
    int rc;

    msg_settled_put(b, m);
    if (b->failed)
        return err_set(err, ERR_NOMEM, "no memory for a recording's speakers");
    if (b->len > FRAME_MAX)
        return err_set(err, ERR_LIMIT, "it has more turns than a message can hold");
    rc = msg_settled_get(b->data, b->len, &check, err);
    if (rc == 0)
        msg_settled_free(&check);
    else if (rc != ERR_NOMEM)
        rc = err_set(err, ERR_INPUT, "its voices gave a result that cannot be stored");
    return rc;
}

/* ---- what is heard */

static void forget(struct settler *s)
{
    msg_settle_free(&s->work);
    settling_free(&s->voices);
    s->failed = (struct err){0};
}

static int on_settle(struct settler *s, const struct frame *f, struct err *err)
{
    if (s->work.model_dir)
        return err_set(err, ERR_PROTOCOL, "SETTLE came before the last one's end");
    return msg_settle_get(f->payload, f->len, &s->work, err);
}

static int on_voices(struct settler *s, const struct frame *f, struct err *err)
{
    struct result_voices m;
    int rc;

    if (!s->work.model_dir)
        return err_set(err, ERR_PROTOCOL, "VOICES came without SETTLE");
    rc = msg_voices_get(f->payload, f->len, &m, err);
    if (rc != 0)
        return rc;
    if (!s->failed.code)
        settling_add(&s->voices, &m, &s->failed);
    msg_voices_free(&m);
    return 0;
}

/* False: the scheduler has something to say, which is QUIT, or has gone. */
static bool undisturbed(int ms)
{
    struct pollfd p = {.fd = WORKER_SOCKET_FD, .events = POLLIN};

    return poll(&p, 1, ms) == 0;
}

/* The voices are all here: what a disk fails to give is the model. It is asked again, as a worker
 * is started again; what it still fails with is the stage's, for no recording is to blame. */
static int finish(struct settler *s, struct msg_settled *ret)
{
    int rc = settling_finish(&s->voices, &s->work, &s->model, ret, &s->failed);

    for (int ms = 1000; rc == ERR_IO && ms <= AGAIN_MOST_MS; ms *= 4) {
        log_warn("%s; it is read again in %d s", s->failed.msg, ms / 1000);
        if (!undisturbed(ms))
            break;
        s->failed = (struct err){0};
        rc = settling_finish(&s->voices, &s->work, &s->model, ret, &s->failed);
    }
    return rc == ERR_IO ? s->failed.code = ERR_MODEL : rc;
}

static int on_go(struct settler *s, struct err *err)
{
    struct msg_settled m = {0};
    struct buf b = BUF_INIT;
    int rc = s->failed.code;

    if (!s->work.model_dir)
        return err_set(err, ERR_PROTOCOL, "SETTLE_GO came without SETTLE");
    if (rc == 0)
        rc = finish(s, &m);
    if (rc == 0)
        rc = encode(&m, &b, &s->failed);
    msg_settled_free(&m);
    if (rc == 0) {
        rc = say(MSG_SETTLED, &b, err);
    } else {
        buf_free(&b);
        rc = say_failed(s->work.task_id, &s->failed, err);
    }
    forget(s);
    return rc;
}

static int handle(struct settler *s, const struct frame *f, struct err *err)
{
    switch (f->type) {
    case MSG_SETTLE:
        return on_settle(s, f, err);
    case MSG_VOICES:
        return on_voices(s, f, err);
    case MSG_SETTLE_GO:
        return on_go(s, err);
    case MSG_QUIT:
        return err_set(err, ERR_EMPTY, "the scheduler wants this settler to leave");
    default:
        return err_set(err, ERR_PROTOCOL, "the scheduler sent a message of type %u", f->type);
    }
}

static int serve(struct settler *s, struct err *err)
{
    struct frame f;
    int rc = say_hello(err);

    while (rc == 0) {
        rc = frame_read_fd(WORKER_SOCKET_FD, &s->in, -1, &f, err);
        if (rc == 0)
            rc = handle(s, &f, err);
    }
    return rc;
}

/* ---- the process */

/* As a worker: what becomes of the work is the scheduler's decision. */
static void ignore_signals(void)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction a = {.sa_handler = SIG_IGN};

    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        sigaction(ignored[i], &a, NULL);
}

static void limit_memory(void)
{
    struct rlimit r;

#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, MOST_ARENAS);
#endif
    if (SANITIZED || getrlimit(RLIMIT_AS, &r) != 0)
        return;
    if (r.rlim_cur > MEMORY_BYTES)
        r.rlim_cur = MEMORY_BYTES;
    setrlimit(RLIMIT_AS, &r);
}

static bool has_socket(void)
{
    struct stat st;

    return fstat(WORKER_SOCKET_FD, &st) == 0 && S_ISSOCK(st.st_mode) &&
           fcntl(WORKER_SOCKET_FD, F_SETFD, FD_CLOEXEC) == 0;
}

int settler_main(int argc, char **argv)
{
    struct settler s = {0};
    struct err err = {0};
    int rc;

    (void)argv;
    if (argc != 1 || !has_socket()) {
        fprintf(stderr, "nightshift settle: this command is started by 'nightshift run' only\n");
        return EX_USAGE;
    }
    if (!spawn_begun(WORKER_SOCKET_FD))
        return EX_OK;
    ignore_signals();
    limit_memory();
    log_set_sink(log_to_scheduler, NULL);
    rc = serve(&s, &err);
    if (rc != ERR_EMPTY && rc != ERR_IO)
        log_warn("%s", err.msg);
    forget(&s);
    settling_model_free(&s.model);
    frame_reader_free(&s.in);
    log_set_sink(NULL, NULL);
    return rc == ERR_EMPTY || rc == ERR_IO ? EX_OK : err_exit_status(rc);
}
