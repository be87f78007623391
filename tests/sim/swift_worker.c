/* A worker with a made-up device, on the real protocol: it opens no recording, and hears each in
 * its length divided by $SWIFT_SPEED (times real time; 0: at once), one after the other. A
 * recording of n bytes lasts n milliseconds and is one shard; it has $SWIFT_SEGMENTS segments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/spawn.h"
#include "tests/common/random.h"
#include "workers/process/worker.h"
#include "workers/wire/frame.h"
#include "workers/wire/protocol.h"

#define CAPACITY 64u /* of a device with 32 slots */
#define LEASES_MAX 4096u
#define SEGMENTS_MAX 64u
#define WORDS 8u
#define VOCABULARY 20000u

struct held {
    struct msg_lease m;
    int64_t due_us;
};

static struct {
    struct held held[LEASES_MAX]; /* a ring, oldest first */
    uint32_t first, count;
    double speed;
    uint32_t segments;
    int64_t free_us; /* the device has done what it holds */
    uint64_t audio_ms, beat;
    struct buf out;
} swift;

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static char *text(const char *s) { return (char *)s; }

/* Into what is sent next; frees *b. */
static void say(uint8_t type, struct buf *b)
{
    frame_put(&swift.out, type, b->data, b->len);
    buf_free(b);
}

static void send_all(void)
{
    size_t at = 0;

    if (swift.out.failed)
        _exit(3);
    while (at < swift.out.len) {
        ssize_t n = write(WORKER_SOCKET_FD, swift.out.data + at, swift.out.len - at);

        if (n <= 0)
            _exit(0); /* the scheduler has gone */
        at += (size_t)n;
    }
    buf_clear(&swift.out);
}

static void heartbeat(void)
{
    struct buf b = BUF_INIT;
    const struct msg_heartbeat m = {.audio_ms = swift.audio_ms,
                                    .decoded_ms = swift.audio_ms,
                                    .leases = swift.count,
                                    .windows =
                                        swift.count < CAPACITY / 2 ? swift.count : CAPACITY / 2,
                                    .engine_beat = ++swift.beat};

    msg_heartbeat_put(&b, &m);
    say(MSG_HEARTBEAT, &b);
}

static void say_media(const struct msg_lease *l)
{
    struct buf b = BUF_INIT;
    const struct msg_media m = {.lease_id = l->lease_id,
                                .media_id = l->media_id,
                                .duration_ms = (int64_t)l->size_bytes,
                                .sample_rate_hz = 16000,
                                .channels = 1,
                                .audio_tracks = 1,
                                .left_out = text(""),
                                .mix_left_out = text(""),
                                .container = text("wav"),
                                .codec = text("pcm_s16le")};

    msg_media_put(&b, &m);
    say(MSG_MEDIA, &b);
}

/* Few words are frequent, most are rare. */
static void speak(char *ret, size_t cap, uint64_t *r)
{
    size_t n = 0;

    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t rank = 1 + random_below(r, 1 + random_below(r, VOCABULARY));

        n += (size_t)snprintf(ret + n, cap - n, " %c%c%x", 'a' + (int)(rank % 23),
                              "aeiou"[rank % 5], rank);
    }
}

static void say_shard(const struct msg_lease *l)
{
    static struct result_segment segments[SEGMENTS_MAX];
    static char said[SEGMENTS_MAX][WORDS * 12];
    const int64_t length = (int64_t)l->size_bytes;
    uint64_t r = (uint64_t)l->media_id;
    struct buf b = BUF_INIT;
    const struct msg_shard_done m = {.lease_id = l->lease_id,
                                     .media_id = l->media_id,
                                     .start_ms = 0,
                                     .end_ms = length,
                                     .language = text("en"),
                                     .language_prob = 0.9f,
                                     .windows = 2,
                                     .wall_ms = 1,
                                     .shards = 1,
                                     .total_ms = length,
                                     .segment_count = swift.segments,
                                     .segments = segments};

    for (uint32_t i = 0; i < swift.segments; i++) {
        speak(said[i], sizeof(said[i]), &r);
        segments[i] = (struct result_segment){.start_ms = length * i / swift.segments,
                                              .end_ms = length * (i + 1) / swift.segments,
                                              .text = said[i],
                                              .language = text("en"),
                                              .avg_logprob = -0.2f,
                                              .compression_ratio = 1.5f,
                                              .attempts = 1,
                                              .speech_prob = 0.9f,
                                              .reason = text("")};
    }
    msg_shard_done_put(&b, &m);
    say(MSG_SHARD_DONE, &b);
}

