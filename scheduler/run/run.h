/* scheduler/run/run.h - one run, seen by the files that make it up. Internal to scheduler/.
 *
 *   scheduler.c             begins and ends it: lock, store, loop, signals
 *   loop_turn.c             what is done in a turn of the loop
 *   run_control.c           what other commands ask of it
 *   catalog_watch.c         the catalog's file, its log and its disk, meanwhile
 *   rest/working_hours.c    at which hours it works
 *   rest/make_way.c         GPUs that are left to others who use them
 *   backlog.c               tasks: read from the catalog, a stage at a time; checked after requests
 *   stage_aside.c           stages that cannot be done
 *   dispatch.c              leases: said to workers
 *   intake.c                what comes back for them
 *   lease/tracks.c          what other stages have of one, which listen to the same pass
 *   lease/lease_passages.c  those of stages that work on a transcription
 *   lease/lease_revoke.c    those that end before their time
 *   task_end.c              what becomes of a task without leases
 *   failure.c               what went wrong with it
 *   settle/settle.c         recordings whose shards are all there, settled as a whole
 *   settle/settle_process.c what is particular to settlers
 *   run_devices.c           on which devices it works
 *   worker_pool.c           all of its workers
 *   supervisor.c            what is particular to workers: what they say, when they are killed
 *   run/run.c               what every part may ask for: another turn, a commit, the end
 *   run/process.c           workers and settlers: started, timed out, started again, put aside
 *   run/remembered_batch.c  what is remembered of the devices
 *   run/diary.c             what is kept of it in the catalog
 *   run/gpu_watch.c         what the driver sees of the GPUs
 *   run/archive.c           the catalog's sums, in the terms of plan/
 *   run/figures.c           what is counted, and when it will be over
 *   run/metrics_file.c      its figures in a file for Prometheus
 *   run/report.c            what people see
 *
 * Everything runs on the loop's thread. Work is done in loop_turn_steps, called in each turn of the
 * loop; callbacks only note what happened, and make it `dirty`.
 *
 *   mode: GOING <--> PAUSED        the whole catalog is paused, or it is not the time: workers
 * drain |           |          and leave
 *           +--> DRAINING --> ENDING --> (loop stops)
 *           `---- failure ------^ */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_RUN_H
#define NIGHTSHIFT_SCHEDULER_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "gpu/devices/devices.h"
#include "gpu/sight/sight.h"
#include "scheduler/control/control_server.h"
#include "scheduler/plan/estimate.h"
#include "scheduler/plan/idle.h"
#include "scheduler/plan/idmap.h"
#include "scheduler/ledger/ledger.h"
#include "scheduler/plan/planner.h"
#include "scheduler/run/process.h"
#include "scheduler/plan/progress.h"
#include "scheduler/plan/rate.h"
#include "scheduler/plan/retry.h"
#include "scheduler/plan/room.h"
#include "scheduler/run/options.h"
#include "store/lock.h"
#include "store/store.h"
#include "workers/wire/protocol.h"

#define RUN_TICK_MS 100

enum run_mode { RUN_GOING, RUN_PAUSED, RUN_DRAINING, RUN_ENDING };

/* How a device is used, as its worker says, and what of it is to be remembered. */
struct run_memory {
    char precision[16];
    /* What it was set up with: the run's stage may be another by now. */
    char model_hash[130], decoding[SCHEDULER_DECODING_LEN];
    uint32_t slots, windows; /* 0: not ready yet */
    uint64_t predicted, peak;
    float rate;
    bool measured;   /* by this worker */
    bool remembered; /* the catalog has it, or will */
};

struct run_stretch { /* what a device did since the diary was written last */
    int64_t busy_ms, audio_ms;
    uint64_t memory_bytes, predicted_bytes; /* the most */
    uint32_t slots, windows;
    /* By the driver (gpu_watch.c). Sums are of values times ms of the stretch. */
    int64_t seen_ms, left_ms, percent_ms, microjoules;
    int64_t celsius, used_bytes; /* the most */
    bool percents, milliwatts;   /* any of them was known */
};

