/* workers/process/worker_tune.h - the engine's batch sizes, and their report to the scheduler.
 * The first engine thread alone, which loads. */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_WORKER_TUNE_H
#define NIGHTSHIFT_WORKERS_PROCESS_WORKER_TUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "workers/pass/state.h"

struct backend;
struct stage;
struct stage_setup;

/* ---- how many to take at once: the smallest batch on the plateau of throughput
 *
 * The largest batch is the wrong target: beyond the plateau it costs memory and latency and gives
 * nothing. Sizes are tried upwards along a ladder, and the measured rates decide. Pure: no device,
 * no clock. */
#define TUNE_NEAR 0.03    /* of the best throughput: as good as the best */
#define TUNE_STEPS_MAX 32 /* steps of the ladder up to 4096 are fewer */

struct tune_sample {
    uint32_t size; /* taken at once */
    double rate;   /* per second, whatever is counted; 0: it did not fit */
};

struct tune {       /* all zero at first, but for `first`; samples by ascending size */
    uint32_t first; /* the smallest size to try; 0: 1 */
    struct tune_sample samples[TUNE_STEPS_MAX];
    uint32_t count;
};

/* The next size to try, at most `most`; 0: enough is known. It is, after a size that did not fit,
 * at the ladder's end, and when two steps in a row were less than TUNE_NEAR better than the best
 * before them. Sizes: `first`, and of these what is above it: 1, 2, 4, 8, 16, 24, 32, 48, 64, 96,
 * 128 ... 4096; `most` itself is tried when it lies between two of them. */
uint32_t tune_next(const struct tune *t, uint32_t most);
/* Adds the rate of a size from tune_next. A rate that is not a positive number counts as 0. */
void tune_add(struct tune *t, uint32_t size, double rate);
/* The smallest size whose rate is within TUNE_NEAR of the best; *rate is that size's own. 0 when
 * nothing fitted. */
uint32_t tune_pick(const struct tune *t, double *rate);

/* ---- on the device */

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

/* Times real time of another stage alone on the device, on made-up sound, where SETUP remembers
 * nothing of it and a transcription would be measured, too: 0 otherwise, and without the memory for
 * it. It is opened and closed; k as in SETUP. An error is the device's. */
int worker_tune_other(const struct worker *w, uint32_t k, const struct stage_setup *setup,
                      struct backend *be, float *ret, struct err *err);

/* Gives the device SETUP's algorithms before anything is loaded. Those that do not fit are timed
 * again, and sent in READY. */
void worker_recall(const struct worker *w, struct backend *be);

struct worker_room {
    uint32_t capacity;
    uint64_t predicted_bytes;         /* of all that is loaded */
    const struct err *const *why_not; /* of each stage: it is not loaded; code 0: it is */
    float *rates;                     /* of each stage but the first, as in READY */
};

/* READY; slots and windows as the first stage has them now. */
void worker_post_ready(struct worker *w, struct backend *be, const struct stage *stage,
                       const struct worker_room *room, const struct worker_tuning *t);
void worker_post_tuned(struct worker *w, uint32_t slots, uint32_t windows, const char *reason);

/* Notes the device's memory for heartbeats. Takes the worker's lock; any engine thread. */
void worker_note_memory(struct worker *w, const struct backend *be);

#endif
