/* scheduler/run/run.h - one run, seen by the files that make it up. Internal to scheduler/.
 *
 *   scheduler.c             begins and ends it: lock, store, loop, signals
 *   loop_tick.c             what is done in a tick of the loop
 *   run_control.c           what other commands ask of it
 *   catalog_watch.c         the catalog's file, its log and its disk, meanwhile
 *   rest.c                  at which hours it works, and GPUs that are left to others
 *   backlog.c               tasks: read from the catalog, a stage at a time; checked after requests
 *   disabled_stages.c          stages that cannot be done
 *   dispatch.c              leases: said to workers; what becomes of a task without any
 *   intake.c                what comes back for them
 *   lease/tracks.c          what other stages have of one, which listen to the same pass
 *   lease/lease.c           what goes with one to the worker, and how one ends before its time
 *   failure.c               what went wrong with it
 *   finalize.c              recordings whose shards are all there, finalized as a whole
 *   worker_pool.c           all of its workers
 *   supervisor.c            on which devices it works; what workers say, when they are killed
 *   run/run.c               what every part may ask for: another turn, a commit, the end
 *   run/process.c           workers and finalizers: started, timed out, started again, quarantined
 *   run/remembered_batch.c  what is remembered of the devices
 *   run/diary.c             what is kept of it in the catalog
 *   run/gpu_watch.c         what the driver sees of the GPUs
 *   run/archive.c           the catalog's sums, in the terms of plan/
 *   run/figures.c           what is counted, and when it will be over
 *   run/metrics_file.c      its figures in a file for Prometheus
 *   run/report.c            what people see
 *
 * Everything runs on the loop's thread. Work is done in loop_tick_steps, called in each turn of the
 * loop; callbacks only note what happened, and make it `dirty`.
 *
 *   mode: GOING <--> PAUSED        the whole catalog is paused, or it is not the time: workers
 * drain |           |          and leave
 *           +--> DRAINING --> ENDING --> (loop stops)
 *           `---- failure ------^ */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_RUN_H
#define NIGHTSHIFT_SCHEDULER_RUN_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "gpu/devices/devices.h"
#include "gpu/gpu_sample.h"
#include "scheduler/control/control_server.h"
#include "scheduler/ledger.h"
#include "scheduler/plan/disk_space.h"
#include "scheduler/plan/estimate.h"
#include "scheduler/plan/gpu_health.h"
#include "scheduler/plan/idmap.h"
#include "scheduler/plan/planner.h"
#include "scheduler/plan/progress.h"
#include "scheduler/plan/rest.h"
#include "scheduler/plan/retry.h"
#include "scheduler/run/options.h"
#include "scheduler/run/process.h"
#include "store/store.h"
#include "workers/results.h"
#include "workers/wire/protocol.h"

/* ---- what each part keeps of a run, and alone writes */

/* backlog.c: the stage whose turn it is, and its tasks. */
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

struct backlog {
    bool has_stage;
    struct store_stage_row stage;
    struct scheduler_stage kind; /* of the stage, or of the last one while there is none */
    struct idmap tasks;          /* id -> struct run_task */
    int64_t cursor;              /* tasks up to this turn were looked at */
    bool exhausted;              /* nothing runnable is beyond the cursor */
    bool overtaken;              /* nor is anything read before another stage is chosen */
    bool left_fp16;              /* its model has: see worker_pool_left_fp16 */
};

/* How a device is used, as its worker says, and what of it is to be remembered. */
struct device_use {
    char precision[16]; /* of the run, on this device */
    /* Its settings at setup, because the run may be at another stage by now. */
    char model_hash[130], decoding[SCHEDULER_DECODING_LEN];
    char others[SETUP_MAX_STAGES - 1][130]; /* hashes of the models beside it */
    uint32_t other_count;
    uint32_t slots, windows; /* 0: not ready yet */
    uint64_t predicted, peak;
    float rate;
    bool measured;   /* by this worker */
    bool remembered; /* the catalog has it, or will */
};

struct worker_memory { /* remembered_batch.c */
    struct device_use use;
    uint64_t peak_bytes, predicted_bytes; /* of device memory, in the whole run */
};

struct worker_pulse {  /* supervisor.c; anew with each process: worker_pool.c */
    int64_t moved_ms;  /* last sign that its work goes on (monotonic) */
    int64_t engine_ms; /* last sign that its engine does */
    uint64_t engine_beat, audio_ms, decoded_ms;
    struct rate rate;      /* while it has work: idling says nothing about its speed */
    int64_t busy_ms;       /* since when it has had work */
    double speed;          /* times real time, as it was last seen at work; 0 not yet */
    uint64_t memory_bytes; /* that it holds now: the device's, or a host worker's own */
};

