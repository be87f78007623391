/* workers/process/worker_tune.h - how much the engine takes at once, and what the scheduler is told
 * of it. Engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_WORKER_TUNE_H
#define NIGHTSHIFT_WORKERS_PROCESS_WORKER_TUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "workers/pass/state.h"

struct backend;
struct stage;

struct worker_tuning {
    uint32_t slots, windows; /* 0: as the stage chooses */
    float rate;              /* times real time; 0: unknown */
    bool measured;           /* here and now */
};

/* Chooses: what SETUP says; what it remembers, where that fits; on GPUs and simulated devices what
 * is measured, within WORKER_TUNE_MS beside what is prepared; else 0, the stage's choice. Of
 * transcription alone; synthetic load: as of stage_setup.tune. $NIGHTSHIFT_TUNE: 1 measures on
 * every device, 0 on none. An error is the device's: lack of memory is none. */
#define WORKER_TUNE_MS 20000
int worker_tune(const struct worker *w, struct backend *be, struct stage *synthetic_load,
                struct worker_tuning *ret, struct err *err);

/* Gives the device the ways that SETUP has, before anything is loaded. What does not fit is timed
 * again, and told in READY. */
void worker_recall(const struct worker *w, struct backend *be);

struct worker_room {
    uint32_t capacity;
    uint64_t predicted_bytes;         /* of all that is loaded */
    const struct err *const *why_not; /* of each stage: it is not loaded; code 0: it is */
};

/* READY; slots and windows as the first stage has them now. */
void worker_post_ready(struct worker *w, struct backend *be, const struct stage *stage,
                       const struct worker_room *room, const struct worker_tuning *t);
void worker_post_tuned(struct worker *w, uint32_t slots, uint32_t windows, const char *reason);

/* For the heartbeats. Takes the worker's lock. */
void worker_note_memory(struct worker *w, const struct backend *be);

#endif
