/* workers/wire/protocol.h - what scheduler and worker say to each other, as values.
 *
 *   scheduler                          worker
 *      |  <------------- HELLO --------- |   who I am, which protocol
 *      |  -------------- SETUP --------> |   model, options, limits
 *      |  <------------- READY --------- |   or FATAL; what the device is, and how it was set up
 *      |  -------------- LEASE --------> |   a run of shards of one recording (one decoding pass),
 *      |                                 |   and the stages that hear it: the lease's tracks
 *      |  <------------- MEDIA --------- |   what the decoder found (once per lease, early)
 *      |  -------------- CAP ----------> |   stop after this shard: others take the rest
 *      |  <------- SHARD_DONE/_FAILED -- |   any order, one per shard and track
 *      |  <------------- LEASE_END ----- |   nothing further will come for this lease
 *      |  <------------- HEARTBEAT ----- |   every second, from a thread that watches the others
 *      |  <------------- TUNED --------- |   the device's memory was too small: less at once
 *      |  -------- CANCEL/DRAIN/QUIT --> |
 *
 * Every message is a struct, and a table of its fields (fields.h) in protocol.c, by which it is
 * put, got and freed; get leaves *ret zeroed on failure (ERR_PROTOCOL, or ERR_NOMEM). Shards: shard
 * k of a recording is the audio between cut(k) and cut(k+1), where cut(0) = 0, and cut(k) for k > 0
 * is found near k * shard_ms by the rule of workers/audio/cut.h. Shard 0 always exists; shard k > 0
 * exists when the recording is longer than k * shard_ms, so a recording has max(1, ceil(duration /
 * shard_ms)) of them (workers/pass/split.h has it to the sample). */
#ifndef NIGHTSHIFT_WORKERS_WIRE_PROTOCOL_H
#define NIGHTSHIFT_WORKERS_WIRE_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "workers/results.h"
#include "workers/wire/fields.h"

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
    MSG_FINALIZE,
    MSG_VOICES,
    MSG_FINALIZE_GO, /* empty */
    MSG_FINALIZED,
    MSG_FINALIZE_FAILED,
};

struct msg_hello {
    uint32_t pid;
    char *device;  /* "cpu", "sim:0", later "cuda:GPU-<uuid>" */
    char *program; /* version of the program, to refuse a worker of another build */
};

#define SETUP_MAX_STAGES 8u

/* One stage with all that its results depend on. */
struct msg_stage {
    char *name; /* "transcribe", "diarize", "sounds", "embed-text", "embed-audio": what is done */
    char *model_dir;
    char *model_hash;  /* hex; the worker compares: ERR_MODEL when it differs */
    char *params_json; /* the stage's parameters as stored in the catalog (transcribe.h) */
    float tuned_rate;  /* as msg_setup's, of a stage beside the first; 0: measure it */
};

#define SETUP_CACHE_MOST 2u          /* of `cache` */
#define SETUP_ALGORITHMS_MAX 131072u /* bytes */

struct msg_setup {
    /* The first is the worker's own stage. The others hear the same decoding passes, where there is
     * room for them: see LEASE. */
    uint32_t stage_count; /* at least 1 */
    struct msg_stage *stages;
    char *precision;       /* "auto", "fp32", "bf16", ... (gpu/precision.h) */
    uint32_t cache;        /* enum cache_precision (gpu/precision.h), of transcriptions */
    uint32_t slots;        /* windows of the first stage in flight; 0: the worker chooses */
    uint32_t decoders;     /* decoder processes at once; 0: the worker chooses */
    uint32_t threads;      /* compute threads; 0: all */
    uint32_t workers;      /* of this run, which share the machine's memory; 0: this one alone */
    uint64_t pcm_bytes;    /* bound on decoded audio held in memory; 0: the worker chooses */
    uint32_t windows;      /* that the encoder takes at once; 0: the worker chooses */
    uint64_t memory_limit; /* bytes of the device's memory, at most; 0: no cap */
    bool deterministic;    /* results must not depend on the rest of a batch */
    /* An earlier run's measurement for this device, driver, model and precision, used instead of
     * measuring again if the worker may choose. 0: none. */
    uint32_t tuned_slots, tuned_windows;
    float tuned_rate; /* times real time; 0: unknown */
    /* Algorithms from READY of an earlier worker with this device. Need not be trusted. 0 bytes:
     * none. */
    void *algorithms;
    size_t algorithms_bytes;
};

