/* scheduler/run.h - one run, seen by the files that make it up. Internal to scheduler/.
 *
 *   scheduler.c    begins and ends it: lock, store, loop, signals
 *   backlog.c      tasks: read from the catalog, one stage at a time; checked after requests
 *   dispatch.c     leases: said to workers, what comes back, what a failure means
 *   companions.c   leases of other stages that listen to the same decoding passes
 *   passages.c     leases of stages that work on a transcription
 *   settle.c, settlers.c  recordings whose shards are all there, settled as a whole
 *   devices.c      on which devices it works
 *   supervisor.c   workers: started, watched, put aside
 *   tuning.c       what is remembered of the devices
 *   report.c       what people see
 *
 * Everything runs on the loop's thread. Work is done in run_step, called once per turn of the loop
 * when `dirty`; callbacks only note what happened.
 *
 *   mode: GOING <--> PAUSED        the whole catalog is paused: workers drain and leave
 *           |           |
 *           +--> DRAINING --> ENDING --> (loop stops)
 *           `---- failure ------^ */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_H
#define NIGHTSHIFT_SCHEDULER_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "gpu/devices.h"
#include "scheduler/control_server.h"
#include "scheduler/idmap.h"
#include "scheduler/ledger.h"
#include "scheduler/link.h"
#include "scheduler/planner.h"
#include "scheduler/progress.h"
#include "scheduler/rate.h"
#include "scheduler/restart.h"
#include "scheduler/retry.h"
#include "scheduler/room.h"
#include "scheduler/scheduler.h"
#include "store/lock.h"
#include "store/store.h"
#include "workers/wire/protocol.h"

#define RUN_TICK_MS 100

enum run_mode { RUN_GOING, RUN_PAUSED, RUN_DRAINING, RUN_ENDING };

/*   OFF --want--> WAITING --due--> STARTING --HELLO--> SETTING_UP --READY--> READY
 *    ^               ^                 |                    |                  |
 *    |               `---- back-off ---+--------------------+--- death --------+
 *    `-- gone -- LEAVING <--- not wanted any more ------------------------------'
 *   ASIDE: it died too often, or the model does not fit. It is tried again after a long pause while
 *   there is work, and with one more death is aside again; never when it is of another build. */
enum worker_state {
    WORKER_OFF,
    WORKER_WAITING,
    WORKER_STARTING,
    WORKER_SETTING_UP,
    WORKER_READY,
    WORKER_LEAVING,
    WORKER_ASIDE,
};

/* How a device is used, as its worker says, and what of it is to be remembered. */
struct run_memory {
    char device_id[64], driver[64], precision[16];
    /* What it was set up with: the run's stage may be another by now. */
    char model_hash[130], decoding[SCHEDULER_DECODING_LEN];
    uint32_t slots, windows; /* 0: not ready yet */
    uint64_t predicted, peak;
    float rate;
    bool measured;   /* by this worker */
    bool remembered; /* the catalog has it, or will */
};

struct run_worker {
    struct run *run;
    uint32_t index;
    int64_t stage_id; /* that it was set up for */
    char device[64];  /* as it is started with */
    char label[80];   /* for people: "cpu", or "cpu #2" when there are several */
    enum worker_state state;
    struct link *link;
    int64_t due_ms;   /* WAITING: start; STARTING, SETTING_UP, LEAVING: patience ends (monotonic) */
    bool drained;     /* DRAIN was sent: it takes no more leases */
    bool condemned;   /* it is being killed */
    bool broken;      /*   because it sent what cannot be: nothing more of it is believed */
    int64_t heard_ms; /* last frame */
    int64_t moved_ms; /* last sign that its work goes on */
    int64_t engine_ms; /* last sign that its engine does */
    uint64_t engine_beat, audio_ms, decoded_ms;
    struct rate rate; /* while it has work: idling says nothing about its speed */
    int64_t busy_ms;  /* since when it has had work */
    double speed;     /* times real time, as it was last seen at work; 0 not yet */
    struct restart restart;
    struct err last; /* why it died last; code 0: nobody knows */
    int death_code;  /* what its recordings are charged with: 0 by its exit status */
    bool was_ready;  /* this process was */
    bool on_trial;   /* it was aside before, and has not been ready since */
    /* Companions: so many stages were named in its SETUP, of which these are loaded (bit i). */
    uint32_t named, loaded;
    uint32_t companion_leases; /* open ones */
    bool solo;                 /* it died with them, and has none until the next stage */
    struct run_memory use;
    uint64_t peak_bytes, predicted_bytes; /* of device memory, in the whole run */
};

struct run_task { /* known to the planner */
    struct store_task t;
    uint32_t place; /* the t.path is its place-th place */
    bool stopping;  /* cancelled or paused: forgotten when its leases have ended */
    bool failed, died;
    int code;
    char message[320];
    char *shown;                    /* its name for people; owned */
    struct store_passage *passages; /* owned; while they are leased */
    size_t passage_count;
};

