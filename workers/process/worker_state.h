/* workers/process/worker_state.h - what the threads of a worker share. Internal to
 * workers/process/worker*.c.
 *
 *   control thread        decoder threads             engine thread
 *   reads the socket,     each takes one lease,       owns models and stages,
 *   accepts leases,       decodes it, deals audio     adds shards as lanes, steps,
 *   sends what is posted  out to shards               reports results
 *        |                      |                            |
 *        +---- struct worker: leases, shards, audio, under one lock ----+
 *
 * A lease lives from LEASE to LEASE_END. A shard lives from its first sample until both its decoder
 * (`fed`) and the engine (`settled`) have finished with it; then the second of the two frees it.
 *
 * Each lease is of one stage. One of SETUP's stage is decoded by a thread (its *pass*); one of a
 * companion joins such a pass before it opens its first shard, has shards and audio of its own, and
 * leaves when the pass ends, or before: at any moment, by any thread that holds the lock. So a
 * decoder thread that has waited for the lock looks again who is still there.
 *
 * Nobody holds the lock while decoding, computing, or calling the stage, so its callbacks
 * may take it. Lock order: worker.lock, then outbox.lock. */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_WORKER_STATE_H
#define NIGHTSHIFT_WORKERS_PROCESS_WORKER_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/wire/protocol.h"
#include "workers/process/worker_faults.h"
#include "workers/process/worker_outbox.h"
#include "workers/process/worker_pcm.h"

struct decoder;
struct stage_lane;
struct stage_passage;

#define WORKER_MAX_LEASES 4096u
#define WORKER_STAGES (1 + SETUP_MAX_COMPANIONS)

/* A stage of SETUP, as leases and their audio need to know it. Read only, but for `loaded`. */
struct worker_stage {
    const char *name;       /* "transcribe" where SETUP says none */
    int64_t tail;           /* samples that its windows hear beyond their shard */
    uint32_t most_shard_ms; /* a longer one's result might be more than a message can hold */
    bool loaded;            /* under the lock; a companion may be given up later */
};

struct lease {
    struct lease *next;
    struct msg_lease msg; /* msg.companion: its stage, in worker.stages */
    uint32_t last;        /* msg.last, lowered by CAP */
    bool running;         /* a decoder thread has it */
    bool opened;          /* its pass has come to its first shard: nobody joins it any more */
    /* Whom its pass feeds, by stage: [0] itself, then companions, each until it leaves. */
    struct lease *parts[WORKER_STAGES];
    uint32_t awaited;   /* leases of companions that are still to come: the pass waits for them */
    struct lease *host; /* of a companion: whose pass it is part of; NULL when it has left */
    bool cancelled;
    bool given_up;           /* DRAIN left some of its shards undone */
    bool input_over;         /* no further shard will come */
    struct decoder *decoder; /* while it may be cancelled */
    struct shard *feeding;   /* its open shard; NULL while that one is not wanted */
    uint32_t trailing;       /* shards behind their cut that still hear what follows it */
    uint32_t feeding_seq;    /* the shard that audio goes to, wanted or not */
    uint32_t unsettled;      /* shards that the engine still has */
    struct err result;       /* code 0, or why shards that were not reported have no result */
    bool reached_end, has_hash;
    int64_t total_samples;
    uint8_t content_hash[16];
    char damage[512];
};

struct shard {
    struct shard *next; /* in worker.shards, in order of creation */
    struct lease *lease;
    uint32_t seq;
    struct pcm_lane pcm;
    bool begun;    /* its first window was handed to the engine */
    bool dropped;  /* nobody wants its result any more */
    bool trailing; /* its cut is known, and it is fed the tail behind it */
    bool fed;      /* its decoder has finished with it */
    bool settled;  /* the engine has finished with it */
    struct worker *worker;
    bool text;                      /* of passages: nothing is decoded */
    struct stage_lane *lane;        /* engine thread only, as what follows */
    struct stage_passage *passages; /* owned */
    int64_t begun_ms;
};

struct worker {
    struct outbox out;
    struct faults faults; /* read only */
    struct msg_setup setup;
    struct worker_stage stages[WORKER_STAGES]; /* [0] is the run's own, then its companions */
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
    bool hung;    /* a fault: the control thread stops */
    bool stalled; /* a fault: the engine stops */
    int status;   /* the exit status, when leaving is set by another than the control thread */
    struct lease *leases; /* in order of arrival */
    uint32_t lease_count;
    struct shard *shards;
    struct pcm_pool pool;
    int64_t decoded_samples;
    int64_t engine_samples;         /* of stages[0] */
    uint64_t pulses;                /* of decoders that have nothing to give yet */
    uint64_t vram_bytes, vram_peak; /* of device memory, by the engine */
    uint32_t windows;               /* in flight, of all stages */
    bool stepping;                  /* the engine is inside a step */
    uint64_t beat, results;         /* pieces of steps done, shards reported */
    uint32_t threads;               /* alive, beside the control thread */
};

/* Wakes everybody who waits; lock held. */
void worker_changed(struct worker *w);
/* Message to post about a struct err: always valid UTF-8. The caller frees it; never NULL but for
 * lack of memory, and then it is encoded as empty. */
char *worker_sentence(const struct err *e);

#endif
