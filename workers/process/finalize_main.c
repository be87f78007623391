#include "workers/process/finalize_main.h"

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

/* Address space: a day's recording takes some 2 GiB. */
#define MEMORY_BYTES (UINT64_C(16) << 30)
/* The most malloc arenas, each of which takes 64 MiB of address space. */
#define MOST_ARENAS 4
/* The last pause before a model is read again. */
#define AGAIN_MOST_MS 16000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* sanitizers take terabytes of address space */
#else
#define SANITIZED 0
#endif

struct finalizer {
    struct frame_reader in;
    struct msg_finalize work; /* model_dir NULL: none */
    struct finalizing voices;
    struct finalizing_model model; /* of the last work that was done */
    struct err failed;             /* a message of this work that cannot be used: told at its end */
};

/* ---- what is said */

static int send_finalizer_message(uint8_t type, struct buf *b, struct err *err)
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
        .device = (char *)"finalize",
        .program = (char *)NIGHTSHIFT_VERSION,
    };

    msg_hello_put(&b, &m);
    return send_finalizer_message(MSG_HELLO, &b, err);
}

/* A line that cannot be sent is lost: its reader is gone, too. */
static void log_to_scheduler(enum log_level level, const char *line, void *arg)
{
    struct buf b = BUF_INIT;
    struct err ignored = {0};
    char *valid = utf8_repair(line, strlen(line));
    const struct msg_log m = {.level = (uint8_t)level, .line = valid};

    (void)arg;
    msg_log_put(&b, &m);
    send_finalizer_message(MSG_LOG, &b, &ignored);
    free(valid);
}

static int say_failed(int64_t task, const struct err *why, struct err *err)
{
    struct buf b = BUF_INIT;
    char *valid = utf8_repair(why->msg, strlen(why->msg));
    const struct msg_finalize_failed m = {.task_id = task, .code = why->code, .message = valid};

    msg_finalize_failed_put(&b, &m);
    free(valid);
    return send_finalizer_message(MSG_FINALIZE_FAILED, &b, err);
}

/* The message must be one that the scheduler can read: else it would close a finalizer that did
 * nothing wrong, again and again. */
static int encode_finalize_result(const struct msg_finalized *m, struct buf *b, struct err *err)
{
    struct msg_finalized check;
    int rc;

    msg_finalized_put(b, m);
    if (b->failed)
        return err_set(err, ERR_NOMEM, "no memory for a recording's speakers");
    if (b->len > FRAME_MAX)
        return err_set(err, ERR_LIMIT, "it has more turns than a message can hold");
    rc = msg_finalized_get(b->data, b->len, &check, err);
    if (rc == 0)
        msg_finalized_free(&check);
    else if (rc != ERR_NOMEM)
        rc = err_set(err, ERR_INPUT, "its voices gave a result that cannot be stored");
    return rc;
}

/* ---- what is heard */

static void reset_finalizer(struct finalizer *s)
{
    msg_finalize_free(&s->work);
    finalizing_free(&s->voices);
    s->failed = (struct err){0};
}

static int on_finalize(struct finalizer *s, const struct frame *f, struct err *err)
{
    if (s->work.model_dir)
        return err_set(err, ERR_PROTOCOL, "FINALIZE came before the last one's end");
    return msg_finalize_get(f->payload, f->len, &s->work, err);
}

static int on_voices(struct finalizer *s, const struct frame *f, struct err *err)
{
    struct result_voices m;
    int rc;

    if (!s->work.model_dir)
        return err_set(err, ERR_PROTOCOL, "VOICES came without FINALIZE");
    rc = msg_voices_get(f->payload, f->len, &m, err);
    if (rc != 0)
        return rc;
    if (!s->failed.code)
        finalizing_add(&s->voices, &m, &s->failed);
    msg_voices_free(&m);
    return 0;
}

/* False: the scheduler has something to say, which is QUIT, or has gone. */
static bool wait_without_message(int ms)
{
    struct pollfd p = {.fd = WORKER_SOCKET_FD, .events = POLLIN};

    return poll(&p, 1, ms) == 0;
}

/* The voices are all here: what a disk fails to give is the model. It is read again, as a worker is
 * restarted; an error that remains is the stage's, since no recording is to blame. */
static int finish_with_retries(struct finalizer *s, struct msg_finalized *ret)
{
    int rc = finalizing_finish(&s->voices, &s->work, &s->model, ret, &s->failed);

    for (int ms = 1000; rc == ERR_IO && ms <= AGAIN_MOST_MS; ms *= 4) {
        log_warn("%s; it is read again in %d s", s->failed.msg, ms / 1000);
        if (!wait_without_message(ms))
            break;
        s->failed = (struct err){0};
        rc = finalizing_finish(&s->voices, &s->work, &s->model, ret, &s->failed);
    }
    return rc == ERR_IO ? s->failed.code = ERR_MODEL : rc;
}

static int on_go(struct finalizer *s, struct err *err)
{
    struct msg_finalized m = {0};
    struct buf b = BUF_INIT;
    int rc = s->failed.code;

    if (!s->work.model_dir)
        return err_set(err, ERR_PROTOCOL, "FINALIZE_GO came without FINALIZE");
    if (rc == 0)
        rc = finish_with_retries(s, &m);
    if (rc == 0)
        rc = encode_finalize_result(&m, &b, &s->failed);
    msg_finalized_free(&m);
    if (rc == 0) {
        rc = send_finalizer_message(MSG_FINALIZED, &b, err);
    } else {
        buf_free(&b);
        rc = say_failed(s->work.task_id, &s->failed, err);
    }
    reset_finalizer(s);
    return rc;
}

static int handle_finalize_message(struct finalizer *s, const struct frame *f, struct err *err)
{
    switch (f->type) {
    case MSG_FINALIZE:
        return on_finalize(s, f, err);
    case MSG_VOICES:
        return on_voices(s, f, err);
    case MSG_FINALIZE_GO:
        return on_go(s, err);
    case MSG_QUIT:
        return err_set(err, ERR_EMPTY, "the scheduler wants this finalizer to leave");
    default:
        return err_set(err, ERR_PROTOCOL, "the scheduler sent a message of type %u", f->type);
    }
}

static int serve_scheduler(struct finalizer *s, struct err *err)
{
    struct frame f;
    int rc = say_hello(err);

    while (rc == 0) {
        rc = frame_read_fd(WORKER_SOCKET_FD, &s->in, -1, &f, err);
        if (rc == 0)
            rc = handle_finalize_message(s, &f, err);
    }
    return rc;
}

/* ---- the process */

/* Like a worker: the scheduler decides when to stop. */
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

int finalizer_main(int argc, char **argv)
{
    struct finalizer s = {0};
    struct err err = {0};
    int rc;

    (void)argv;
    if (argc != 1 || !has_socket()) {
        fprintf(stderr, "nightshift finalize: this command is started by 'nightshift run' only\n");
        return EX_USAGE;
    }
    if (!spawn_begun(WORKER_SOCKET_FD))
        return EX_OK;
    ignore_signals();
    limit_memory();
    log_set_sink(log_to_scheduler, NULL);
    rc = serve_scheduler(&s, &err);
    if (rc != ERR_EMPTY && rc != ERR_IO)
        log_warn("%s", err.msg);
    reset_finalizer(&s);
    finalizing_model_free(&s.model);
    frame_reader_free(&s.in);
    log_set_sink(NULL, NULL);
    return rc == ERR_EMPTY || rc == ERR_IO ? EX_OK : err_exit_status(rc);
}
