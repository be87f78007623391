/* The parent's side: starts the process, reads its frames, explains its end. */
#include "workers/media/decoder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/utf8.h"
#include "workers/wire/frame.h"
#include "workers/media/ffmpeg.h"
#include "workers/media/fork_server.h"
#include "workers/media/stream/fingerprint.h"
#include "workers/media/sandbox.h"
#include "workers/media/stream/sniff.h"
#include "workers/media/libarchive.h"
#include "workers/media/stream/stream.h"
#include "workers/media/wire.h"

#define DEFAULT_MEMORY_BYTES ((uint64_t)2 << 30)
#define DEFAULT_SILENCE_MS 60000u
#define DEFAULT_MAX_ENTRIES 5000000u
/* A member behind terabytes in a solid archive takes hours, a decoder in hostile hands could give
 * signs of life, or a byte a minute, for ever. A decoder may take this many times its processor
 * time, since others use the processor, too. */
#define WAIT_FACTOR 2
#define STDERR_KEPT 2048
#define KILLED_MS 5000 /* a killed process ends within this time, or not at all */
#define LEFT_MOST 64

/* Set before threads start; see decoder.h. */
static const char *program;
static struct fork_server *shared;
/* Guards the shared server: threads take turns to start decoders. */
static pthread_mutex_t sharing = PTHREAD_MUTEX_INITIALIZER;
static bool told; /* that one died */

/*  STARTED --frames--> STARTED --WIRE_END--> DONE
 *     |  error, death, silence, cancel          |
 *     +-------------> DONE <--------------------+   only decoder_close after it */
struct decoder {
    pid_t pid; /* 0 once reaped */
    int sock;
    int errors;   /* read end of its standard error, non-blocking */
    uint8_t task; /* enum wire_task */
    bool done;
    bool stuck;    /* it could not be killed */
    uint64_t left; /* bytes of the entry that is being unpacked which have not come */
    bool unpacking;
    struct listed_member listed; /* of the entry that is being listed */
    uint32_t described;          /* so often the info has come */
    uint32_t stride;             /* samples of PCM for one of the recording, by it */
    int64_t next_sample;         /* where the next PCM must begin; -1 before the first */
    int64_t skip_samples;
    uint64_t entries;
    uint64_t waited_ms; /* for frames */
    struct decoder_limits limits;
    struct frame_reader in;
    atomic_bool cancelled;
    void (*pulse)(void *arg);
    void *pulse_arg;
    struct decoder_info info; /* of the event handed out last, with its strings */
    struct decoder_entry entry;
    struct decoder_end end;
    int16_t pcm[WIRE_PCM_SAMPLES];
};

void decoder_set_program(const char *path) { program = path; }

int decoder_load(struct err *err)
{
    struct err second = {0};
    int rc = ffmpeg_open(err), after = libarchive_open(rc ? &second : err);

    return rc ? rc : after;
}

/* bare: with no libraries, for a trial of the sandbox alone. */
static int open_server(bool bare, struct fork_server **ret)
{
    const char *const argv[] = {"nightshift", "decoder", bare ? DECODER_BARE : NULL, NULL};

    return fork_server_open(program, argv, ret);
}

void decoder_share_server(void)
{
    int failed = shared ? 0 : open_server(false, &shared);

    if (failed)
        log_warn("decoders are started one by one: %s", strerror(failed));
}

void decoder_drop_server(void)
{
    fork_server_close(shared);
    shared = NULL;
}

/* --- starting --- */

/* Two ends of a socket, the request already inside: nobody has to write to a process that may have
 * died. Both are closed by exec. */
static int make_socket(const struct wire_request *request, int ends[2], struct err *err)
{
    struct buf payload = BUF_INIT;
    int size = 256 << 10;
    int rc;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        ends[0] = ends[1] = -1;
        return err_sys(err, errno, "start a decoder");
    }
    /* Room for some seconds of audio, so that neither side waits for each frame. */
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    wire_put_request(&payload, request);
    rc = payload.failed ? err_set(err, ERR_NOMEM, "out of memory")
                        : frame_write_fd(ends[0], WIRE_REQUEST, payload.data, payload.len, err);
    buf_free(&payload);
    return rc;
}

/* The child's standard error is a pipe that never blocks it: the first 64 KiB are kept for the log,
 * the rest is lost. */
