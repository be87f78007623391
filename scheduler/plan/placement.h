/* scheduler/plan/placement.h - does a model fit a device, how is it set up there, and how fast will
 * it be?
 *
 * Pure: no clock, no I/O, no allocation; any thread. Nothing is loaded or measured here: sizes are
 * predictions, and a speed is what was measured by an earlier run or else an estimate from the
 * device's published peaks. Memory that other programs hold is respected because only what is free
 * is counted. */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_PLACEMENT_H
#define NIGHTSHIFT_SCHEDULER_PLAN_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/devices/devices.h"
#include "gpu/precision.h"

#define PLACEMENT_WINDOW_S 30.0
#define PLACEMENT_TOKENS 100.0 /* of a window: lively speech */

/* A model's needs and speed. Borrowed. */
struct placement_model {
    const char *name;     /* for sentences */
    const char *hash;     /* what measurements are remembered by, and: */
    const char *decoding; /* as in store/tuning.h */
    uint32_t branches;    /* hypotheses that a window may have at once; 0: 1 */
    /* All that a worker takes of this device's memory. */
    uint64_t (*bytes)(const void *arg, const struct device *d, enum precision p, uint32_t slots,
                      uint32_t windows);
    const void *arg;
    double encoder_flop;        /* of a window */
    double token_flop;          /* of a token of a window, in all of its hypotheses */
    double decoder_weights;     /* read once for a step of all slots */
    double align_flop;          /* to place a window's words in its sound; 0: they are not */
    double token_values;        /* keys and values read for a token, */
    enum cache_precision cache; /*   kept so */
};

/* Measurements of an earlier run. Borrowed. */
struct placement_tuning {
    const char *device_id, *driver, *model_hash, *decoding;
    enum precision precision;
    uint32_t slots, windows;
    double rate; /* times real time; 0 unknown */
};

struct placement_wish { /* the user's; 0: chosen */
    enum precision precision;
    uint32_t slots;
    uint32_t threads; /* of the processor, for each of its workers */
    bool deterministic;
    uint32_t sharers; /* workers on the same memory: the processor may come twice; 0: 1 */
};

/* "32.5 GiB", "34 MiB" */
#define PLACEMENT_SIZE 24
char *placement_size(uint64_t bytes, char out[PLACEMENT_SIZE]);

enum placement_source { PLACEMENT_UNKNOWN, PLACEMENT_ESTIMATED, PLACEMENT_MEASURED };

struct placement {
    bool fits;
    enum precision precision; /* never AUTO when it fits */
    uint32_t slots, windows;
    bool remembered;       /* slots and windows are those of an earlier run, maybe lowered */
    uint64_t bytes;        /* predicted; of one slot and one window when it does not fit */
    uint64_t budget, free; /* of device memory; free is this worker's share */
    double speed;          /* times real time; 0 when `source` is UNKNOWN */
    enum placement_source source;
    char why[200];  /* it does not fit: a sentence without a full stop; else "" */
    char note[200]; /* something is not as it was wished, and why; else "" */
};

/* Places one model on one device. tunings: all that is remembered, of whatever device. */
void placement_decide(const struct device *d, const struct placement_model *m,
                      const struct placement_wish *wish, const struct placement_tuning *tunings,
                      size_t tuning_count, struct placement *ret);

/* Chooses the largest model that fits, by memory: in one family that is the most accurate. -1 when
 * none fits. */
int placement_largest(const struct device *d, const struct placement_model *models, size_t n,
                      const struct placement_wish *wish);

/* What the device computes in: ret->precision. False: ret->why says what it has instead. */
bool placement_precision(const struct device *d, enum precision wish, struct placement *ret);

/* How many times real time a stage of such costs is on the device, by its published peaks; 0: not
 * known. h200_s: seconds of an H200 for an hour of sound; core_s: of one core of a processor. */
double placement_other_speed(const struct device *d, double h200_s, double core_s,
                             uint32_t threads);

/* The device's published peaks for dense products in this precision and for its memory, in FLOP and
 * bytes per second. A processor's peaks depend on its threads. False: nothing is known about it. */
bool placement_peaks(const struct device *d, enum precision p, uint32_t threads, double *flop_s,
                     double *bytes_s);

#endif
