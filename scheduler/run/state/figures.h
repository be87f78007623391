/* scheduler/run/state/figures.h - what figures.c keeps of a run. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_STATE_FIGURES_H
#define NIGHTSHIFT_SCHEDULER_RUN_STATE_FIGURES_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/plan/estimate.h"
#include "scheduler/plan/idmap.h"
#include "scheduler/plan/rate.h"
#include "store/store.h"

struct run_pace { /* what is remembered of a stage on the devices of the run */
    int64_t stage;
    double speed; /* times real time; 0: nothing */
};

struct figures {
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

#endif
