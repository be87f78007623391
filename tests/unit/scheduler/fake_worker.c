/* A worker that computes nothing and misbehaves on command.
 *
 * What it does with a recording is in the last part of its path, KIND-N: N shards, and KIND one of
 *   ok, slow        results (slow: 40 ms each)
 *   crash, hang, still, garbage, outside, device
 *                   does that before shard N/2: abort; neither works nor beats; beats but stands
 *                   still; bytes that are no frame; a shard that is not leased; exits with 83
 *   killed          there LEASE_END, as when somebody kills the decoder
 *   crashonce, ioonce, killedonce
 *                   the first time only (a file of that name in $FAKE_STATE remembers)
 *   input, io, missing, denied  LEASE_END with that error at once; missing only under /gone/
 *   wrong           the same as input, in a sentence of the stage's own
 *   second          missing, unless it is the second member of its name
 *   shardfail       SHARD_FAILED for shard N/2, the others are fine
 *   nan, range, overflow
 *                   there a result is not a number; range: in fp16 alone; overflow: and it is FATAL
 *   dup, stray      every result twice; every result also for a lease that does not exist
 *   short           LEASE_END without error, and without results for the second half
 *   badtext         a segment that ends before it begins
 *   mute            results without a segment
 * What a shard yields depends on the stage, as SETUP names it: segments of a transcription, a
 * sound, voices of two windows, a vector of each second or of each passage (where the recording's
 * kind does not matter). While $FAKE_STATE has a file "hold", no shard is begun, although the
 * engine is said to beat. `nightshift finalize` is fake_finalizer.c's, and what other stages than
 * the first do, which it loads if it is asked to, is fake_tracks.c's. $FAKE_MODE misbehaves as a
 * whole: version, model, mute (no HELLO), exit, unready, nomem; nolibrary; novram (the model does
 * not fit); gone (no device, while $FAKE_STATE has a file of that name); measure (says that it has
 * measured 32 slots and 4 windows, unless it is told what is remembered, which it writes as a
 * file's name into $FAKE_STATE); lower (as measure, and halves both); workers (writes how many it
 * was told of); early (as lower, before it is ready); fp16 (computes so if it may choose).
 * MODE@DEVICE: only on that device; MODE@STAGE: only for that stage. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/spawn.h"
#include "tests/unit/scheduler/fake_finalizer.h"
#include "tests/unit/scheduler/fake_worker.h"
#include "workers/process/worker.h"

#define CAPACITY 4

static struct fake_lease leases[FAKE_MAX_LEASES];
static uint32_t lease_count;
static uint64_t audio_ms, beat;
static bool draining, still;
static char *device;
static char precision[16] = "fp32"; /* as READY says it */
char fake_stages[SETUP_MAX_STAGES][FAKE_STAGE_LEN];

void fake_say(uint8_t type, struct buf *b)
{
    struct err err;

    if (frame_write_fd(WORKER_SOCKET_FD, type, b->data, b->len, &err))
        _exit(0); /* the scheduler has gone */
    buf_free(b);
}

bool fake_mode(const char *name, const char *of)
{
    const char *m = getenv("FAKE_MODE");
    size_t n = strlen(name);

    return m && strncmp(m, name, n) == 0 &&
           (!m[n] || (m[n] == '@' && (!strcmp(m + n + 1, device) || !strcmp(m + n + 1, of))));
}

static bool mode(const char *name) { return fake_mode(name, fake_stages[0]); }

