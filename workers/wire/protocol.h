/* workers/wire/protocol.h - what scheduler and worker say to each other, as values.
 *
 *   scheduler                          worker
 *      |  <------------- HELLO --------- |   who I am, which protocol
 *      |  -------------- SETUP --------> |   model, options, limits
 *      |  <------------- READY --------- |   or FATAL; what the device is, and how it was set up
 *      |  -------------- LEASE --------> |   a run of shards of one recording (one decoding pass)
 *      |  <------------- MEDIA --------- |   what the decoder found (once per lease, early)
 *      |  -------------- CAP ----------> |   stop after this shard: others take the rest
 *      |  <------- SHARD_DONE/_FAILED -- |   any order, one per shard
 *      |  <------------- LEASE_END ----- |   nothing further will come for this lease
 *      |  <------------- HEARTBEAT ----- |   every second, from a thread that watches the others
 *      |  <------------- TUNED --------- |   the device's memory was too small: less at once
 *      |  -------- CANCEL/DRAIN/QUIT --> |
 *
 * Every message is a struct with put/get; get checks all lengths and ranges, and leaves *ret zeroed
 * on failure (ERR_PROTOCOL, or ERR_NOMEM). Strings and arrays of a decoded message are owned by it:
 * free with its _free. Shards: shard k of a recording is the audio between cut(k) and cut(k+1),
 * where cut(0) = 0, and cut(k) for k > 0 is found near k * shard_ms by the rule of
 * workers/audio/cut.h. Shard 0 always exists; shard k > 0 exists when the recording is longer than
 * k * shard_ms, so a recording has max(1, ceil(duration / shard_ms)) of them
 * (workers/process/worker_split.h has it to the sample). */
#ifndef NIGHTSHIFT_WORKERS_WIRE_PROTOCOL_H
#define NIGHTSHIFT_WORKERS_WIRE_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "workers/results.h"

#define PROTOCOL_MAX_MS (INT64_C(1) << 52) /* of every time and duration */

enum msg_type {
    MSG_HELLO = 1,
    MSG_SETUP,
    MSG_READY,
    MSG_FATAL,
    MSG_LEASE,
    MSG_CAP,
    MSG_CANCEL,
    MSG_DRAIN, /* empty: finish the shards that have begun, end their leases, take no more */
    MSG_QUIT,  /* empty: leave now */
    MSG_MEDIA,
    MSG_SHARD_DONE,
    MSG_SHARD_FAILED,
    MSG_LEASE_END,
    MSG_HEARTBEAT,
    MSG_LOG,
    MSG_TUNED,
    MSG_SETTLE,
    MSG_VOICES,
    MSG_SETTLE_GO, /* empty */
    MSG_SETTLED,
    MSG_SETTLE_FAILED,
};

struct msg_hello {
    uint32_t pid;
    char *device;  /* "cpu", "sim:0", later "cuda:GPU-<uuid>" */
    char *program; /* version of the program, to refuse a worker of another build */
};

/* A stage that listens to the same decoding passes beside the one that SETUP is about. */
struct msg_companion {
    char *stage; /* as below; one that hears */
    char *model_dir;
    char *model_hash;
    char *params_json;
};

#define SETUP_MAX_COMPANIONS 7u

/* One stage with all that its results depend on. */
struct msg_setup {
    char *stage; /* "transcribe", "diarize", "sounds", "embed-text", "embed-audio": what is done */
    char *model_dir;
    char *model_hash;     /* hex; the worker compares: ERR_MODEL when it differs */
    char *precision;      /* "auto", "fp32", "bf16", ... (gpu/precision.h) */
    char *params_json;    /* the stage's parameters as stored in the catalog (transcribe.h) */
    uint32_t slots;       /* windows in flight; 0: the worker chooses */
    uint32_t decoders;    /* decoder processes at once; 0: the worker chooses */
    uint32_t threads;     /* compute threads; 0: all */
    uint64_t pcm_bytes;   /* bound on decoded audio held in memory; 0: the worker chooses */
    uint32_t windows;     /* that the encoder takes at once; 0: the worker chooses */
    uint64_t vram_budget; /* bytes of device memory; 0: the worker's share of what is free */
    bool deterministic;   /* results must not depend on what shared a batch */
    /* What an earlier run measured for this device, driver, model and precision: taken where the
     * worker would choose, instead of measuring again. 0: nothing is remembered. */
    uint32_t tuned_slots, tuned_windows;
    float tuned_rate; /* times real time; 0: unknown */
    /* Stages to be loaded beside it where there is room: see LEASE. */
    uint32_t companion_count;
    struct msg_companion *companions; /* NULL when there are none */
};