static int make_error_pipe(int ends[2], struct err *err)
{
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        ends[0] = ends[1] = -1;
        return err_sys(err, errno, "start a decoder");
    }
    return 0;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Holds `sharing`. The thread that takes its place lives as long as decoders are wanted. */
static void replace_server(void)
{
    int status = fork_server_close(shared);
    char how[40] = "it does not answer";

    shared = NULL;
    if (status >= 0 && WIFSIGNALED(status))
        snprintf(how, sizeof(how), "signal %d", WTERMSIG(status));
    else if (status >= 0)
        snprintf(how, sizeof(how), "status %d", WEXITSTATUS(status));
    if (!told)
        log_warn("the process that starts decoders died (%s); another one takes its place", how);
    told = true;
    decoder_share_server();
}

/* *any: there is one, or was until now. */
static int fork_shared(struct decoder *d, const int files[], size_t count, bool *any)
{
    int failed = EPIPE;

    pthread_mutex_lock(&sharing);
    *any = shared != NULL;
    if (shared)
        failed = fork_server_start(shared, files, count, &d->pid);
    if (shared && failed == EPIPE) {
        replace_server();
        if (shared)
            failed = fork_server_start(shared, files, count, &d->pid);
    }
    pthread_mutex_unlock(&sharing);
    return failed;
}

/* By the shared server; where there is none, by one for this decoder alone. */
static int fork_decoder(struct decoder *d, const int files[], size_t count)
{
    bool any;
    int failed = fork_shared(d, files, count, &any);
    struct fork_server *own;

    if (failed != EPIPE)
        return failed;
    failed = open_server(d->task == WIRE_TASK_SANDBOX && !any, &own);
    if (failed == 0) {
        failed = fork_server_start(own, files, count, &d->pid);
        fork_server_close(own);
    }
    return failed;
}

static int launch_decoder_process(struct decoder *d, int file, const struct wire_request *request,
                                  struct err *err)
{
    int sock[2] = {-1, -1}, errors[2] = {-1, -1};
    int rc = make_socket(request, sock, err);

    if (rc == 0)
        rc = make_error_pipe(errors, err);
    if (rc == 0) {
        int failed = fork_decoder(d, (int[]){errors[1], sock[1], file}, 3);

        if (failed == EAGAIN)
            rc = err_set(err, ERR_NOMEM, "start a decoder: there are too many processes");
        else if (failed == EPIPE) /* no message here: it would repeat for each decoder */
            rc = decoder_load(err) ? err->code
                                   : err_set(err, ERR_IO, "start a decoder: it ended before");
        else
            rc = failed ? err_sys(err, failed, "start a decoder") : 0;
    }
    close_fd(sock[1]);
    close_fd(errors[1]);
    if (rc != 0) {
        d->pid = 0;
        close_fd(sock[0]);
        close_fd(errors[0]);
        return rc;
    }
    d->sock = sock[0];
    d->errors = errors[0];
    return 0;
}

/* Processor time that no honest file needs: two hours, and a second for each MiB of it. So a
 * thousand hours are decoded to the end, and a member at the end of a terabyte is reached. */
static uint64_t default_cpu_seconds(uint64_t size) { return 7200 + (size >> 20); }

static struct decoder_limits with_defaults(int file, const struct decoder_limits *limits)
{
    struct decoder_limits l = limits ? *limits : (struct decoder_limits){0};
    struct stat st;
    const uint64_t size = fstat(file, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;

    l.memory_bytes = l.memory_bytes ? l.memory_bytes : DEFAULT_MEMORY_BYTES;
    l.silence_ms = l.silence_ms ? l.silence_ms : DEFAULT_SILENCE_MS;
    l.cpu_seconds = l.cpu_seconds ? l.cpu_seconds : default_cpu_seconds(size);
    l.wait_ms = l.wait_ms ? l.wait_ms : default_cpu_seconds(size) * 1000 * WAIT_FACTOR;
    l.max_entries = l.max_entries ? l.max_entries : DEFAULT_MAX_ENTRIES;
    l.max_unpacked_bytes = l.max_unpacked_bytes ? l.max_unpacked_bytes : unpack_default_bytes(size);
    return l;
}

static int create_decoder(int file, struct wire_request *request,
                          const struct decoder_limits *limits, struct decoder **ret,
                          struct err *err)
{
    struct decoder *d = calloc(1, sizeof(*d));
    int rc;

