/* tests/unit/workers/play.h - plays the scheduler to a real worker process.
 *
 * The test program starts itself again as the worker (and that one as its decoders): its main calls
 * play_dispatch first. Everything that the worker says is kept. */
#ifndef NIGHTSHIFT_TESTS_UNIT_WORKERS_PLAY_H
#define NIGHTSHIFT_TESTS_UNIT_WORKERS_PLAY_H

#include "tests/common/test.h"

#include <sys/types.h>

#include "workers/wire/frame.h"
#include "workers/wire/protocol.h"

#define PLAY_MAX 128
#define PLAY_SILENCE_MS 120000 /* longer without any message: the test fails */

struct play {
    pid_t pid;
    int fd;
    struct frame_reader in;
    struct buf out; /* gathered until play_send */
    uint64_t next_lease;
    struct msg_track tracks[PLAY_MAX][SETUP_MAX_STAGES]; /* of the latest leases */

    bool hello, ready, gone;
    uint32_t capacity;
    uint32_t slots, windows; /* by READY, then by TUNED */
    uint32_t tuned_count;
    float rate;
    bool measured;
    uint64_t predicted_bytes, allocated_bytes;
    char precision[16];
    uint32_t stage_count; /* by READY: */
    char why_not[SETUP_MAX_STAGES][512];
    int fatal; /* code; 0: none */
    char fatal_message[512];
    struct msg_shard_done done[PLAY_MAX];
    uint32_t done_count;
    struct msg_shard_failed failed[PLAY_MAX];
    uint32_t failed_count;
    struct msg_lease_end ends[PLAY_MAX];
    uint32_t end_count;
    struct msg_media media[PLAY_MAX];
    uint32_t media_count;
    struct msg_finalized finalized[PLAY_MAX];
    uint32_t finalized_count;
    uint32_t finalize_failed; /* messages; of the last one: */
    int finalize_code;
    char finalize_message[512];
    struct msg_heartbeat beat; /* the last one */
    uint32_t beats;
    char log[512]; /* the last line */
};

/* True when this process is a worker or a decoder: then *status is what main returns. */
bool play_dispatch(int argc, char **argv, int *status);

/* What a test may ask of a worker; zeros are the worker's own choices. */
struct play_options {
    const char *fault;
    const char *device;     /* "cpu" */
    const char *model_dir;  /* whisper-nano */
    const char *model_hash; /* the right one */
    uint32_t slots, windows, decoders;
    uint64_t pcm_bytes, memory_limit;
    uint32_t tuned_slots, tuned_windows;
    float tuned_rate;
    const char *stage, *params; /* NULL: transcription's; else model_dir is its model's */
    /* Behind the first; model_hash NULL: the right one. */
    struct msg_stage beside[SETUP_MAX_STAGES - 1];
    uint32_t beside_count;
    bool finalize; /* a finalizer instead of a worker */
    bool no_setup;
    /* A leak sanitizer starts a helper in a process that exits; when a decoder is killed while
     * it does so, the helper is an orphan that no test asked about. */
    bool no_leak_check;
};

void play_start(struct play *p, const struct play_options *o);
/* Starts, sets up and waits for READY. */
void play_ready(struct play *p, const struct play_options *o);
/* QUIT; the worker must leave with status 0. */
void play_quit(struct play *p);
/* Frees what was kept, closes the socket. */
void play_free(struct play *p);
/* The worker's wait status. */
int play_wait(struct play *p);

/* A lease of the whole recording with its true fingerprint and size, for the first stage alone;
 * change it, then give it. The strings of path are borrowed, and so are its tracks, of which there
 * is room for as many as there may be. */
struct msg_lease play_lease_of(struct play *p, const char *path, uint32_t shard_ms);
/* One more track, of the stage that follows the last one's. */
struct msg_track *play_add_track(struct msg_lease *m);
/* Puts messages behind each other; play_send lets them go in one write. */
void play_put_lease(struct play *p, const struct msg_lease *m);
void play_put_cap(struct play *p, uint64_t lease, uint32_t last);
void play_put_cancel(struct play *p, uint64_t lease);
void play_put_cancel_track(struct play *p, uint64_t lease, uint32_t track);
void play_put_finalize(struct play *p, const struct msg_finalize *m);
void play_put_voices(struct play *p, const struct result_voices *m);
void play_put_empty(struct play *p, uint8_t type);
void play_send(struct play *p);

/* Drops all results kept so far, so that a long test does not fill the arrays. */
void play_forget(struct play *p);

/* Takes one message; false when the worker has closed. */
bool play_step(struct play *p);
/* Until the lease has ended; its LEASE_END. Fails the test when the worker closes before. */
const struct msg_lease_end *play_until_end(struct play *p, uint64_t lease);
void play_until_media(struct play *p);
void play_until_busy(struct play *p); /* a heartbeat with windows in flight */
void play_until_gone(struct play *p);

/* Of a lease's first track, or of any. */
const struct msg_shard_done *play_shard(const struct play *p, uint64_t lease, uint32_t seq);
const struct msg_shard_done *play_shard_of(const struct play *p, uint64_t lease, uint32_t track,
                                           uint32_t seq);
uint32_t play_shards(const struct play *p, uint64_t lease);
uint32_t play_shards_of(const struct play *p, uint64_t lease, uint32_t track);
/* All words of a lease's shards in order; newly allocated. */
char *play_text(const struct play *p, uint64_t lease);
/* Fails unless both are the same but for the lease, the track, the time that it took, and whether
 * the recording's end had been seen. */
void play_same(const struct msg_shard_done *a, const struct msg_shard_done *b);

#endif
