/* workers/process/worker_tune.h - the engine's batch sizes, and their report to the scheduler.
 * Engine thread only. */
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

/* Chooses SETUP's sizes; else its remembered ones; else, on GPUs and simulated devices, measures
 * for WORKER_TUNE_MS, without preparations; else 0, the stage's choice. Transcription only.
 * synthetic_load: as in stage_setup.tune. $NIGHTSHIFT_TUNE: 1 measures on every device, 0 on none.
 * An error is the device's: lack of memory is none. */
#define WORKER_TUNE_MS 20000
int worker_tune(const struct worker *w, struct backend *be, struct stage *synthetic_load,
                struct worker_tuning *ret, struct err *err);

/* Gives the device SETUP's algorithms before anything is loaded. Those that do not fit are timed
 * again, and sent in READY. */
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

/* Notes the device's memory for heartbeats. Takes the worker's lock. */
void worker_note_memory(struct worker *w, const struct backend *be);

#endif