struct msg_ready {
    uint32_t capacity; /* shards that keep the device busy: the scheduler leases at least so many */
    char *description; /* for people: "cpu, 2 threads, bf16, 8 slots" */
    char *device;      /* "NVIDIA H200", for people */
    char *device_id;   /* its UUID, "cpu", "sim:24GiB": what measurements are remembered by, */
    char *driver;      /*   with this ("" where there is none) */
    char *precision;   /*   and this: what AUTO became */
    uint32_t slots, windows;  /* in use */
    uint64_t predicted_bytes; /* of device memory, before anything was allocated; 0: unknown */
    uint64_t allocated_bytes; /* now */
    float rate;               /* times real time, as measured or remembered; 0: neither */
    bool measured;            /* by this worker, just now: worth remembering */
    /* For each companion of SETUP, in its order: "" when it is loaded, else why it is not. It costs
     * nothing but another decoding pass in another run of its own. */
    uint32_t companion_count;
    char **companions; /* owned, with its strings; NULL when there are none */
};

struct msg_fatal { /* the worker leaves after it */
    int32_t code;
    char *message;
};

#define LEASE_SHARD_MS_MIN 1000u
#define LEASE_SHARD_MS_MAX 86400000u

struct msg_lease {
    uint64_t lease_id;
    int64_t media_id;
    /* 0: SETUP's stage. k: its companions[k - 1], which takes part in the decoding pass of the
     * lease `with`: of the same recording, with the same shard_ms, first and last, sent after it.
     * That one says in `companions` how many will come, whatever becomes of them: its pass begins
     * when they have, and cannot be missed. Nothing is decoded for a companion's lease alone: a CAP
     * of the other caps it too, and what ends the other's pass ends it (LEASE_END with
     * ERR_CANCELLED for shards that it had no audio for). */
    uint32_t companion;
    uint64_t with;
    uint32_t companions; /* 0 where companion is not 0 */
    char *path;          /* raw bytes, absolute */
    char *member; /* raw bytes inside the archive, "" for a plain file; "a.zip\0"-less nesting is
                     written "inner.zip//name" */
    uint32_t nth; /* which of the members of that name, 0 ... */
    uint64_t size_bytes;     /* of the recording itself, as enqueued */
    uint8_t fingerprint[16]; /* the worker compares before decoding: ERR_CHANGED */
    bool want_hash;          /* send content_hash in LEASE_END if the whole was read */
    char *language;          /* "" = detect */
    uint32_t shard_ms;       /* nominal length */
    uint32_t first;          /* first shard of the run */
    uint32_t last;           /* last shard; UINT32_MAX: to the recording's end */
    uint32_t skip_count;     /* shards inside the run that are done already */
    uint32_t *skip;          /* ascending */
    /* Stages that work on a text (embed-text): nothing is decoded, the lease is its only shard, and
     * LEASE_END says reached_end with `total_ms` as it is here. */
    int64_t total_ms;
    uint32_t passage_count;
    struct msg_passage *passages; /* NULL when there are none */
};

struct msg_passage {
    int64_t start_ms, end_ms;
    char *text; /* valid UTF-8 */
};

struct msg_cap { /* lowers `last` of a lease; the worker ignores it when it is already past */
    uint64_t lease_id;
    uint32_t last;
};

struct msg_cancel { /* LEASE_END with ERR_CANCELLED follows */
    uint64_t lease_id;
};

struct msg_media {
    uint64_t lease_id;
    int64_t media_id;
    int64_t duration_ms; /* the container's word; -1 unknown; LEASE_END has the truth */
    uint32_t sample_rate_hz;
    uint32_t channels;
    char *container;
    char *codec;
    char *title; /* from the tags; "" */
};

/* Which of the last parts is there depends on the stage; the others are empty. */
struct msg_shard_done {
    uint64_t lease_id;
    int64_t media_id;
    uint32_t seq;
    int64_t start_ms, end_ms; /* the cuts */
    char *language;           /* "" when nobody spoke */
    float language_prob;
    uint32_t windows;
    uint32_t wall_ms;
    uint32_t segment_count;
    struct result_segment *segments;
    uint32_t sound_count;
    struct result_sound *sounds;
    uint32_t vector_count, vector_size;
    struct result_vector *vectors; /* their values are one block, owned by the first */
    struct result_voices voices;
};

