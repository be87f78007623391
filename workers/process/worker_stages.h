/* workers/process/worker_stages.h - what the engine computes with: the device, the first stage of
 * SETUP, and the others where there is room.
 *
 * They are extras: one that cannot be loaded, or fails during the work, is dropped with a message,
 * and the rest goes on. Only a lost device is everybody's end.
 *
 * Where a device has forks (gpu/backend.h), each extra has one, and a thread that steps it beside
 * the others. Elsewhere one thread steps all of them in turn, for they would share the processors.
 * One thread loads and unloads them; in between a stage belongs to the thread that steps it. */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_WORKER_STAGES_H
#define NIGHTSHIFT_WORKERS_PROCESS_WORKER_STAGES_H

#include "workers/pass/state.h"
#include "workers/process/worker_tune.h"

struct engine_stage {
    struct stage *stage;     /* NULL: an extra that is not loaded, or not any more */
    struct backend *fork;    /* of an extra, owned; NULL: it computes on the device itself */
    uint32_t slots, windows; /* as was last told */
    uint32_t capacity; /* lanes at once: twice the slots, so that a finished one has a successor */
    uint32_t lanes, flying;
    int64_t samples; /* done */
    float rate;      /* times real time alone, as measured when it was loaded; 0: it was not */
    struct err why;  /* it is not loaded; code 0 when it is */
};

/* What one thread steps: the stages from `first` on, up to `end`. */
struct engine_share {
    struct engine_stages *e;
    uint32_t first, end;
    struct engine_pulse *pulse; /* the thread's, in the worker */
};

struct engine_stages {
    struct worker *w; /* borrowed */
    struct backend *backend;
    struct worker_tuning tuning;              /* of the first */
    struct engine_stage of[SETUP_MAX_STAGES]; /* as worker.stages; [0] is always loaded */
    struct engine_share share[SETUP_MAX_STAGES];
    uint32_t share_count; /* threads; the first one's has the first stage */
};

/* The device, the models, and room for work, shared out; w's setup is complete. *ret stays where it
 * is. An error is of the device or
 * of the first stage; stages_unload also after one. */
int stages_load(struct worker *w, struct engine_stages *ret, struct err *err);
/* Sends FATAL, once, and the worker leaves: later reasons follow from the first. Any thread; the
 * control thread does not wait for the engine for long. */
void stages_give_up(struct worker *w, const struct err *why);
/* READY. Leases of the loaded stages are accepted from here on. */
void stages_post_ready(struct engine_stages *e);
void stages_unload(struct engine_stages *e); /* drops lanes without calling them */

/* How many lanes there are now, in `lanes` and all together. */
uint32_t stages_count(const struct engine_share *s);
/* A step of each stage of the share that has lanes. An extra's error closes it: the others go on.
 */
int stages_step(const struct engine_share *s, bool *progress, struct err *err);

#endif