struct run_worker {
    uint32_t index;
    int64_t stage_id; /* that it was set up for */
    char device[64];  /* as it is started with */
    char label[80];   /* for people: "cpu", or "cpu #2" when there are several */
    struct process process;
    bool drained;      /* DRAIN was sent: it takes no more leases */
    int64_t moved_ms;  /* last sign that its work goes on (monotonic) */
    int64_t engine_ms; /* last sign that its engine does */
    uint64_t engine_beat, audio_ms, decoded_ms;
    struct rate rate; /* while it has work: idling says nothing about its speed */
    int64_t busy_ms;  /* since when it has had work */
    double speed;     /* times real time, as it was last seen at work; 0 not yet */
    bool was_ready;   /* this process was */
    /* Of run.beside so many were named in its SETUP, of which these are loaded (bit i). */
    uint32_t named, loaded;
    bool solo; /* it died with them, and has none until the next stage */
    struct run_memory use;
    uint64_t memory_bytes; /* that it holds now: the device's, or a host worker's own */
    struct run_stretch stretch;
    int64_t busy_before_ms, audio_before_ms; /* in the stretches before */
    uint64_t peak_bytes, predicted_bytes;    /* of device memory, in the whole run */
    struct gpu_sight sight;                  /* what the driver saw of its device last */
    int64_t sight_ms;                        /*   and when (monotonic); 0: nothing yet */
    int64_t microjoules_before;
    struct idle idle; /* make_way.c */
    bool left;        /* its device is left to others */
    char user[32];    /*   of whom this is known: "pid 4711"; "" */
};

struct run_task { /* known to the planner */
    struct store_task t;
    uint32_t place; /* the t.path is its place-th place */
    bool stopping;  /* cancelled or paused: forgotten when its leases have ended */
    bool failed, died;
    int code;
    char message[320];
    char *shown;                     /* its name for people; owned */
    int64_t heard_ms;                /* in this run, by its own stage */
    uint64_t mark;                   /* figures.c */
    struct result_passage *passages; /* owned; while they are leased */
    size_t passage_count;
};

struct run_beside { /* a stage that may listen to the passes of the run's */
    struct store_stage_row row;
    bool settles;
};

struct run_track {       /* what such a stage has to do in a lease; tracks.c */
    uint32_t stage;      /* in SETUP */
    struct store_task t; /* of which the message is made */
    uint32_t end;        /* one more than the highest shard that was done */
    bool settles, cancelled;
    struct idmap told; /* shards that are not awaited (any more): any pointer */
};

/* From LEASE to LEASE_END, or to its worker's end. What its first track has yielded, and is still
 * to yield, the planner knows. */
struct run_lease {
    uint64_t id; /* the planner's */
    struct run_task *task;
    uint32_t worker;
    uint32_t first, last, granted; /* granted: last, before it was capped */
    uint32_t shards;               /* of the recording, when its end was seen; else 0 */
    struct run_track tracks[SETUP_MAX_STAGES - 1]; /* the others */
    uint32_t track_count;
};

struct run_pace { /* what is remembered of a stage on the devices of the run */
    int64_t stage;
    double speed; /* times real time; 0: nothing */
};

struct settle;

struct run {
    struct scheduler_options opt;      /* defaults filled in; its strings are the caller's */
    const struct scheduler_options *o; /* &opt */
    struct scheduler_tuning tune;      /* defaults filled in */
    struct scheduler_result *result;
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_timer_t tick, commit, group;
    uv_signal_t sig_int, sig_term, sig_hup, sig_usr1, sig_child;
    bool loop_started;
    uint32_t frames;      /* from processes since the last tick */
    bool has_many_frames; /* there were between the two before */

    struct store *st;
    struct catalog_lock *lock;
    struct ledger *ledger;
    struct control_server *control;
    struct planner *planner;
    struct idmap tasks;  /* id -> struct run_task */
    struct idmap leases; /* id -> struct run_lease */
    /* Tasks that own a death in this run (retry.h): id -> 1 + deaths_alone, as a pointer. Apart
     * from `tasks`, which forget those that wait. */
    struct idmap deaths;
    uint32_t acquitted; /* of them, those that were done */
    struct settle *settle;
    bool unsettled;          /* there may be recordings to settle that were not seen yet */
    struct devices *devices; /* list[i] is what workers[i] works on */
    struct run_worker *workers;
    uint32_t worker_count;
    struct process *processes; /* of workers and settlers */
    struct gpu_watch *watch;   /* NULL: no device is a GPU */
    bool other_numbers;        /* pids are not those that the driver has */
    bool all_left;             /* every device is left to others: nothing is begun */
    char makes_way[64];        /*   "waiting: others use cuda:0", while that is so */