struct msg_shard_failed {
    uint64_t lease_id;
    int64_t media_id;
    uint32_t seq;
    int32_t code;
    char *message;
};

struct msg_lease_end {
    uint64_t lease_id;
    int64_t media_id;
    int32_t code; /* 0, or why the shards of the lease that were not reported have no result */
    char *message;
    bool reached_end; /* the recording was decoded to its end: */
    int64_t total_ms; /*   its true duration, and */
    uint32_t shards;  /*   how many shards it has (at least 1) */
    bool has_hash;
    uint8_t content_hash[16]; /* XXH3-128 (canonical, big-endian) of the whole file or member */
    char *damage; /* "" or what is wrong with a recording that gave results all the same */
};

struct msg_heartbeat {
    uint64_t audio_ms;    /* transcribed since READY */
    uint64_t decoded_ms;  /* decoded since READY, and one more for each sign of life of a decoder
                             that  has nothing to give yet: it stands still when no decoder works */
    uint32_t leases;      /* held */
    uint32_t windows;     /* in flight now */
    uint64_t rss_bytes;   /* of the worker itself */
    uint64_t engine_beat; /* goes up while the engine works: at the latest after each window that is
                             encoded and each step of the decoder */
    uint64_t vram_bytes;  /* device memory that the engine holds now, */
    uint64_t vram_peak;   /*   and the most since it began */
};

/* After an allocation failed the worker takes less at once and goes on; nothing in flight was lost.
 */
struct msg_tuned {
    uint32_t slots, windows; /* from now on */
    char *reason;            /* what failed, for people */
};

struct msg_log {
    uint8_t level; /* enum log_level */
    char *line;
};

/* ----------------------------------------------------------------------------------- settling
 *
 * What needs a recording as a whole is computed when all of its shards are done, on the processor,
 * in a process of its own (`nightshift settle`, one recording at a time, on a socket pair):
 *
 *   scheduler                          settler
 *      |  <------------- HELLO --------- |
 *      |  -------------- SETTLE -------> |   which task, and its stage's parameters
 *      |  -------------- VOICES -------> |   for each shard, ascending
 *      |  -------------- SETTLE_GO ----> |   empty: that was all
 *      |  <--- SETTLED/SETTLE_FAILED --- |
 *      |  -------------- QUIT ---------> |   or the next SETTLE
 *
 * A settler that dies costs an attempt of its task. */
struct msg_settle {
    int64_t task_id;
    char *model_dir; /* with the PLDA's transforms, where the clustering needs them */
    char *model_hash;
    char *params_json; /* diarize's */
    int64_t total_ms;  /* of the recording */
};

struct msg_speaker {
    int64_t speech_ms;
    float *values; /* [size], of length 1; NULL: the voice was never heard clearly enough */
};

struct msg_settled {
    int64_t task_id;
    uint32_t size, speaker_count, turn_count;
    struct msg_speaker *speakers; /* their values are one block, owned by the first that has one */
    struct result_turn *turns;    /* ascending start */
    uint32_t wall_ms;
};

struct msg_settle_failed {
    int64_t task_id;
    int32_t code;
    char *message;
};

#define msg_voices result_voices /* VOICES holds nothing else */

#define MSG_CODEC(name)                                                           \
    void msg_##name##_put(struct buf *out, const struct msg_##name *m);           \
    int msg_##name##_get(const uint8_t *data, size_t len, struct msg_##name *ret, \
                         struct err *err);                                        \
    void msg_##name##_free(struct msg_##name *m)
MSG_CODEC(hello);
MSG_CODEC(setup);
MSG_CODEC(ready);
MSG_CODEC(fatal);
MSG_CODEC(lease);
MSG_CODEC(cap);
MSG_CODEC(cancel);
MSG_CODEC(media);
MSG_CODEC(shard_done);
MSG_CODEC(shard_failed);
MSG_CODEC(lease_end);
MSG_CODEC(heartbeat);
MSG_CODEC(log);
MSG_CODEC(tuned);
MSG_CODEC(voices);
MSG_CODEC(settle);
MSG_CODEC(settled);
MSG_CODEC(settle_failed);
#undef MSG_CODEC

#endif
