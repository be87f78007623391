/* scheduler/run/state/lease.h - leases, and the stages that listen to them: what dispatch.c and
 * lease/tracks.c keep of a run. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_STATE_LEASE_H
#define NIGHTSHIFT_SCHEDULER_RUN_STATE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/plan/idmap.h"
#include "store/store.h"
#include "workers/wire/protocol.h"

struct run_beside { /* a stage that may listen to the passes of the run's */
    struct store_stage_row row;
    bool settles;
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
    bool settles, cancelled;
    struct idmap told; /* shards that are not awaited (any more): any pointer */
};

struct run_task;

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

struct dispatch {        /* dispatch.c */
    struct idmap leases; /* id -> struct run_lease */
    bool named;          /* the first recording that went to a worker was said */
};

#endif