static void end_first(int code, const char *message)
{
    struct msg_lease *l = &swift.held[swift.first].m;
    struct buf b = BUF_INIT;
    struct msg_lease_end m = {.lease_id = l->lease_id,
                              .media_id = l->media_id,
                              .code = code,
                              .message = text(message),
                              .reached_end = code == 0,
                              .total_ms = code == 0 ? (int64_t)l->size_bytes : 0,
                              .shards = code == 0,
                              .has_hash = code == 0 && l->want_hash,
                              .damage = text("")};

    memcpy(m.content_hash, l->fingerprint, sizeof(m.content_hash));
    msg_lease_end_put(&b, &m);
    say(MSG_LEASE_END, &b);
    msg_lease_free(l);
    swift.first = (swift.first + 1) % LEASES_MAX;
    swift.count--;
}

static void end_due(void)
{
    while (swift.count && swift.held[swift.first].due_us <= now_us()) {
        const struct msg_lease *l = &swift.held[swift.first].m;

        say_media(l);
        say_shard(l);
        swift.audio_ms += l->size_bytes;
        end_first(0, "");
    }
}

static void take_lease(const struct frame *f)
{
    struct held *h = &swift.held[(swift.first + swift.count) % LEASES_MAX];
    struct err err = {0};

    if (swift.count == LEASES_MAX || msg_lease_get(f->payload, f->len, &h->m, &err) ||
        h->m.first != 0 || h->m.track_count != 1 || h->m.size_bytes > h->m.shard_ms)
        _exit(3);
    if (swift.free_us < now_us())
        swift.free_us = now_us();
    if (swift.speed > 0)
        swift.free_us += (int64_t)((double)h->m.size_bytes * 1000 / swift.speed);
    h->due_us = swift.free_us;
    swift.count++;
}

static void get_ready(void)
{
    struct buf b = BUF_INIT;
    char *none = text("");
    const struct msg_ready m = {.capacity = CAPACITY,
                                .description = text("made up"),
                                .device = text("a made-up device"),
                                .precision = text("fp32"),
                                .slots = CAPACITY / 2,
                                .windows = 8,
                                .stage_count = 1,
                                .why_not = &none};

    msg_ready_put(&b, &m);
    say(MSG_READY, &b);
}

static void obey(const struct frame *f)
{
    switch (f->type) {
    case MSG_SETUP:
        get_ready();
        break;
    case MSG_LEASE:
        take_lease(f);
        break;
    case MSG_CAP: /* of one shard there is no rest */
        break;
    case MSG_DRAIN:
        while (swift.count)
            end_first(ERR_CANCELLED, "draining");
        break;
    default:
        _exit(f->type == MSG_QUIT ? 0 : 3);
    }
}

int main(int argc, char **argv)
{
    const char *speed = getenv("SWIFT_SPEED"), *segments = getenv("SWIFT_SEGMENTS");
    struct frame_reader in = {0};
    struct buf b = BUF_INIT;
    const struct msg_hello hello = {
        .pid = (uint32_t)getpid(), .device = text("cpu"), .program = text(NIGHTSHIFT_VERSION)};
    int64_t beat_at = 0;

    (void)argv;
    if (argc != 4 || !spawn_begun(WORKER_SOCKET_FD))
        return 0;
    swift.speed = speed ? strtod(speed, NULL) : 0;
    swift.segments = segments ? (uint32_t)strtoul(segments, NULL, 10) : 2;
    swift.segments = swift.segments > SEGMENTS_MAX ? SEGMENTS_MAX : swift.segments;
    msg_hello_put(&b, &hello);
    say(MSG_HELLO, &b);
    for (;;) {
        int64_t left_us = swift.count ? swift.held[swift.first].due_us - now_us() : 20000;
        struct frame f;
        struct err err;
        int rc;

        send_all();
        rc = frame_read_fd(WORKER_SOCKET_FD, &in, left_us > 0 ? (int)((left_us + 999) / 1000) : 0,
                           &f, &err);
        if (rc == 0)
            obey(&f);
        else if (rc != ERR_TIMEOUT)
            return 0;
        end_due();
        if (clock_mono_ms() >= beat_at) {
            heartbeat();
            beat_at = clock_mono_ms() + 1000;
        }
    }
}