struct worker_sample {      /* gpu_watch.c */
    struct gpu_sample seen; /* what the driver saw of its device last */
    int64_t at_ms;          /*   and when (monotonic); 0: nothing yet */
    struct gpu_health_told told;
};

/* diary.c: what it keeps of a run, and of each worker. */
struct run_stretch { /* what a device did since the diary was written last */
    int64_t busy_ms, audio_ms;
    uint64_t memory_bytes, predicted_bytes; /* the most */
    uint32_t slots, windows;
    /* By the driver (gpu_watch.c). Sums are of values times ms of the stretch. */
    int64_t seen_ms, left_ms, percent_ms, microjoules;
    int64_t celsius, used_bytes; /* the most */
    bool percents, milliwatts;   /* any of them was known */
};

struct worker_diary {
    struct run_stretch stretch;
    int64_t busy_before_ms, audio_before_ms, microjoules_before; /* in the stretches before */
};

struct diary {
    int64_t run_id;
    int64_t stretch_ms;         /* wall clock: where the stretch begins that is on */
    int64_t ticked_ms, span_ms; /* span: of the stretch, in this run */
    int64_t work_ms;            /* of the run, so long any device had work */
    uint64_t noted;             /* results that its row was written with last ... */
    int64_t note_due_ms;        /* ... and when it may be again: monotonic */
};

struct run_pace { /* what is remembered of a stage on the devices of the run */
    int64_t stage;
    double speed; /* times real time; 0: nothing */
};

struct figures { /* figures.c */
    int64_t started_wall_ms, started_ms;
    uint64_t tasks_done, tasks_failed; /* durable */
    uint64_t failed_pending;           /* when the ledger is written */
    uint64_t recordings_done;          /* durable */
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
    int64_t totals_at_ms, totals_cost_ms; /* at 0: they are to be read again */
    uint64_t totals_done, totals_failed;  /* tasks_done, _failed when totals were read ... */
    uint64_t totals_recordings;           /* ... and recordings_done */
};

struct run_beside { /* a stage that may listen to the passes of the run's */
    struct store_stage_row row;
    bool finalizes;
};

struct beside { /* tracks.c */
    struct run_beside stages[SETUP_MAX_STAGES - 1];
    uint32_t count;
};

struct worker_tracks { /* tracks.c; worker_pool.c ends what is solo */
    /* So many of run->beside were named in its SETUP, of which these are loaded (bit i). */
    uint32_t named, loaded;
    bool solo; /* it died with them, and has none until the next stage */
};

struct run_track {       /* what such a stage has to do in a lease; tracks.c */
    uint32_t stage;      /* in SETUP */
    struct store_task t; /* of which the message is made */
    uint32_t end;        /* one more than the highest shard that was done */
    bool finalizes, cancelled;
    struct idmap told; /* shards that are not awaited (any more): any pointer */
};

/* From LEASE to LEASE_END, or to its worker's end. The planner knows which shards its first track
 * has yielded, and which are left. */
struct run_lease {
    uint64_t id; /* the planner's */
    struct run_task *task;
    uint32_t worker;
    uint32_t first, last, granted; /* granted: last, before it was capped */
    uint32_t shards;               /* of the recording, when its end was seen; else 0 */
    struct run_track tracks[SETUP_MAX_STAGES - 1]; /* the others */
    uint32_t track_count;
};

struct dispatch {        /* dispatch.c */
    struct idmap leases; /* id -> struct run_lease */
    bool named;          /* the first recording that went to a worker was said */
};

/* report.c and metrics_file.c. */
struct report {
    int64_t due_ms, json_due_ms;
    bool line_shown, tty, color;
    char said[PROGRESS_LINE]; /* the last such line of the log */
};

struct metrics_file {
    int64_t due_ms;
    bool told; /* that they cannot be written */
};

struct working_hours { /* rest.c */
    bool shut;         /* it is not the time to work */
    bool over;         /* hours.until has come: the run ends */
    int64_t end_ms;    /* wall clock: of hours.until */
    char text[48];     /* "resting until 22:00", while shut */
};

struct make_way {       /* rest.c */
    bool other_numbers; /* pids are not those that the driver has */
    bool all_left;      /* every device is left to others: nothing is begun */
    char text[64];      /*   "waiting: others use cuda:0", while that is so */
};

struct worker_way { /* rest.c */
    struct idle idle;
    bool left;     /* its device is left to others */
    char user[32]; /*   of whom this is known: "pid 4711"; "" */
};

struct failures { /* failure.c */
    /* Tasks that own a death in this run (retry.h): id -> 1 + deaths_alone, as a pointer. Apart
     * from the backlog's, which forgets those that wait. */
    struct idmap deaths;
    uint32_t acquitted;   /* of them, those that were done */
    int64_t retry_due_ms; /* wall clock; INT64_MAX: no retry waits */
};