/* True the first time that it is asked with this name. */
static bool first_time(const char *path)
{
    char name[512];
    const char *slash = strrchr(path, '/');
    int fd;

    snprintf(name, sizeof(name), "%s/%s", getenv("FAKE_STATE"), slash + 1);
    fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void fatal(int code, const char *message)
{
    struct msg_fatal m = {.code = code, .message = fake_text(message)};
    struct buf b = BUF_INIT;

    msg_fatal_put(&b, &m);
    fake_say(MSG_FATAL, &b);
    _exit(1);
}

static void heartbeat(void)
{
    struct buf b = BUF_INIT;
    struct msg_heartbeat m = {
        .audio_ms = audio_ms,
        .decoded_ms = audio_ms,
        .leases = lease_count,
        .windows = lease_count ? 1 : 0,
        .engine_beat = beat,
        .vram_bytes = 6000000000,
        .vram_peak = 7000000000,
    };

    msg_heartbeat_put(&b, &m);
    fake_say(MSG_HEARTBEAT, &b);
}

static void say_end(struct fake_lease *l)
{
    struct buf b = BUF_INIT;
    struct msg_lease_end m = {
        .lease_id = l->m.lease_id,
        .media_id = l->m.media_id,
        .code = l->code,
        .message = fake_text(l->message),
        .reached_end = l->reached,
        .total_ms = !l->reached          ? 0
                    : l->m.passage_count ? l->m.total_ms
                                         : (int64_t)l->shards * l->m.shard_ms,
        .shards = l->reached ? l->shards + fake_tracks_lie_at_end(l) : 0,
        .has_hash = l->reached && l->m.want_hash,
        .damage = fake_text(""),
    };

    memcpy(m.content_hash, l->m.fingerprint, 16);
    msg_lease_end_put(&b, &m);
    fake_say(MSG_LEASE_END, &b);
    msg_lease_free(&l->m);
    memmove(l, l + 1, (size_t)(leases + lease_count - l - 1) * sizeof(*l));
    lease_count--;
}

/* Its pass is over; where that was so before, it is as it was said then. */
static void end_lease(struct fake_lease *l, int code, const char *message, bool reached)
{
    if (!l->over) {
        l->over = true;
        l->code = code;
        l->message = message;
        l->reached = reached;
    }
    if (fake_tracks_done(l))
        say_end(l);
}

/* Now, and with nothing more of its tracks. */
static void cut_short(struct fake_lease *l, const char *message)
{
    fake_tracks_drop(l);
    end_lease(l, ERR_CANCELLED, message, false);
}

static void media(struct fake_lease *l)
{
    struct msg_media m = {.lease_id = l->m.lease_id,
                          .media_id = l->m.media_id,
                          .duration_ms = (int64_t)l->shards * l->m.shard_ms,
                          .sample_rate_hz = 16000,
                          .channels = 1,
                          .container = fake_text("fake"),
                          .codec = fake_text("fake")};
    struct buf b = BUF_INIT;

    msg_media_put(&b, &m);
    fake_say(MSG_MEDIA, &b);
    l->told = true;
}

/* The misbehaviours of the middle shard. */
static void act(const struct fake_lease *l)
{
    if (fake_is(l, "crash") || (fake_is(l, "crashonce") && first_time(l->m.path)))
        abort();
    if (fake_is(l, "hang"))
        for (;;)
            pause();
    if (fake_is(l, "still"))
        still = true;
    if (fake_is(l, "device"))
        _exit(WORKER_EXIT_DEVICE);
    if (fake_is(l, "garbage") && write(WORKER_SOCKET_FD, "this is not a frame at all", 26) < 0)
        _exit(1);
    if (fake_is(l, "outside")) /* of any lease: one past a cap may have been granted before it */
        fake_shard_done(l, l->m.lease_id, 0, UINT32_MAX - 1);
}

bool fake_skipped(const struct msg_track *t, uint32_t seq)
{
    uint32_t i;

    for (i = 0; i < t->skip_count; i++)
        if (t->skip[i] == seq)
            return true;
    return false;
}

static bool refuse(struct fake_lease *l)
{
    if (fake_is(l, "input"))
        end_lease(l, ERR_INPUT, "no audio track", false);
    else if (fake_is(l, "wrong"))
        end_lease(l, ERR_INPUT, fake_stages[0], false);
    else if (fake_is(l, "io") || (fake_is(l, "ioonce") && first_time(l->m.path)))
        end_lease(l, ERR_IO, "reading failed", false);
    else if ((fake_is(l, "missing") && strstr(l->m.path, "/gone/")) ||
             (fake_is(l, "second") && l->m.nth != 1))
        end_lease(l, ERR_MISSING, "it is not there any more", false);
    else if (fake_is(l, "denied"))
        end_lease(l, ERR_DENIED, "no permission to read it", false);
    else
        return false;
    return true;
}

bool fake_has_word(const char *text)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", getenv("FAKE_STATE"), text);
    return access(path, F_OK) == 0;
}

/* The first that is decoded, or is to be. */
static struct fake_lease *at_work(void)
{
    uint32_t i = 0;

    while (i < lease_count && leases[i].over)
        i++;
    return i < lease_count && !still ? &leases[i] : NULL;
}