struct msg_ready {
    uint32_t capacity; /* shards that keep the device busy: the scheduler leases at least as many */
    char *description; /* for people: "cpu, 2 threads, bf16, 8 slots" */
    char *device;      /* "NVIDIA H200", for people */
    char *precision;   /* what AUTO became */
    uint32_t slots, windows;  /* in use */
    uint64_t predicted_bytes; /* of device memory, before anything was allocated; 0: unknown */
    uint64_t allocated_bytes; /* now */
    float rate;               /* times real time, as measured or remembered; 0: neither */
    bool measured;            /* by this worker, just now: worth remembering */
    void *algorithms;         /* of backend.h's `recall`; 0 bytes: none, or what SETUP had */
    size_t algorithms_bytes;
    /* One for each stage of SETUP, in its order: "" if it is loaded, as the first is, else why not.
     * A stage that is not loaded costs only a decoding pass of its own later. */
    uint32_t stage_count; /* at least 1 */
    char **why_not;       /* owned, with its strings */
    /* Times real time of each stage beside the first alone on the device, as measured just now; 0:
     * it was not. None, or as many as there are such stages. */
    uint32_t rate_count;
    float *rates; /* owned */
};

struct msg_fatal { /* the worker leaves after it */
    int32_t code;
    char *message;
};

#define LEASE_SHARD_MS_MIN 1000u
#define LEASE_SHARD_MS_MAX 86400000u

/* One stage's work in a lease. */
struct msg_track {
    uint32_t stage;      /* of SETUP; a track is named by it */
    char *language;      /* "" = detect */
    uint32_t skip_count; /* shards of the lease that are done already */
    uint32_t *skip;      /* ascending */
    /* Transcriptions with times of words: shards whose text is there, of the lease, ascending. It
     * is not decoded again, but gets its times. */
    uint32_t known_text_count;
    struct result_known_text *known_text;
};

struct msg_lease {
    uint64_t lease_id;
    int64_t media_id;
    char *path;   /* raw bytes, absolute */
    char *member; /* raw bytes inside the archive, "" for a plain file; "a.zip\0"-less nesting is
                     written "inner.zip//name" */
    uint32_t nth; /* which of the members of that name, 0 ... */
    uint64_t size_bytes;     /* of the recording itself, as enqueued */
    uint8_t fingerprint[16]; /* the worker compares before decoding: ERR_CHANGED */
    bool want_hash;          /* send content_hash in LEASE_END if the whole was read */
    uint32_t shard_ms;       /* nominal length */
    uint32_t first;          /* first shard of the run */
    uint32_t last;           /* last shard; UINT32_MAX: to the recording's end */
    /* Tracks by ascending stage; the first is of stage 0. The others are extras: whatever they do
     * not finish is left to a later lease of their own stage. */
    uint32_t track_count; /* at least 1; 1 where there are passages */
    struct msg_track *tracks;
    /* Stages that work on a text (embed-text): nothing is decoded, the lease is its only shard, and
     * LEASE_END says reached_end with `total_ms` as it is here. */
    int64_t total_ms;
    uint32_t passage_count;
    const struct result_passage *passages; /* NULL when there are none */
};

struct msg_cap { /* lowers `last` of a lease; the worker ignores it when it is already past */
    uint64_t lease_id;
    uint32_t last;
};

/* Cancels a track. The first one cancels the whole lease, and LEASE_END with ERR_CANCELLED follows.
 * Without another one the lease goes on. */
struct msg_cancel {
    uint64_t lease_id;
    uint32_t track;
};

struct msg_media {
    uint64_t lease_id;
    int64_t media_id;
    int64_t duration_ms; /* the container's word; -1 unknown; LEASE_END has the truth */
    uint32_t sample_rate_hz;
    uint32_t channels;
    uint32_t audio_tracks; /* 0: unknown, or none */
    bool no_sound;         /* it is none */
    char *left_out;        /* the tracks and channels that are not heard, for people; "" none */
    char *mix_left_out;    /* by a stage that hears the mix */
    char *container;
    char *codec;
    const struct result_source *sources; /* as of struct decoder_info */
    uint32_t source_count;
    const struct result_tag *tags; /* the title is among them */
    uint32_t tag_count;
};