    enum run_mode mode;
    bool dirty, interrupted, timed_out;
    bool paused;          /* the whole catalog is */
    bool shut;            /* it is not the time to work */
    int64_t hours_end_ms; /* wall clock: of hours.until */
    char rests[48];       /* "resting until 22:00", while shut */
    int64_t ticked_ms;    /* the last tick */
    struct err failure;   /* code 0: none */

    /* backlog */
    bool has_stage;
    struct store_stage_row stage;
    struct scheduler_stage kind; /* of the stage, or of the last one while there is none */
    struct run_beside beside[SETUP_MAX_STAGES - 1];
    uint32_t beside_count;
    struct idmap unwritten; /* their tasks of which the ledger holds something: any pointer */
    int64_t *aside;         /* ids of stages that cannot be done in this run */
    size_t aside_count;
    struct err put_off;   /* why the first of them cannot; code 0: there is none */
    int64_t cursor;       /* tasks up to this turn were looked at */
    bool exhausted;       /* nothing runnable is beyond the cursor */
    bool overtaken;       /* nor is anything read before another stage is chosen */
    int64_t retry_due_ms; /* wall clock; INT64_MAX: no retry waits */

    /* a catalog that cannot be written for now */
    int64_t trouble_since_ms; /* monotonic; 0: none */
    int64_t trouble_next_ms;
    int trouble_code;
    int64_t locked_since_ms; /* a request waits for somebody else's transaction; 0: none */
    bool commit_armed;
    struct room room;    /* its log, and what is left for it on the disk */
    int64_t room_due_ms; /* the next look */
    struct err astray;   /* the catalog is not at its path any more, and how; code 0: it is */

    struct { /* diary.c */
        int64_t run_id;
        int64_t stretch_ms;         /* wall clock: where the stretch begins that is on */
        int64_t ticked_ms, span_ms; /* span: of the stretch, in this run */
        int64_t work_ms;            /* of the run, so long any device had work */
        uint64_t noted;             /* results that its row was written with last ... */
        int64_t note_due_ms;        /* ... and when it may be again: monotonic */
    } diary;

    /* figures */
    int64_t started_wall_ms, started_ms;
    uint64_t shards_done, tasks_done, tasks_failed; /* durable */
    uint64_t failed_pending;                        /* when the ledger is written */
    uint64_t recordings_done;                       /* durable */
    struct idmap failed;    /* recordings of which a task was given up -> a hash of why */
    struct idmap heard;     /* recordings -> ms of it heard in this run, as a pointer */
    int64_t audio_ms;       /* their sum */
    uint64_t audio_seen_ms; /* by the heartbeats of workers that have gone; figures_audio_seen */
    uint64_t turn_base_ms;  /* audio seen when the stage's turn began */
    uint64_t turn_audio_ms; /* by its results, since then */
    uint64_t turn_done;     /* its tasks that are done, as of totals */
    struct rate rate;
    struct estimate estimate;
    struct estimate_left *stages_left; /* owned; as of totals */
    size_t stages_left_count;
    struct run_pace *paces; /* owned */
    size_t pace_count;
    uint64_t shown_mark;
    struct store_totals totals;
    int64_t totals_at_ms, totals_cost_ms;
    uint64_t totals_done, totals_failed; /* tasks_done, _failed when totals were read */
    int64_t report_due_ms, json_due_ms, metrics_due_ms;
    bool metrics_told; /* that they cannot be written */
    bool line_shown, tty, color;
    char said[PROGRESS_LINE]; /* the last such line of the log */
    bool named;               /* the first recording that went to a worker was said */
    const char *note;
};

void run_touch(struct run *run); /* there is something to do in the next turn */
/* The run cannot go on. The first failure counts. */
void run_fail(struct run *run, const struct err *err);
/* Writes what the ledger holds. False: it could not, and the run is in trouble or has failed. */
bool run_flush(struct run *run);
bool run_worker_ready(const struct run_worker *w);
bool run_is_aside(const struct run *run, int64_t stage); /* it cannot be done in this run */
uint32_t run_ready_workers(const struct run *run);
bool run_leased(const struct run *run); /* does any worker hold anything? */
void run_note_commit(struct run *run);  /* the ledger has something: commit soon */
/* There may be recordings to settle that were not seen yet. */
void run_note_unsettled(struct run *run);
/* For ledger calls, whose only error is ERR_NOMEM: fails the run. */
void run_check(struct run *run, int rc, const struct err *err);

#endif