/* One shard. */
static void work(struct fake_lease *l)
{
    const char *ms = getenv("FAKE_SHARD_US");

    if (fake_has_word("hold")) {
        beat++;
        usleep(1000);
        return;
    }
    if (refuse(l))
        return;
    if (!l->told)
        media(l);
    while (l->next < l->shards && l->next <= l->last && fake_skipped(&l->m.tracks[0], l->next))
        l->next++;
    if (l->next >= l->shards || l->next > l->last) {
        end_lease(l, 0, "", l->next >= l->shards);
        return;
    }
    if (l->next == l->shards / 2) {
        if (fake_is(l, "short")) {
            end_lease(l, 0, "", false);
            return;
        }
        if (fake_is(l, "killed") || (fake_is(l, "killedonce") && first_time(l->m.path))) {
            end_lease(l, ERR_CRASH, "the decoder was killed from outside (signal 9)", false);
            return;
        }
        act(l);
        if (still)
            return;
        if (fake_is(l, "shardfail")) {
            fake_shard_failed(l, 0, l->next++, ERR_INPUT, "the sound stops making sense");
            return;
        }
        if (fake_is(l, "overflow") && strcmp(precision, "fp16") == 0)
            fatal(ERR_MODEL, "a vector is not a number");
        if (fake_is(l, "nan") || (fake_is(l, "range") && strcmp(precision, "fp16") == 0)) {
            fake_shard_failed(l, 0, l->next++, ERR_MODEL, "that is not a number");
            return;
        }
    }
    usleep(fake_is(l, "slow") ? 40000 : ms ? (useconds_t)atoi(ms) : 300);
    audio_ms += l->m.shard_ms;
    beat++;
    if (fake_is(l, "stray"))
        fake_shard_done(l, l->m.lease_id + 1000000, 0, l->next);
    fake_shard_done(l, l->m.lease_id, 0, l->next);
    if (fake_is(l, "dup"))
        fake_shard_done(l, l->m.lease_id, 0, l->next);
    l->next++;
}

/* What other stages have to say, of all leases. */
static void work_of_tracks(void)
{
    uint32_t i = 0;

    while (i < lease_count) {
        struct fake_lease *l = &leases[i];

        fake_tracks_work(l);
        if (l->over && fake_tracks_done(l))
            say_end(l);
        else
            i++;
    }
}

/* A file whose name is the text. */
static void leave_word(const char *text)
{
    char path[600];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", getenv("FAKE_STATE"), text);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    if (fd >= 0)
        close(fd);
}

void fake_count(const char *what, const struct fake_lease *l)
{
    char path[600];
    int fd;

    snprintf(path, sizeof(path), "%s/%s:%s", getenv("FAKE_STATE"), what,
             strrchr(l->m.path, '/') + 1);
    fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    if (fd >= 0 && write(fd, "x", 1) == 1)
        close(fd);
}

static void accept_lease(const struct frame *f)
{
    struct fake_lease *l = &leases[lease_count];
    const char *name;
    struct err err;

    memset(l, 0, sizeof(*l));
    if (lease_count == FAKE_MAX_LEASES || msg_lease_get(f->payload, f->len, &l->m, &err))
        _exit(3);
    lease_count++;
    name = strrchr(l->m.path, '/') + 1;
    snprintf(l->kind, sizeof(l->kind), "%.*s", (int)strcspn(name, "-"), name);
    l->shards = (uint32_t)atoi(name + strcspn(name, "-") + 1);
    l->next = l->m.first;
    l->last = l->m.last;
    fake_count(fake_stages[0], l);
    fake_tracks_begin(l);
    if (strcmp(fake_stages[0], "embed-text") == 0) {
        if (l->m.passage_count == 0 || l->m.first != 0)
            _exit(3);
        l->shards = 1;
        l->told = true;
        strcpy(l->kind, "ok");
    }
    if (draining)
        cut_short(l, "draining");
}

static struct fake_lease *find(uint64_t id)
{
    uint32_t i;

    for (i = 0; i < lease_count; i++)
        if (leases[i].m.lease_id == id)
            return &leases[i];
    return NULL;
}

static void lower(void)
{
    struct msg_tuned m = {.slots = 16, .windows = 2, .reason = fake_text("no room for 32 windows")};
    struct buf b = BUF_INIT;

    msg_tuned_put(&b, &m);
    fake_say(MSG_TUNED, &b);
}

