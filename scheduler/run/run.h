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
 *   lease/lease_told.c  those of transcriptions whose text is there
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
 *   run/state/              what each of them keeps of it; the parts of struct run
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
#include "scheduler/control/control_server.h"
#include "scheduler/ledger/ledger.h"
#include "scheduler/plan/idmap.h"
#include "scheduler/plan/planner.h"
#include "scheduler/plan/retry.h"
#include "scheduler/run/options.h"
#include "scheduler/run/process.h"
#include "scheduler/run/state/backlog.h"
#include "scheduler/run/state/device.h"
#include "scheduler/run/state/diary.h"
#include "scheduler/run/state/figures.h"
#include "scheduler/run/state/lease.h"
#include "scheduler/run/state/report.h"
#include "scheduler/run/state/rest.h"
#include "scheduler/run/state/trouble.h"
#include "store/store.h"
#include "workers/wire/protocol.h"

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
    struct worker_pulse pulse;
    struct worker_tracks tracks;
    struct worker_memory memory;
    struct worker_diary diary;
    struct worker_sight sight;
    struct worker_way way;
};

struct gpu_watch;
struct settle;

struct run_loop { /* scheduler.c */
    uv_loop_t uv;
    uv_prepare_t prepare;
    uv_timer_t tick;
    uv_signal_t sig_int, sig_term, sig_hup, sig_usr1, sig_child;
    bool started;
};

struct run_devices {        /* run_devices.c */
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

struct loop_turn { /* loop_turn.c; what makes it dirty and unsettled: run.c, for all */
    enum run_mode mode;
    bool paused;    /* the whole catalog is */
    bool dirty;     /* there is something to do in the next turn */
    bool unsettled; /* there may be recordings to settle that were not seen yet */
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
    struct settle *settle;
    bool interrupted;
    struct err failure; /* code 0: none */

    struct run_loop loop;
    struct loop_turn turn;
    struct run_commit commit;
    struct run_control control;
    struct run_devices devices;
    struct processes processes; /* of workers and settlers */
    struct backlog backlog;
    struct dispatch dispatch;
    struct beside beside;
    struct failures failures;
    struct stages_aside aside;
    struct catalog_watch catalog;
    struct working_hours hours;
    struct make_way way;
    struct figures figures;
    struct diary diary;
    struct report report;
    struct metrics_file metrics;
};

void run_touch(struct run *run); /* there is something to do in the next turn */
/* The run cannot go on. The first failure counts. */
void run_fail(struct run *run, const struct err *err);
/* Writes what the ledger holds. False: it could not, and the run is in trouble or has failed. */
bool run_flush(struct run *run);
bool run_flush_at_once(struct run *run); /* the same, also where it is not time to try again */
bool run_worker_ready(const struct run_worker *w);
bool run_is_aside(const struct run *run, int64_t stage); /* it cannot be done in this run */
uint32_t run_ready_workers(const struct run *run);
bool run_leased(const struct run *run); /* does any worker hold anything? */
void run_note_commit(struct run *run);  /* the ledger has something: commit soon */
/* The same, of a task of another stage than the run's. */
void run_note_unwritten(struct run *run, int64_t task);
/* There may be recordings to settle that were not seen yet. */
void run_note_unsettled(struct run *run);
/* For ledger calls, whose only error is ERR_NOMEM: fails the run. */
void run_check(struct run *run, int rc, const struct err *err);
void run_free(struct run *run); /* when all of its parts are */

#endif
