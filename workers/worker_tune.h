/* workers/worker_tune.h - how much the engine takes at once, and what the scheduler is told of it.
 * Engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_WORKER_TUNE_H
#define NIGHTSHIFT_WORKERS_WORKER_TUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "workers/worker_state.h"

struct backend;
struct whisper;
struct whisper_shape;

/* What the stage asks of the device: borrowed. */
struct worker_load {
    struct whisper *model;
    const struct whisper_shape *shape; /* branches and alignment heads */
    uint32_t rows;                     /* of a window in a step of the decoder; at most branches */
    bool voice;                        /* a voice activity model beside it */
};

struct worker_tuning {
    uint32_t slots, windows; /* 0: as the transcriber chooses */
    float rate;              /* times real time; 0: unknown */
    bool measured;           /* here and now */
};

/* Chooses: what SETUP says; what it remembers, where that fits; on GPUs and simulated devices what
 * is measured, within WORKER_TUNE_MS; else 0, the transcriber's choice. $NIGHTSHIFT_TUNE: 1
 * measures on every device, 0 on none. An error is the device's: lack of memory is none. */
#define WORKER_TUNE_MS 20000
int worker_tune(const struct worker *w, struct backend *be, const struct worker_load *load,
                struct worker_tuning *ret, struct err *err);

/* READY; slots and windows as the transcriber has them now. */
void worker_post_ready(struct worker *w, const struct backend *be, const struct worker_load *load,
                       uint32_t capacity, uint32_t slots, uint32_t windows,
                       const struct worker_tuning *t);
void worker_post_tuned(struct worker *w, uint32_t slots, uint32_t windows, const char *reason);

/* For the heartbeats. Takes the worker's lock. */
void worker_note_memory(struct worker *w, const struct backend *be);

#endif