/* What it takes at once: measured, or as it is told. */
static void tune(const struct msg_setup *s, struct msg_ready *r)
{
    char word[64];

    r->slots = 32;
    r->windows = 4;
    r->rate = 50;
    r->measured = true;
    r->predicted_bytes = 9000000000;
    r->allocated_bytes = 5000000000;
    r->algorithms = fake_text("four ways");
    r->algorithms_bytes = strlen(r->algorithms);
    if (!s->tuned_slots)
        return;
    if (s->algorithms_bytes == r->algorithms_bytes &&
        memcmp(s->algorithms, r->algorithms, r->algorithms_bytes) == 0) {
        leave_word("told-ways");
        r->algorithms_bytes = 0;
    }
    snprintf(word, sizeof(word), "told-%u-%u", s->tuned_slots, s->tuned_windows);
    leave_word(word);
    r->slots = s->tuned_slots;
    r->windows = s->tuned_windows;
    r->rate = s->tuned_rate;
    r->measured = false;
}

static void setup(const struct frame *from)
{
    struct buf b = BUF_INIT;
    struct msg_setup s;
    struct err err;
    char word[64];
    struct msg_ready r = {
        .capacity = CAPACITY,
        .description = device,
        .device = fake_text("a fake"),
        .precision = precision,
        .slots = 8,
        .windows = 2,
    };

    if (msg_setup_get(from->payload, from->len, &s, &err))
        _exit(3);
    for (uint32_t i = 0; i < s.stage_count; i++)
        snprintf(fake_stages[i], sizeof(fake_stages[i]), "%s", s.stages[i].name);
    if (mode("fp16")) {
        snprintf(precision, sizeof(precision), "%s",
                 strcmp(s.precision, "auto") == 0 ? "fp16" : s.precision);
        snprintf(word, sizeof(word), "told-%.16s", s.precision);
        leave_word(word);
    }
    if (mode("workers")) {
        snprintf(word, sizeof(word), "told-%u-workers", s.workers);
        leave_word(word);
    }
    if (mode("model"))
        fatal(ERR_MODEL, "tensor 'x' is missing");
    if (mode("nomem"))
        fatal(ERR_NOMEM, "the model does not fit");
    if (mode("nolibrary"))
        fatal(ERR_LIBRARY, "FFmpeg cannot be opened");
    if (mode("novram"))
        fatal(ERR_VRAM, "8 GB are needed, 2 are free");
    if (mode("gone") && fake_has_word("gone"))
        fatal(ERR_DEVICE, "the device is not there any more");
    if (mode("unready"))
        return;
    if (mode("measure") || mode("lower"))
        tune(&s, &r);
    if (mode("early"))
        lower();
    fake_tracks_setup(&s, &r);
    msg_ready_put(&b, &r);
    fake_say(MSG_READY, &b);
    if (mode("lower"))
        lower();
    msg_setup_free(&s);
}

static void obey(const struct frame *f)
{
    struct msg_cancel cancel;
    struct msg_cap cap;
    struct fake_lease *l;
    struct err err;

    switch (f->type) {
    case MSG_SETUP:
        setup(f);
        break;
    case MSG_LEASE:
        accept_lease(f);
        break;
    case MSG_CAP:
        if (msg_cap_get(f->payload, f->len, &cap, &err))
            _exit(3);
        l = find(cap.lease_id);
        if (l && cap.last < l->last)
            l->last = cap.last;
        break;
    case MSG_CANCEL:
        if (msg_cancel_get(f->payload, f->len, &cancel, &err))
            _exit(3);
        l = find(cancel.lease_id);
        if (l && cancel.track)
            l->tracks[cancel.track].on = false;
        else if (l)
            cut_short(l, "cancelled");
        break;
    case MSG_DRAIN:
        draining = true;
        while (lease_count)
            cut_short(&leases[0], "draining");
        break;
    case MSG_QUIT:
        _exit(0);
    default:
        _exit(3);
    }
}

/* nightshift probe --watch MS DEVICE...: what the tests left in state/gpu-I of the I-th, "PERCENT
 * CELSIUS MILLIWATTS PID...", of others; our own worker's is added. Without PERCENT it tells of no
 * processes, and without the file there is no NVML. */
