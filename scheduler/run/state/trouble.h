/* scheduler/run/state/trouble.h - what went wrong in a run: tasks (failure.c), stages
 * (stage_aside.c), the catalog's file and its disk (catalog_watch.c). */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_STATE_TROUBLE_H
#define NIGHTSHIFT_SCHEDULER_RUN_STATE_TROUBLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "scheduler/plan/idmap.h"
#include "scheduler/plan/room.h"

struct failures { /* failure.c */
    /* Tasks that own a death in this run (retry.h): id -> 1 + deaths_alone, as a pointer. Apart
     * from the backlog's, which forgets those that wait. */
    struct idmap deaths;
    uint32_t acquitted;   /* of them, those that were done */
    int64_t retry_due_ms; /* wall clock; INT64_MAX: no retry waits */
};

struct stages_aside { /* stage_aside.c */
    int64_t *stages;  /* owned: ids of those that cannot be done in this run */
    size_t count;
    struct err why; /* the first of them cannot; code 0: there is none */
};

struct catalog_watch {   /* catalog_watch.c */
    struct room room;    /* its log, and what is left for it on the disk */
    int64_t room_due_ms; /* the next look */
    struct err astray;   /* the catalog is not at its path any more, and how; code 0: it is */
};

#endif
