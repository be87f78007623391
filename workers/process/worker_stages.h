/* workers/process/worker_stages.h - what the engine computes with: the device, the first stage of
 * SETUP, and the others where there is room.
 *
 * They are extras: one that cannot be loaded, or fails during the work, is dropped with a message,
 * and the rest goes on. Only a lost device is everybody's end. Engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_WORKER_STAGES_H
#define NIGHTSHIFT_WORKERS_PROCESS_WORKER_STAGES_H

#include "workers/pass/state.h"
#include "workers/process/worker_tune.h"

struct engine_stage {
    struct stage *stage;     /* NULL: an extra that is not loaded, or not any more */
    uint32_t slots, windows; /* as was last told */
    uint32_t capacity; /* lanes at once: twice the slots, so that a finished one has a successor */
    uint32_t lanes, flying;
    int64_t samples; /* done */
    struct err why;  /* it is not loaded; code 0 when it is */
};

struct engine_stages {
    struct worker *w; /* borrowed */
    struct backend *backend;
    struct worker_tuning tuning;              /* of the first */
    struct engine_stage of[SETUP_MAX_STAGES]; /* as worker.stages; [0] is always loaded */
};

/* The device, the models, and room for work; w's setup is complete. An error is of the device or
 * of the first stage; stages_unload also after one. */
int stages_load(struct worker *w, struct engine_stages *ret, struct err *err);
/* Sends FATAL, once, and the worker leaves: later reasons follow from the first. Any thread; the
 * control thread does not wait for the engine for long. */
void stages_give_up(struct worker *w, const struct err *why);
/* READY. Leases of the loaded stages are accepted from here on. */
void stages_post_ready(struct engine_stages *e);
void stages_unload(struct engine_stages *e); /* drops lanes without calling them */

/* How many lanes there are now, in `lanes` and all together. */
uint32_t stages_count(struct engine_stages *e);
/* A step of each stage that has lanes. An extra's error closes it: the others go on. */
int stages_step(struct engine_stages *e, bool *progress, struct err *err);

#endif