static bool put_gpu(int index, const char *name)
{
    char path[200], line[200] = "", *at = line, *end;
    long value[3] = {0};
    FILE *f;
    int n = 0;

    snprintf(path, sizeof(path), "%s/gpu-%d", getenv("FAKE_STATE"), index);
    f = fopen(path, "re");
    if (!f)
        return false;
    if (!fgets(line, sizeof(line), f))
        line[0] = 0;
    fclose(f);
    for (; n < 3 && (value[n] = strtol(at, &end, 10), end != at); n++)
        at = end;
    if (n < 3)
        return printf("%s{}", index > 0 ? "," : "") > 0;
    printf("%s{\"percent\":%ld,\"celsius\":%ld,\"milliwatts\":%ld,\"used\":1000,\"total\":2000,"
           "\"processes\":[",
           index > 0 ? "," : "", value[0], value[1], value[2]);
    for (n = 0; (value[0] = strtol(at, &end, 10), end != at); at = end)
        printf("%s{\"pid\":%ld,\"computes\":true}", n++ > 0 ? "," : "", value[0]);
    snprintf(path, sizeof(path), "%s/pid-%s", getenv("FAKE_STATE"), name);
    f = fopen(path, "re");
    if (f && fgets(line, sizeof(line), f) && kill((pid_t)strtol(line, NULL, 10), 0) == 0)
        printf("%s{\"pid\":%ld,\"computes\":true}", n > 0 ? "," : "", strtol(line, NULL, 10));
    if (f)
        fclose(f);
    return printf("]}") > 0;
}

static bool left_word(const char *word)
{
    char path[200];

    snprintf(path, sizeof(path), "%s/%s", getenv("FAKE_STATE"), word);
    return access(path, F_OK) == 0;
}

static int fake_probe(int argc, char **argv)
{
    if (!left_word("gpu-0"))
        return puts("{\"error\":\"there is none here\"}") < 0;
    puts("{\"driver\":\"1.2.3\"}");
    for (;;) {
        if (left_word("probe-crash"))
            abort();
        while (left_word("probe-hang"))
            pause();
        printf("{\"gpus\":[");
        for (int i = 3; i < argc; i++)
            put_gpu(i - 3, argv[i]);
        if (puts("]}") < 0 || fflush(stdout) != 0)
            return 1;
        usleep((useconds_t)strtoul(argv[2], NULL, 10) * 1000);
    }
}

/* For the fake probe. */
static void leave_pid(void)
{
    char path[200];
    FILE *f;

    snprintf(path, sizeof(path), "%s/pid-%s", getenv("FAKE_STATE"), device);
    f = fopen(path, "we");
    if (!f)
        return;
    fprintf(f, "%d\n", (int)getpid());
    fclose(f);
}

int main(int argc, char **argv)
{
    struct frame_reader in = {0};
    struct buf b = BUF_INIT;
    int64_t beat_at = 0;
    struct msg_hello hello = {.pid = (uint32_t)getpid(),
                              .device = NULL,
                              .program =
                                  fake_text(mode("version") ? "0.0.1-other" : NIGHTSHIFT_VERSION)};

    if (argc > 3 && strcmp(argv[1], "probe") == 0)
        return spawn_begun(STDOUT_FILENO) ? fake_probe(argc - 1, argv + 1) : 0;
    if (!spawn_begun(WORKER_SOCKET_FD))
        return 0;
    if (argc == 2 && strcmp(argv[1], "finalize") == 0)
        return fake_finalizer();
    /* nightshift worker --device NAME */
    if (argc != 4 || strcmp(argv[1], "worker") != 0 || strcmp(argv[2], "--device") != 0)
        return 2;
    device = hello.device = argv[3];
    leave_pid();
    if (mode("exit"))
        return 7;
    while (mode("mute"))
        pause();
    msg_hello_put(&b, &hello);
    fake_say(MSG_HELLO, &b);
    for (;;) {
        struct fake_lease *l = at_work();
        struct frame f;
        struct err err;
        int rc = frame_read_fd(WORKER_SOCKET_FD, &in, l ? 0 : 20, &f, &err);

        if (rc == 0)
            obey(&f);
        else if (rc != ERR_TIMEOUT)
            return 0;
        else if (l)
            work(l);
        work_of_tracks();
        if (!l && lease_count && !still)
            beat++;
        if (clock_mono_ms() >= beat_at) {
            heartbeat();
            beat_at = clock_mono_ms() + 50;
        }
    }
}