    if (!d)
        return err_set(err, ERR_NOMEM, "out of memory");
    d->sock = d->errors = -1;
    d->next_sample = -1;
    d->skip_samples = request->skip_samples;
    d->task = request->task;
    d->limits = with_defaults(file, limits);
    d->listed.capacity = d->limits.max_unpacked_bytes;
    request->limits = d->limits;
    request->parent_pid = (uint32_t)getpid();
    rc = launch_decoder_process(d, file, request, err);
    if (rc != 0) {
        decoder_close(d);
        return rc;
    }
    *ret = d;
    return 0;
}

int decoder_start(int file, const struct decoder_work *work, const struct decoder_limits *limits,
                  struct decoder **ret, struct err *err)
{
    struct wire_request request = {
        .task = WIRE_TASK_DECODE,
        .member = work->member ? work->member : "",
        .nth = work->nth,
        .skip_samples = work->skip_samples > 0 ? work->skip_samples : 0,
        .want_hash = work->want_hash,
        .has_fingerprint = work->fingerprint != NULL,
        .headerless = headerless_of(work->member && work->member[0] ? work->member
                                    : work->name                    ? work->name
                                                                    : ""),
        .hearing = work->hearing,
    };

    if (strlen(request.member) >= WIRE_MEMBER_MAX) {
        return err_set(err, ERR_INPUT, "the member's name is longer than %u bytes",
                       WIRE_MEMBER_MAX);
    }
    if (work->fingerprint)
        memcpy(request.fingerprint, work->fingerprint, sizeof(request.fingerprint));
    return create_decoder(file, &request, limits, ret, err);
}

int decoder_start_list(int file, const struct decoder_limits *limits, struct decoder **ret,
                       struct err *err)
{
    struct wire_request request = {.task = WIRE_TASK_LIST, .member = ""};

    return create_decoder(file, &request, limits, ret, err);
}

int decoder_start_unpack(int file, const struct decoder_limits *limits, struct decoder **ret,
                         struct err *err)
{
    struct wire_request request = {.task = WIRE_TASK_UNPACK, .member = ""};

