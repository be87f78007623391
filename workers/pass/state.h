/* workers/pass/state.h - what the threads of a worker share. Internal to
 * workers/pass/ and workers/process/.
 *
 *   control thread        decoder threads             engine threads
 *   reads the socket,     each takes one lease,       each has some of the stages,
 *   accepts leases,       decodes it, deals audio     adds their shards as lanes, steps,
 *   sends what is posted  out to shards               reports results
 *        |                      |                            |
 *        +---- struct worker: leases, shards, audio, under one lock ----+
 *
 * A lease lives from LEASE to LEASE_END. A shard lives from its first sample until both its decoder
 * (`fed`) and the engine (`finished`) have finished with it; then the second of the two frees it.
 * Only the engine thread that has its stage adds it, removes it and finishes it.
 *
 * A lease is decoded once, by a thread (its *pass*), for all stages that it names: its *tracks*,
 * each with shards and audio of its own. The pass is made for the first. Another is dropped when it
 * fails, or when nobody wants it: at any moment, by any thread that holds the lock. So a decoder
 * thread that has waited for the lock checks again which tracks still listen.
 *
 * Nobody holds the lock while decoding, computing, or calling the stage, so its callbacks
 * may take it. Lock order: worker.lock, then outbox.lock. */
#ifndef NIGHTSHIFT_WORKERS_PASS_STATE_H
#define NIGHTSHIFT_WORKERS_PASS_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "workers/audio/hearing.h"
#include "workers/wire/protocol.h"
#include "workers/pass/faults.h"
#include "workers/pass/pcm.h"

struct decoder;
struct stage_lane;
struct unpacking;

#define WORKER_MAX_LEASES 4096u
#define SHARD_PARTS_MAX RESULT_SOURCES_MAX

/* The frames on their way to the scheduler. Any thread posts, the control thread sends: a scheduler
 * that is busy never stops the engine. No bound of its own: the scheduler's leases bound the
 * messages. Its lock is the innermost one. */
struct outbox {
    pthread_mutex_t lock;
    struct buf bytes;
    int wake_fd;     /* readable when something was posted */
    bool broken;     /* a frame was lost for lack of memory: the worker must leave */
    uint64_t shards; /* results posted so far */
};

int outbox_open(struct outbox *o, struct err *err);
void outbox_close(struct outbox *o);

/* Posts payload as one frame and frees it. */
void outbox_post(struct outbox *o, uint8_t type, struct buf *payload);
void outbox_wake(struct outbox *o);

/* Sends what the socket takes without waiting. 0; ERR_IO: the scheduler is gone; ERR_NOMEM: broken.
 * *left: bytes that still wait; *shards: results posted, all of them sent when *left is 0. */
int outbox_flush(struct outbox *o, int fd, size_t *left, uint64_t *shards, struct err *err);

/* A stage of SETUP, as leases and their audio need to know it. Read only, but for `loaded`. */
struct worker_stage {
    const char *name;       /* the first of stage_kinds where SETUP says none */
    int64_t tail;           /* samples that its windows hear beyond their shard */
    uint32_t most_shard_ms; /* a longer one's result might be more than a message can hold */
    bool apart; /* hears each source by itself, where there are several; else their mix */
    struct hearing hearing; /* of a recording; of all that listen to one pass the same */
    bool loaded;            /* under the lock; another than the first may be given up later */
};

struct track {
    uint32_t stage;              /* in worker.stages, and its place in lease.tracks */
    const struct msg_track *msg; /* in the lease's */
    bool listens;                /* until it is dropped */
    struct shard *feeding;       /* its open shard; NULL while that one is not wanted */
    uint32_t trailing;           /* shards behind their cut that still hear what follows it */
};

/* The source of a lease's bytes: unpack.h. */
enum lease_from { LEASE_UNSEEN, LEASE_FILE, LEASE_AWAITED, LEASE_MEMORY, LEASE_ABSENT };