/* Which of the last parts is there depends on the stage; the others are empty. */
struct msg_shard_done {
    uint64_t lease_id;
    int64_t media_id;
    uint32_t track;
    uint32_t seq;
    int64_t start_ms, end_ms; /* the cuts */
    char *language;           /* "" when nobody spoke */
    float language_prob;
    uint32_t windows;
    uint32_t wall_ms;
    /* How many shards the recording has, where its end was seen by now, and its true duration; 0:
     * not yet. So the scheduler knows that a track is done before the lease's other tracks are. */
    uint32_t shards;
    int64_t total_ms;
    struct result_account account;
    uint32_t segment_count;
    struct result_segment *segments;
    uint32_t sound_count;
    struct result_sound *sounds;
    uint32_t vector_count, vector_size;
    struct result_vector *vectors;
    struct result_voices voices;
};

struct msg_shard_failed {
    uint64_t lease_id;
    int64_t media_id;
    uint32_t track;
    uint32_t seq;
    int32_t code;
    char *message;
};

struct msg_lease_end {
    uint64_t lease_id;
    int64_t media_id;
    int32_t code; /* 0, or why shards of the first track that were not reported have no result */
    char *message;
    bool reached_end; /* the recording was decoded to its end: */
    int64_t total_ms; /*   its true duration, and */
    uint32_t shards;  /*   how many shards it has (at least 1) */
    bool has_hash;
    uint8_t content_hash[16]; /* XXH3-128 (canonical, big-endian) of the whole file or member */
    char *damage; /* "" or what is wrong with a recording that gave results all the same */
    char *clock;  /* "" or where the clock of its container jumps */
    /* With reached_end, of the whole recording: a pass decodes it from its beginning. */
    const struct result_channel *channels;
    uint32_t channel_count;
};

struct msg_heartbeat {
    uint64_t audio_ms;    /* that the first stage has done since READY */
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

/* ----------------------------------------------------------------------------------- finalizing
 *
 * Results that need the whole recording are computed when all of its shards are done, on the
 * processor, in a process of its own (`nightshift finalize`, one recording at a time, on a socket
 * pair):
 *
 *   scheduler                          finalizer
 *      |  <------------- HELLO --------- |
 *      |  ------------- FINALIZE ------> |   which task, and its stage's parameters
 *      |  -------------- VOICES -------> |   for each shard, ascending
 *      |  ----------- FINALIZE_GO -----> |   empty: that was all
 *      |  <- FINALIZED/FINALIZE_FAILED - |
 *      |  -------------- QUIT ---------> |   or the next FINALIZE
 *
 * A finalizer that dies costs an attempt of its task. */
struct msg_finalize {
    int64_t task_id;
    char *model_dir; /* with the PLDA's transforms, where the clustering needs them */
    char *model_hash;
    char *params_json; /* diarize's */
    int64_t total_ms;  /* of the recording */
    bool apart;        /* local speakers are the recording's sources: nothing is clustered */
    uint32_t threads;  /* 0: all; what comes of it is the same */
};

struct msg_finalized {
    int64_t task_id;
    struct result_people people;
    uint32_t wall_ms;
};

struct msg_finalize_failed {
    int64_t task_id;
    int32_t code;
    char *message;
};

#define msg_voices result_voices /* VOICES holds nothing else */

/* The table of a type of message; NULL where there is nothing in it, or no such type. */
const struct fields *msg_fields(uint8_t type);

#define MSG_CODEC(name, type)                                  \
    FIELDS_PUT(msg_##name##_put, msg_##name, msg_fields(type)) \
    FIELDS_GET(msg_##name##_get, msg_##name, msg_fields(type)) \
    FIELDS_FREE(msg_##name##_free, msg_##name, msg_fields(type))
MSG_CODEC(hello, MSG_HELLO)
MSG_CODEC(setup, MSG_SETUP)
MSG_CODEC(ready, MSG_READY)
MSG_CODEC(fatal, MSG_FATAL)
MSG_CODEC(lease, MSG_LEASE)
MSG_CODEC(cap, MSG_CAP)
MSG_CODEC(cancel, MSG_CANCEL)
MSG_CODEC(media, MSG_MEDIA)
MSG_CODEC(shard_done, MSG_SHARD_DONE)
MSG_CODEC(shard_failed, MSG_SHARD_FAILED)
MSG_CODEC(lease_end, MSG_LEASE_END)
MSG_CODEC(heartbeat, MSG_HEARTBEAT)
MSG_CODEC(log, MSG_LOG)
MSG_CODEC(tuned, MSG_TUNED)
MSG_CODEC(voices, MSG_VOICES)
MSG_CODEC(finalize, MSG_FINALIZE)
MSG_CODEC(finalized, MSG_FINALIZED)
MSG_CODEC(finalize_failed, MSG_FINALIZE_FAILED)
#undef MSG_CODEC

#endif