    return create_decoder(file, &request, limits, ret, err);
}

/* --- its end --- */

/* Processes that could not be killed, until they end. */
static pid_t left_behind[LEFT_MOST];
static pthread_mutex_t leaving = PTHREAD_MUTEX_INITIALIZER;

/* pid 0: none more. A zombie of one that finds no place is the parent's until that ends. */
static void leave_behind(pid_t pid)
{
    pthread_mutex_lock(&leaving);
    for (size_t i = 0; i < LEFT_MOST; i++) {
        if (left_behind[i] > 0 && spawn_ended(left_behind[i])) {
            spawn_end(left_behind[i], 0);
            left_behind[i] = 0;
        }
        if (left_behind[i] == 0 && pid > 0) {
            left_behind[i] = pid;
            pid = 0;
        }
    }
    pthread_mutex_unlock(&leaving);
}

/* Its wait status; a process that has ended already does not mind being killed. A process that
 * waits in the kernel for a disk or a share that does not answer cannot be killed. It is left
 * behind. */
static int reap_decoder(struct decoder *d)
{
    int status = d->pid > 0 ? spawn_end(d->pid, KILLED_MS) : 0;

    if (d->pid > 0 && status < 0 && !spawn_ended(d->pid)) {
        log_warn("a decoder (pid %ld) cannot be ended: it waits for a disk or a share that does "
                 "not answer, and is left behind",
                 (long)d->pid);
        leave_behind(d->pid);
        d->stuck = true;
    } else {
        leave_behind(0);
    }
    d->pid = 0;
    return status;
}

/* Does it wait in the kernel for what cannot be interrupted: a disk, a share? */
static bool waits_for_disk(pid_t pid)
{
    char path[40], text[256], *name_end;
    FILE *f;
    size_t n;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    f = fopen(path, "re");
    if (!f)
        return false;
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = 0;
    name_end = strrchr(text, ')');
    return name_end && strncmp(name_end, ") D", 3) == 0;
}

/* Like reap, but waits a moment for the exit status of a process that has just closed its
 * socket. */
static int reap_patiently(struct decoder *d)
{
    const struct timespec step = {.tv_nsec = 5 * 1000 * 1000};

    for (int i = 0; i < 400 && !spawn_ended(d->pid); i++)
        nanosleep(&step, NULL);
    return reap_decoder(d);
}

/* The beginning of its standard error, for the log: a crash often explains itself. */
static void log_stderr(struct decoder *d)
{
    char text[STDERR_KEPT];
    ssize_t got = read(d->errors, text, sizeof(text));
    char *line, *next;

    for (char *p = got > 0 ? text : NULL; p && p < text + got; p = next) {
        char *end = memchr(p, '\n', (size_t)(text + got - p));

        next = end ? end + 1 : text + got;
        line = utf8_display(p, (size_t)((end ? end : text + got) - p));
        if (line && *line)
            log_warn("decoder: %.500s", line);
        free(line);
    }
}

/* It closed its socket without a last word. */
static int explain_death(struct decoder *d, struct err *err)
{
    int status = reap_patiently(d);

    log_stderr(d);
    if (WIFSIGNALED(status)) {
        int sig = WTERMSIG(status);

        if (sig == SIGXCPU) {
            return err_set(err, ERR_LIMIT, "decoding it took more than %llu s of processor time",
                           (unsigned long long)d->limits.cpu_seconds);
        }
        /* Nothing in a file sends these: somebody did, or the system was out of memory. */
        if (sig == SIGKILL || sig == SIGTERM || sig == SIGINT || sig == SIGHUP) {
            return err_set(err, ERR_CRASH,
                           "the decoder was killed from outside (signal %d), perhaps for lack of "
                           "memory",
                           sig);
        }
        return err_set(err, ERR_INPUT, "the decoder crashed on it (signal %d)", sig);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == DECODER_EXIT_UNASKED)
        return err_set(err, ERR_IO, "the decoder did not take what it was asked for");
    return err_set(err, ERR_INPUT, "the decoder crashed on it (exit status %d)",
                   WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

void decoder_cancel(struct decoder *d)
{
    atomic_store(&d->cancelled, true);
    shutdown(d->sock, SHUT_RDWR); /* wakes the reader; the descriptor stays its owner's */
}

static void drop_strings(struct decoder *d)
{
    wire_info_free(&d->info);
    wire_entry_free(&d->entry);
    wire_end_free(&d->end);
}

void decoder_close(struct decoder *d)
{
    if (!d)
        return;
    reap_decoder(d);
    close_fd(d->sock);
    close_fd(d->errors);
    frame_reader_free(&d->in);
    listed_member_drop(&d->listed);
    drop_strings(d);
    free(d);
}

/* --- reading --- */

static int report_decoder_nonsense(struct err *err, const char *what)
{
    char why[sizeof(err->msg)];

    utf8_copy(why, sizeof(why), what);
    return err_set(err, ERR_INPUT, "the decoder went astray on it (%.200s)", why);
}

/* Waits for a frame. A failure of the process becomes an error about the file. */
static int next_frame(struct decoder *d, struct frame *ret, struct err *err)
{
    const int64_t began_ms = clock_mono_ms();
    int rc = frame_read_fd(d->sock, &d->in, (int)d->limits.silence_ms, ret, err);
    uint64_t waited_ms = (uint64_t)(clock_mono_ms() - began_ms);
    bool stalled;

    /* More than that it is only where we were stopped ourselves. */
    d->waited_ms += waited_ms < d->limits.silence_ms ? waited_ms : d->limits.silence_ms;
    if (atomic_load(&d->cancelled))
        return err_set(err, ERR_CANCELLED, "cancelled");
    switch (rc) {
    case 0:
        if (d->waited_ms <= d->limits.wait_ms)
            return 0;
        reap_decoder(d);
        return err_set(err, ERR_TIMEOUT, "the decoder kept us waiting for %llu s in all",
                       (unsigned long long)d->waited_ms / 1000);
    case ERR_TIMEOUT:
        stalled = waits_for_disk(d->pid);
        reap_decoder(d);
        log_stderr(d);
        if (stalled || d->stuck)
            return err_set(err, ERR_STALLED,
                           "the decoder has waited %u s for what the file lies on, which does not "
                           "answer",
                           (d->limits.silence_ms + 500) / 1000);
        return err_set(err, ERR_TIMEOUT, "the decoder did not answer for %u s",
                       (d->limits.silence_ms + 500) / 1000);
    case ERR_NOMEM:
        return rc;
    case ERR_PROTOCOL:
        reap_decoder(d);
        return report_decoder_nonsense(err, err->msg);
    default: /* closed between frames or within one */
        return explain_death(d, err);
    }
}

static int take_pcm(struct decoder *d, const struct frame *f, struct decoder_event *ret,
                    struct err *err)
{
    int rc = wire_get_pcm(f->payload, f->len, d->pcm, &ret->samples, &ret->at_sample, err);

    if (rc != 0)
        return rc;
    if (d->task != WIRE_TASK_DECODE || d->described != 1 || ret->samples % d->stride != 0 ||
        ret->at_sample != (d->next_sample < 0 ? d->skip_samples : d->next_sample))
        return err_set(err, ERR_PROTOCOL, "audio out of place");
    ret->type = DECODER_PCM;
    ret->pcm = d->pcm;
    ret->samples /= d->stride;
    d->next_sample = ret->at_sample + (int64_t)ret->samples;
    return 0;
}

static int take_end(struct decoder *d, const struct frame *f, struct decoder_event *ret,
                    struct err *err)
{
    int rc = wire_get_end(f->payload, f->len, &d->end, err);

    if (rc != 0)
        return rc;
    if (listed_member_is_on(&d->listed))
        return err_set(err, ERR_PROTOCOL, "an end before an entry's");
    if (d->task == WIRE_TASK_DECODE &&
        (!d->described || (d->next_sample >= 0 ? d->end.total_samples != d->next_sample
                                               : d->end.total_samples > d->skip_samples)))
        return err_set(err, ERR_PROTOCOL, "an end out of place");
    ret->type = DECODER_END;
    ret->end = d->end;
    d->done = true;
    return 0;
}

/* In a listing a readable entry becomes an event once all of its bytes have come. */
static int take_entry(struct decoder *d, const struct frame *f, struct decoder_event *ret,
                      struct err *err)
{
    const bool again = listed_member_is_on(&d->listed); /* what came before is not whole */
    int rc;

    listed_member_drop(&d->listed);
    wire_entry_free(&d->entry);
    rc = wire_get_entry(f->payload, f->len, &d->entry, err);
    if (rc == 0 && (d->task == WIRE_TASK_DECODE || (again && d->entry.code == 0) ||
                    (!again && ++d->entries > d->limits.max_entries)))
        rc = err_set(err, ERR_PROTOCOL, "an entry out of place");
    if (rc != 0)
        return rc;
    d->left = d->entry.size_bytes;
    d->unpacking = false; /* until it is wanted */
    if (d->task == WIRE_TASK_LIST && d->entry.code == 0) {
        rc = listed_member_begin(&d->listed, d->left, err);
        return rc != 0 ? rc : err_set(err, ERR_EMPTY, "its bytes follow");
    }
    ret->type = DECODER_ENTRY;
    ret->entry = d->entry;
    return 0;
}

/* 0: *ret is an event; ERR_EMPTY: nothing to tell; ERR_PROTOCOL: it must not say this (here). */
static int handle_decoder_frame(struct decoder *d, const struct frame *f, struct decoder_event *ret,
                                struct err *err)
{
    struct err said;
    uint32_t stride;
    int rc;

    switch (f->type) {
    case WIRE_PULSE:
        return err_set(err, ERR_EMPTY, "a sign of life");
    case WIRE_INFO:
        rc = wire_get_info(f->payload, f->len, &d->info, err);
        stride = d->info.source_count ? d->info.source_count + 1 : 1;
        if (rc == 0 && (d->task != WIRE_TASK_DECODE || d->described > 1 ||
                        (d->described && stride != d->stride)))
            rc = err_set(err, ERR_PROTOCOL, "information out of place");
        ret->type = DECODER_INFO;
        ret->info = d->info;
        d->stride = stride;
        d->described++;
        return rc;
    case WIRE_PCM:
        return take_pcm(d, f, ret, err);
    case WIRE_ENTRY:
        return take_entry(d, f, ret, err);
    case WIRE_BYTES:
        if (listed_member_is_on(&d->listed)) {
            rc = listed_member_take(&d->listed, f->payload, f->len, d->entry.fingerprint,
                                    d->entry.content_hash, err);
            ret->type = DECODER_ENTRY;
            ret->entry = d->entry;
            return rc;
        }
        if (!d->unpacking || f->len > d->left || (f->len == 0 && d->left > 0))
            return err_set(err, ERR_PROTOCOL, "bytes out of place");
        ret->type = DECODER_BYTES;
        ret->bytes = f->payload;
        ret->byte_count = f->len;
        d->left -= f->len;
        d->unpacking = f->len > 0;
        return 0;
    case WIRE_END:
        return take_end(d, f, ret, err);
    case WIRE_ERROR:
        rc = wire_get_error(f->payload, f->len, &said, err);
        if (rc == 0) {
            *err = said;
            rc = said.code;
        }
        return rc;
    default:
        return err_set(err, ERR_PROTOCOL, "a message of type %u", f->type);
    }
}

/* There is room for an answer where those before it were taken. */
static bool takes_answers(const struct decoder *d)
{
    struct pollfd p = {.fd = d->sock, .events = POLLOUT};

    return poll(&p, 1, 0) != 0;
}

int decoder_answer(struct decoder *d, bool wanted, struct err *err)
{
    const struct wire_answer answer = {wanted};
    struct buf payload = BUF_INIT;
    int rc;

    if (!takes_answers(d)) {
        reap_decoder(d);
        return report_decoder_nonsense(err, "it takes no answers");
    }
    wire_put_answer(&payload, &answer);
    rc = payload.failed ? err_set(err, ERR_NOMEM, "out of memory")
                        : frame_write_fd(d->sock, WIRE_ANSWER, payload.data, payload.len, err);
    buf_free(&payload);
    d->unpacking = wanted;
    if (rc == 0 || rc == ERR_NOMEM || atomic_load(&d->cancelled))
        return rc;
    return explain_death(d, err);
}

void decoder_on_pulse(struct decoder *d, void (*fn)(void *arg), void *arg)
{
    d->pulse = fn;
    d->pulse_arg = arg;
}

int decoder_next(struct decoder *d, struct decoder_event *ret, struct err *err)
{
    struct decoder_event event = {0};
    struct frame frame;
    int rc = ERR_EMPTY;

    drop_strings(d);
    if (d->done)
        return err_set(err, ERR_EMPTY, "the decoder has ended");
    while (rc == ERR_EMPTY) {
        rc = next_frame(d, &frame, err);
        if (rc == 0 && d->pulse && frame.type != WIRE_PCM)
            d->pulse(d->pulse_arg);
        if (rc == 0)
            rc = handle_decoder_frame(d, &frame, &event, err);
        if (rc == ERR_PROTOCOL) {
            reap_decoder(d);
            rc = report_decoder_nonsense(err, err->msg);
        }
    }
    if (rc != 0) {
        d->done = true;
        return rc;
    }
    *ret = event;
    return 0;
}

/* --- what is in force --- */

int sandbox_check(struct sandbox_report *ret, struct err *err)
{
    struct wire_request request = {.task = WIRE_TASK_SANDBOX, .member = ""};
    struct decoder *d = NULL;
    struct frame frame;
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int rc;

    if (file < 0)
        return err_sys(err, errno, "open /dev/null");
    rc = create_decoder(file, &request, NULL, &d, err);
    close(file);
    if (rc != 0 || !d)
        return rc;
    rc = next_frame(d, &frame, err);
    if (rc == 0 && frame.type == WIRE_ERROR) {
        struct err said;

        rc = wire_get_error(frame.payload, frame.len, &said, err);
        if (rc == 0) {
            *err = said;
            rc = said.code;
        }
    } else if (rc == 0) {
        rc = frame.type == WIRE_SANDBOX
                 ? wire_get_sandbox(frame.payload, frame.len, ret, err)
                 : err_set(err, ERR_PROTOCOL, "the decoder answered with something else");
    }
    decoder_close(d);
    return rc;
}

int sandbox_demand(bool unsandboxed, char warning[SANDBOX_WORDS], struct err *err)
{
    struct sandbox_report r = {0};

    if (sandbox_check(&r, err) != 0)
        return err_prefix(err, "trying the decoders' sandbox");
    return sandbox_judge(&r, unsandboxed, warning, err);
}