struct disabled_stages { /* disabled_stages.c*/
    int64_t *stages;     /* owned: ids of those that cannot be done in this run */
    size_t count;
    struct err why; /* the first of them cannot; code 0: there is none */
};

struct catalog_watch {            /* catalog_watch.c */
    struct disk_space disk_space; /* its log, and what is left for it on the disk */
    int64_t disk_space_due_ms;    /* the next look */
    struct err astray; /* the catalog is not at its path any more, and how; code 0: it is */
};

/* ---- the run */

#define RUN_TICK_MS 100

enum run_mode { RUN_GOING, RUN_PAUSED, RUN_DRAINING, RUN_ENDING };

struct run_worker {
    uint32_t index;
    int64_t stage_id; /* that it was set up for */
    char device[64];  /* as it is started with */
    char label[80];   /* for people: "cpu", or "cpu #2" when there are several */
    struct process process;
    bool was_ready; /* this process was */
    bool drained;   /* DRAIN was sent: it takes no more leases */
    bool is_fp16;   /* it computes so, and was not told to */
    struct worker_pulse pulse;
    struct worker_tracks tracks;
    struct worker_memory memory;
    struct worker_diary diary;
    struct worker_sample sample;
    struct worker_way way;
};

struct gpu_watch;
struct finalize;

struct run_loop { /* scheduler.c */
    uv_loop_t uv;
    uv_prepare_t prepare;
    uv_timer_t tick;
    uv_signal_t sig_int, sig_term, sig_hup, sig_usr1, sig_child;
    bool started;
};

struct run_devices {        /* supervisor.c */
    struct devices *picked; /* list[i] is what workers[i] works on */
    struct run_worker *workers;
    uint32_t count;
    struct gpu_watch *watch; /* gpu_watch.c; NULL: no device is a GPU */
};

struct run_commit { /* run.c: what the ledger holds, on its way into the catalog */
    uv_timer_t timer;
    bool armed;
    /* Tasks of other stages than the run's of which it holds something: any pointer. */
    struct idmap unwritten;
    /* A catalog that cannot be written for now. */
    int64_t trouble_since_ms; /* monotonic; 0: none */
    int64_t trouble_next_ms;
    int trouble_code;
};

struct run_control { /* run_control.c */
    struct control_server *server;
    int64_t locked_since_ms; /* a request waits for somebody else's transaction; 0: none */
};

struct loop_tick { /* loop_tick.c; what makes it dirty and unsettled: run.c, for all */
    enum run_mode mode;
    bool paused;      /* the whole catalog is */
    bool dirty;       /* there is something to do in the next tick */
    bool unfinalized; /* there may be recordings to finalize that were not seen yet */
    const char *note;
};

/* Each part is written by the file that it is named for, and read by all. */
struct run {
    struct scheduler_options opt;      /* defaults filled in; its strings are the caller's */
    const struct scheduler_options *o; /* &opt */
    struct scheduler_tuning tune;      /* defaults filled in */
    struct store *st;
    struct ledger *ledger;
    struct planner *planner;
    struct finalize *finalize;
    bool interrupted;
    struct err failure; /* code 0: none */

    struct run_loop loop;
    struct loop_tick tick;
    struct run_commit commit;
    struct run_control control;
    struct run_devices devices;
    struct processes processes; /* of workers and finalizers */
    struct backlog backlog;
    struct dispatch dispatch;
    struct beside beside;
    struct failures failures;
    struct disabled_stages disabled;
    struct catalog_watch catalog;
    struct working_hours hours;
    struct make_way way;
    struct figures figures;
    struct diary diary;
    struct report report;
    struct metrics_file metrics;
};

void run_touch(struct run *run); /* there is something to do in the next tick */
/* The run cannot go on. The first failure counts. */
void run_fail(struct run *run, const struct err *err);
/* Writes what the ledger holds. False: it could not, and the run is in trouble or has failed. */
bool run_flush(struct run *run);
bool run_flush_at_once(struct run *run); /* the same, also where it is not time to try again */
bool run_worker_ready(const struct run_worker *w);
bool run_is_disabled(const struct run *run, int64_t stage); /* it cannot be done in this run */
uint32_t run_ready_workers(const struct run *run);
bool run_leased(const struct run *run); /* does any worker hold anything? */
void run_note_commit(struct run *run);  /* the ledger has something: commit soon */
/* The same, of a task of another stage than the run's. */
void run_note_unwritten(struct run *run, int64_t task);
/* There may be recordings to finalize that were not seen yet. */
void run_note_unfinalized(struct run *run);
/* Checks ledger calls, whose only error is ERR_NOMEM: fails the run. */
void run_check(struct run *run, int rc, const struct err *err);
void run_free(struct run *run); /* when all of its parts are */

#endif
