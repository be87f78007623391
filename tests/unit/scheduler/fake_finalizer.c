/* A finalizer that computes nothing and misbehaves on command.
 *
 * Each window that it is told of becomes a turn of the speaker window % 2. $FAKE_FINALIZE is one of
 *   slow            200 ms for each recording
 *   held            waits with each until $FAKE_STATE has a file "go-on", and says before that it
 *                   has it in hand, by a file in-hand-TASK
 *   late            reads on 300 ms after it was told of a recording
 *   crash, hang     when it is to begin: abort; no answer
 *   crashonce       the first time only (a file of that name in $FAKE_STATE remembers)
 *   midway          crashes at the first VOICES
 *   input, io, model  FINALIZE_FAILED with that error
 *   other           a result of another task
 *   badturn         a turn that ends before it begins
 *   longturn, longspeech  one that ends after the recording, who speaks longer than that
 *   version, mute   as the worker's
 * $FAKE_STATE gets a file settled-TASK, of a byte for each answer, and threads-N, of a byte for
 * each recording that it is to compute with so many. */
#include "tests/unit/scheduler/fake_finalizer.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workers/wire/frame.h"
#include "workers/wire/protocol.h"
#include "workers/process/worker.h"

#define WINDOWS_MAX 4096u

static struct msg_finalize task;
static uint32_t windows, first[WINDOWS_MAX];

static bool mode(const char *name)
{
    const char *m = getenv("FAKE_FINALIZE");

    return m && strcmp(m, name) == 0;
}

static void say(uint8_t type, struct buf *b)
{
    struct err err;

    if (frame_write_fd(WORKER_SOCKET_FD, type, b->data, b->len, &err))
        _exit(0); /* the scheduler has gone */
    buf_free(b);
}

static bool first_time(const char *name)
{
    char path[600];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", getenv("FAKE_STATE"), name);
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Who runs us takes us along when it goes: this waits without an end of its own. */
static void be_held(void)
{
    char path[600];

    snprintf(path, sizeof(path), "in-hand-%lld", (long long)task.task_id);
    first_time(path);
    snprintf(path, sizeof(path), "%s/go-on", getenv("FAKE_STATE"));
    while (access(path, F_OK) != 0)
        usleep(1000);
}

static void count(const char *word, int64_t of)
{
    char path[600];
    int fd;

    snprintf(path, sizeof(path), "%s/%s-%lld", getenv("FAKE_STATE"), word, (long long)of);
    fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    if (fd >= 0 && write(fd, "x", 1) == 1)
        close(fd);
}

static void hear(const struct frame *f)
{
    struct result_voices m;
    struct err err;

    if (msg_voices_get(f->payload, f->len, &m, &err) || m.vector_count != 4 || m.size != 4)
        _exit(3);
    if (mode("midway"))
        abort();
    for (uint32_t i = 0; i < m.windows && windows < WINDOWS_MAX; i++)
        first[windows++] = m.first + i;
    msg_voices_free(&m);
}

static void fail(int code, const char *message)
{
    struct msg_finalize_failed m = {
        .task_id = task.task_id, .code = code, .message = (char *)message};
    struct buf b = BUF_INIT;

    msg_finalize_failed_put(&b, &m);
    say(MSG_FINALIZE_FAILED, &b);
}

static void answer(void)
{
    static float values[2][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}};
    struct result_speaker speakers[2] = {{1000, values[0]}, {2000, values[1]}};
    struct result_turn *turns = calloc(windows + 1, sizeof(*turns));
    struct msg_finalized m = {.task_id = task.task_id + mode("other"),
                              .people = {4, 2, windows, speakers, turns},
                              .wall_ms = 1};
    struct buf b = BUF_INIT;

    for (uint32_t i = 0; i < windows; i++)
        turns[i] = (struct result_turn){first[i] * 1000, first[i] * 1000 + 1000, i % 2};
    if (mode("badturn") && windows)
        turns[0].end_ms = -1;
    if (mode("longturn") && windows)
        turns[0].end_ms = task.total_ms + 1;
    if (mode("longspeech"))
        speakers[1].speech_ms = task.total_ms + 1;
    count("settled", task.task_id);
    msg_finalized_put(&b, &m);
    say(MSG_FINALIZED, &b);
    free(turns);
}

static void go(void)
{
    if (mode("crash") || (mode("crashonce") && first_time("crashonce")))
        abort();
    while (mode("hang"))
        pause();
    if (mode("slow"))
        usleep(200000);
    if (mode("held"))
        be_held();
    if (mode("input"))
        fail(ERR_INPUT, "its voices make no sense");
    else if (mode("io"))
        fail(ERR_IO, "reading failed");
    else if (mode("model"))
        fail(ERR_MODEL, "the model's transforms are gone");
    else
        answer();
    msg_finalize_free(&task);
    memset(&task, 0, sizeof(task));
    windows = 0;
}

static void obey(const struct frame *f)
{
    struct err err;

    switch (f->type) {
    case MSG_FINALIZE:
        if (task.task_id || msg_finalize_get(f->payload, f->len, &task, &err))
            _exit(3);
        count("threads", task.threads);
        if (mode("late"))
            usleep(300000);
        break;
    case MSG_VOICES:
        if (!task.task_id)
            _exit(3);
        hear(f);
        break;
    case MSG_FINALIZE_GO:
        if (!task.task_id)
            _exit(3);
        go();
        break;
    case MSG_QUIT:
        _exit(0);
    default:
        _exit(3);
    }
}

int fake_finalizer(void)
{
    struct frame_reader in = {0};
    struct buf b = BUF_INIT;
    struct msg_hello hello = {.pid = (uint32_t)getpid(),
                              .device = (char *)"",
                              .program =
                                  (char *)(mode("version") ? "0.0.1-other" : NIGHTSHIFT_VERSION)};
    struct frame f;
    struct err err;

    while (mode("mute"))
        pause();
    msg_hello_put(&b, &hello);
    say(MSG_HELLO, &b);
    while (frame_read_fd(WORKER_SOCKET_FD, &in, -1, &f, &err) == 0)
        obey(&f);
    return 0;
}