struct settle;
struct companions;

struct run {
    struct scheduler_options opt;      /* defaults filled in; its strings are the caller's */
    const struct scheduler_options *o; /* &opt */
    struct scheduler_tuning tune;      /* defaults filled in */
    struct scheduler_result *result;
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_timer_t tick, commit;
    uv_signal_t sig_int, sig_term, sig_hup, sig_child;
    bool loop_started;

    struct store *st;
    struct catalog_lock *lock;
    struct ledger *ledger;
    struct control_server *control;
    struct planner *planner;
    struct idmap tasks; /* id -> struct run_task */
    /* Tasks that own a death in this run (retry.h): id -> 1 + deaths_alone, as a pointer. Apart
     * from `tasks`, which forget those that wait. */
    struct idmap deaths;
    uint32_t acquitted; /* of them, those that were done */
    struct settle *settle;
    struct companions *companions;
    struct devices *devices; /* list[i] is what workers[i] works on */
    struct run_worker *workers;
    uint32_t worker_count;

    enum run_mode mode;
    bool dirty, interrupted;
    int64_t ticked_ms;  /* the last tick */
    struct err failure; /* code 0: none */

    /* backlog */
    bool has_stage;
    struct store_stage_row stage;
    struct scheduler_stage kind; /* of the stage, or of the last one while there is none */
    int64_t *aside;              /* ids of stages that cannot be done in this run */
    size_t aside_count;
    struct err put_off;   /* why the first of them cannot; code 0: there is none */
    int64_t cursor;       /* tasks up to this id were looked at */
    bool exhausted;       /* nothing runnable is beyond the cursor */
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

    /* figures */
    int64_t started_wall_ms, started_ms;
    uint64_t shards_done, tasks_done, tasks_failed; /* durable */
    uint64_t failed_pending;                        /* when the ledger is written */
    int64_t audio_saved_ms;                         /* durable, in this run */
    uint64_t audio_seen_ms; /* by the heartbeats of workers that have gone; see run_audio_seen */
    struct rate rate;
    struct store_totals totals;
    int64_t totals_at_ms, totals_cost_ms;
    uint64_t totals_done, totals_failed; /* tasks_done, _failed when totals were read */
    int64_t totals_saved_ms;             /* audio_saved_ms then */
    int64_t report_due_ms, json_due_ms;
    bool line_shown, tty, color;
    bool named; /* the first recording that went to a worker was said */
    const char *note;
};

/* scheduler.c */
void run_touch(struct run *run); /* there is something to do: run_step will be called */
/* The run cannot go on. The first failure counts. */
void run_fail(struct run *run, const struct err *err);
/* Writes what the ledger holds. False: it could not, and the run is in trouble or has failed. */
bool run_flush(struct run *run);
bool run_leased(const struct run *run); /* does any worker hold anything? */
void run_note_commit(struct run *run);  /* the ledger has something: commit soon */
/* For ledger calls, whose only error is ERR_NOMEM: fails the run. */
void run_check(struct run *run, int rc, const struct err *err);

/* backlog.c */
/* Refills the planner from the current stage; chooses the stage when there is none. Returns false
 * when nothing is runnable now (workers may still hold leases). */
bool backlog_refill(struct run *run);
void backlog_rescan(struct run *run); /* the catalog has changed: look at every task again */
/* Forgets what is not leased: it is read from the catalog again. False: not now, or never. */
bool backlog_forget_queued(struct run *run);
/* After a request: forget what is not leased, stop leases of tasks that are not wanted any more.
 * cancel: their work in hand is dropped; else it is ended at a checkpoint. */
void backlog_recheck(struct run *run, bool cancel);
void backlog_drop(struct run *run, int64_t task); /* forgets a task without leases, here and in the
                                                     planner */
void backlog_free(struct run *run);
/* Work that waits in the catalog and is not queued yet, in shards of full length: about. */
double backlog_unread(const struct run *run);
/* A stage that cannot be done here (its model is gone, or fits no device): its tasks stay pending,
 * the run goes on with the others and ends with this error. Its leases are taken back. */
void backlog_put_aside(struct run *run, const struct store_stage_row *stage, const struct err *why);
bool backlog_is_aside(const struct run *run, int64_t stage);
void backlog_take_back(struct run *run); /* somebody may have mended them: all are tried again */
char *backlog_shown(const struct store_task *t); /* its name for people; owned; NULL: no memory */
int backlog_paused(struct run *run, bool *ret, struct err *err);

