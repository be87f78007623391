/* scheduler/run/options.h - what is asked of a run, and what came of it. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_OPTIONS_H
#define NIGHTSHIFT_SCHEDULER_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/devices/devices.h"
#include "gpu/precision.h"
#include "scheduler/plan/rest.h"

#define SCHEDULER_SHARD_MS 300000u /* nominal, where a catalog keeps no other */

/* Tests set other time limits, and another program as the worker. 0 and NULL: the default. */
struct scheduler_tuning {
    const char *worker_program; /* instead of /proc/self/exe */
    uint32_t hello_ms;          /* 30000: to say who it is */
    uint32_t ready_ms;          /* 1800000: to load the model */
    uint32_t still_ms;          /* 600000: work in hand, and nothing of it moves; also the most that
                                   a finalizer may take, and a twentieth of the recording beside */
    uint32_t retry_base_ms;     /* 5000: of a recording that failed */
    uint32_t restart_base_ms;   /* 1000: of a worker that died */
    uint32_t quarantine_ms;     /* 600000: until a device that was quarantined is tried again */
    uint32_t commit_ms;         /* 500: results are grouped for so long, many for twice */
    uint32_t full_retry_ms;     /* 3000: between tries while the catalog cannot be written */
    uint32_t full_give_up_ms;   /* 60000 */
    uint32_t busy_ms;           /* 1000: the loop is held so long by somebody else's transaction */
    uint32_t request_ms;        /* 20000: for a command at the socket to ask, or take its answer */
    uint32_t line_ms;           /* 30000: between lines of the log that say how far it is */
    uint32_t room_ms;           /* 5000: between looks at the catalog's log */
    uint64_t log_bytes;         /* 64 MiB: a log beyond this is held by somebody */
    uint64_t free_bytes;        /* 256 MiB: with less room beside such a log nothing new is begun */
    uint64_t full_bytes;    /* 256 MiB, and a twentieth of the disk at most: with less room nothing
                               new is begun */
    uint64_t kept_bytes;    /* 256 MiB: results in memory that cannot be written */
    uint64_t queued_bytes;  /* 8 MiB: a recording's voices on their way to its finalizer */
    hours_zone zone;        /* clock_zone_s: of scheduler_options.hours */
    struct idle_times idle; /* IDLE_BUSY_MS, ...: of scheduler_options.idle */
    uint32_t sample_ms;     /* 2000: between looks at GPUs */
    uint32_t sample_still_ms; /* 30000: one that takes so long will not end */
    uint32_t sample_again_ms; /* 60000: then another begins */
};

/* A stage's properties that are not in its row, because a run does not read parameters. */
#define SCHEDULER_DECODING_LEN 64
struct scheduler_stage { /* all zero: it hears recordings, and its shards are all there is to it */
    /* Special demands on a device, in a few words: measurements hold only for the same demands. ""
     * if there are none. */
    char decoding[SCHEDULER_DECODING_LEN];
    /* Over 0: nothing is decoded. It works on passages of a transcription of about so many
     * characters (store_passages). */
    uint32_t passage_chars;
    bool finalizes;         /* its recordings are finalized as a whole in the end */
    uint32_t most_shard_ms; /* of a shard whose result fits into a message; 0: any does */
    /* The same where it hears sources by themselves, if it heard the mix: --channels=mix, and one
     * track. */
    uint32_t mixed_most_shard_ms;
};
/* *ret is all zero before. */
typedef void (*scheduler_stage_fn)(const char *name, const char *params_json,
                                   struct scheduler_stage *ret);

/* Returns the parameters of the other stage whose text this one may reuse, so that only the times
 * of words are missing; for free(). NULL: it reuses nothing. */
typedef char *(*scheduler_text_fn)(const char *name, const char *params_json);

struct scheduler_options {
    const char *catalog;
    const char *devices;      /* as devices_pick takes it: "auto", "cpu,cpu", "cuda:0,cuda:2" */
    enum allow_cpu allow_cpu; /* when "auto" finds no GPU that can be used */
    const char *precision;    /* as precision_parse takes it */
    enum cache_precision cache;
    uint32_t slots, decoders, threads; /* per worker; 0: chosen */
    uint32_t windows;                  /* that the encoder takes at once; 0: chosen */
    const char *device_memory;         /* as devices_cap takes it; NULL: no cap */
    bool deterministic; /* results do not depend on what shared a batch; the host's never do */
    uint32_t shard_ms;  /* nominal; 0: the catalog's, at first 300000 */
    uint32_t attempts;  /* of one task before it is quarantined; 0: 3 */
    uint32_t worker_silence_ms; /* 0: 30000 */
    bool stage_by_stage;        /* no stage listens to what is decoded for another */
    bool watch;                 /* stay and wait for more to be enqueued */
    bool early_signal;          /* SIGUSR1 drains it, as SIGTERM does; the caller blocks both */
    const char *metrics;        /* a file for Prometheus; NULL: none */
    struct hours hours;         /* when it works; local time */
    bool idle;                  /* GPUs that others use are left to them (plan/rest.h) */
    const char *unguarded; /* what the decoders' sandbox lacks here: said, and kept as an event,
                              when the run begins; NULL or "": nothing */
    bool progress;    /* a line that is redrawn on standard error (a terminal); else log lines */
    bool json_events; /* progress as JSON lines on standard output */
    scheduler_stage_fn stage;              /* NULL: nothing is to be known of any */
    scheduler_text_fn text_of;             /* NULL: all is heard */
    const struct scheduler_tuning *tuning; /* NULL: the defaults */
};

struct scheduler_result {
    uint64_t tasks_done, tasks_failed, tasks_left;
    /* Recordings: done as a whole by this run; with a task that was given up in it; with something
     * that is still to be done. */
    uint64_t recordings_done, recordings_failed, recordings_left;
    int64_t audio_ms;     /* heard in this run, of every recording once */
    int64_t work_ms;      /* so long any device had work: without rests, loading and measuring */
    const char *why;      /* it ended, as in store_run; static. NULL: it never began */
    bool timed_out;       /* its hours were over (hours.until) */
    bool interrupted;     /* by SIGINT, SIGTERM or a disk that is full */
    bool stages_disabled; /* the error is of a stage that was disabled: all the others are done */
};

#endif
