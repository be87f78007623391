/* scheduler/run/state/backlog.h - what backlog.c keeps of a run: the stage whose turn it is, and
 * its tasks. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_STATE_BACKLOG_H
#define NIGHTSHIFT_SCHEDULER_RUN_STATE_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/plan/idmap.h"
#include "scheduler/run/options.h"
#include "store/store.h"
#include "workers/results.h"

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
};

#endif