/* dispatch.c */
void dispatch_all(struct run *run); /* until the planner has nothing to say */
/* Results and ends. A false return means that the worker broke the protocol; *err says how. */
bool dispatch_media(struct run_worker *w, const struct msg_media *m, struct err *err);
bool dispatch_shard_done(struct run_worker *w, struct msg_shard_done *m, struct err *err);
bool dispatch_shard_failed(struct run_worker *w, const struct msg_shard_failed *m, struct err *err);
bool dispatch_lease_end(struct run_worker *w, const struct msg_lease_end *m, struct err *err);
/* All leases of a worker that has gone come back. code, message: why it died. */
void dispatch_worker_lost(struct run_worker *w, int code, const char *message,
                          enum restart_cause *cause, int64_t *task);
void dispatch_cap(struct run *run, const struct planner_step *step);
void dispatch_cancel(struct run *run, int64_t task); /* CANCEL to every lease of it */
void dispatch_cap_task(struct run *run, int64_t task);
/* What is known of a task's failures before this one. False: the run has failed. */
bool dispatch_history(struct run *run, int64_t task, struct retry_failure *ret);
void dispatch_done(struct run *run, int64_t task); /* it is done after all */
/* A failure as retry_decide has judged it (SUSPECT, AGAIN or FAIL): noted and told. */
struct dispatch_failure {
    int64_t task, media;
    const char *shown;
    int code; /* 0: ERR_CRASH */
    bool died;
};
void dispatch_record(struct run *run, const struct dispatch_failure *f,
                     const struct retry_decision *d);

/* passages.c */
/* Reads t->passages as they are now: 0; 1 when nobody spoke; or an error. */
int passages_read(struct run *run, struct run_task *t, struct err *err);
void passages_drop(struct run_task *t);
/* The lease's part; free m->passages. False: no memory. */
bool passages_fill(const struct run_task *t, struct msg_lease *m);
/* Does the worker's answer fit them? False: *err says how not. */
bool passages_answered(const struct run_task *t, const struct msg_shard_done *m, struct err *err);

/* settle.c */
int settle_open(struct run *run, struct err *err);
/* There may be recordings to settle that were not seen yet. */
void settle_wake(struct run *run);
/* Gives out what is to be settled, and starts settlers for it. False: nothing is, and nothing is in
 * hand. */
bool settle_step(struct run *run);
void settle_take_back(struct run *run); /* settlers that are aside are tried again */
bool settle_in_hand(const struct run *run);
void settle_recheck(struct run *run); /* after a request: some may not be wanted any more */
void settle_leave(struct run *run);   /* QUIT to all */
void settle_kill(struct run *run);
void settle_tick(struct run *run, int64_t now_ms);
void settle_forgive(struct run *run, int64_t lost_ms); /* nobody listened for so long */
void settle_reap(struct run *run);
bool settle_all_off(const struct run *run);
void settle_close(struct run *run); /* before the loop ends */
void settle_free(struct run *run);

/* devices.c */
/* Finds and picks the devices, and makes a worker for each. Starts nothing that stays. */
int run_devices_init(struct run *run, struct err *err);
void run_devices_say(struct run *run); /* warnings, and why no GPU works */

/* supervisor.c */
void supervisor_want(struct run *run);  /* start all that are OFF */
void supervisor_drain(struct run *run); /* DRAIN to all; those that are not ready leave */
void supervisor_leave(struct run *run); /* QUIT to all */
void supervisor_kill(struct run *run);
void supervisor_tick(struct run *run, int64_t now_ms);
void supervisor_reap(struct run *run);
bool supervisor_all_off(const struct run *run);   /* no process is left */
bool supervisor_all_aside(const struct run *run); /* and none will come */
uint32_t supervisor_ready(const struct run *run);
void supervisor_free(struct run *run);
void supervisor_send(struct run_worker *w, uint8_t type, const struct buf *payload);
/* It broke the protocol, or is silent: killed, and its recordings charged with `code`. */
void supervisor_condemn(struct run_worker *w, int code, const char *why);
/* Devices for which the last stage was too large may have room for another. */
void supervisor_new_stage(struct run *run);
/* Fills in *last, unless it says something already, by a process's exit status. */
void supervisor_describe_death(int status, struct err *last);

/* tuning.c */
/* Fills in what is remembered of the worker's device; before SETUP. */
void tuning_recall(struct run_worker *w, struct msg_setup *m);
void tuning_ready(struct run_worker *w, const struct msg_ready *m);
void tuning_lowered(struct run_worker *w, const struct msg_tuned *m);
void tuning_heartbeat(struct run_worker *w, const struct msg_heartbeat *m);
void tuning_gone(struct run_worker *w); /* its process has ended */
/* "; cuda:0 used 8.10 GB of 24.00, predicted 9.00" for each device that is not the processor. */
void tuning_summary(const struct run *run, char *text, size_t cap);

/* report.c */
void report_start(struct run *run);
void report_tick(struct run *run, int64_t now_ms);
void report_end(struct run *run);
void report_totals(struct run *run); /* read again */
void report_view(struct run *run, struct progress *ret);
/* A log line that does not tear the progress line. */
void report_event(struct run *run, int level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
uint64_t run_audio_seen(const struct run *run);

#endif