struct lease {
    struct lease *next;
    struct msg_lease msg;
    uint32_t last;                         /* msg.last, lowered by CAP */
    struct track tracks[SETUP_MAX_STAGES]; /* by stage; zeros where it is not one of the lease's */
    bool running;                          /* a decoder thread has it */
    bool cancelled;
    bool given_up;           /* DRAIN left some of its first track's shards undone */
    bool input_over;         /* no further shard will come */
    struct decoder *decoder; /* while it may be cancelled */
    enum lease_from from;
    uint32_t readings;       /* of its archive, begun while it is AWAITED */
    int unpacked;            /* MEMORY: a file of the member alone */
    uint64_t unpacked_bytes; /* its size */
    uint32_t feeding_seq;    /* the shard that audio goes to, wanted or not */
    uint32_t unfinished;     /* shards that the engine still has, of all tracks */
    struct err result;       /* of the first track: code 0, or why there are shards without one */
    uint32_t sources;        /* of the recording, as its decoder says before any audio; 0: one */
    bool reached_end, has_hash;
    int64_t total_samples; /* as its decoder announces; for certain with reached_end */
    int64_t length;        /* with its pictures, where they go on; else 0 */
    uint8_t content_hash[16];
    char damage[512], clock[256];    /* what its decoder says at the end, */
    struct result_channel *channels; /*   of each channel, too; owned */
    uint32_t channel_count;
};

/* The part of a shard that one of the stage's lanes hears. */
struct shard_part {
    struct shard *shard;
    uint32_t source;         /* 0: the mix */
    struct stage_lane *lane; /* its engine thread's, as what follows; NULL once it has ended */
    bool added, ended;
    int64_t released;            /* audio before it may go */
    struct msg_shard_done *kept; /* its result, until the others have theirs; owned */
};

struct shard {
    struct shard *next; /* in worker.shards, in order of creation */
    struct lease *lease;
    struct track *track; /* of the lease */
    uint32_t seq;
    struct pcm_lane pcm;
    bool begun;    /* its first window was handed to the engine */
    bool dropped;  /* nobody wants its result any more */
    bool trailing; /* its cut is known, and it is fed the tail behind it */
    bool fed;      /* its decoder has finished with it */
    bool finished; /* the engine has finished with it */
    struct worker *worker;
    bool text; /* of passages: nothing is decoded */
    struct shard_part parts[SHARD_PARTS_MAX];
    uint32_t part_count; /* 1 at least */
    int64_t begun_ms;    /* its engine thread's */
};

/* What is told of an engine thread. */
struct engine_pulse {
    uint32_t windows;    /* in flight */
    bool stepping;       /* it is inside a step */
    uint64_t beat, told; /* pieces of steps done, now and when worker.beat went up last */
};

struct worker {
    struct outbox out;
    struct faults faults; /* read only */
    struct msg_setup setup;
    struct worker_stage stages[SETUP_MAX_STAGES]; /* as setup's */
    uint32_t stage_count;
    char device[64];

    pthread_mutex_t lock; /* all that follows */
    pthread_cond_t work;  /* for the engine: `changes` went up */
    pthread_cond_t
        room; /* for decoder threads: a lease, room for audio, or something to stop for */
    pthread_cond_t over; /* a thread has ended */
    uint64_t changes;
    bool ready;   /* the model is loaded: leases may begin */
    bool leaving; /* every thread ends as soon as it sees this */
    bool draining;
    bool hung;            /* a fault: the control thread stops */
    bool stalled;         /* a fault: the engine stops */
    int failed;           /* the engine's error, when it is why `leaving` is set; else 0 */
    struct lease *leases; /* in order of arrival */
    uint32_t lease_count;
    struct shard *shards;
    uint32_t slots; /* of the first stage's engine, once it is ready */
    struct pcm_pool pool;
    struct unpacking *unpackings; /* readings of archives, owned */
    uint64_t unpacked_bytes;      /* of their members that are kept, or on the way */
    uint32_t unpacked_count;
    uint64_t unpacked_most;
    char *vain; /* an archive in which a recording was looked for in vain; owned */
    struct stat vain_file;
    int64_t decoded_samples;
    int64_t engine_samples;                       /* of the first stage */
    uint64_t pulses;                              /* of decoders that have nothing to give yet */
    uint64_t vram_bytes, vram_peak;               /* of device memory, by the engine */
    struct engine_pulse engine[SETUP_MAX_STAGES]; /* by thread; zeros of those that there are not */
    uint64_t beat;    /* goes up while every engine thread that steps gets on */
    uint64_t results; /* shards reported */
    uint32_t threads; /* alive, beside the control thread; of the engine one */
};

/* Wakes everybody who waits; lock held. */
void worker_changed(struct worker *w);
/* Message to post about a struct err: always valid UTF-8. The caller frees it; never NULL but for
 * lack of memory, and then it is encoded as empty. */
char *worker_sentence(const struct err *e);
void worker_post_fatal(struct worker *w, const struct err *why); /* FATAL */

#endif
