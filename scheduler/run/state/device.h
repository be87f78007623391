/* scheduler/run/state/device.h - what is known of a worker's device: what it takes at once
 * (remembered_batch.c), how its work goes on (supervisor.c), what the driver sees of it
 * (gpu_watch.c). */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_STATE_DEVICE_H
#define NIGHTSHIFT_SCHEDULER_RUN_STATE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/sight/sight.h"
#include "scheduler/plan/rate.h"
#include "scheduler/run/options.h"

/* How a device is used, as its worker says, and what of it is to be remembered. */
struct device_use {
    char precision[16];
    /* What it was set up with: the run's stage may be another by now. */
    char model_hash[130], decoding[SCHEDULER_DECODING_LEN];
    uint32_t slots, windows; /* 0: not ready yet */
    uint64_t predicted, peak;
    float rate;
    bool measured;   /* by this worker */
    bool remembered; /* the catalog has it, or will */
};

struct worker_memory { /* remembered_batch.c */
    struct device_use use;
    uint64_t peak_bytes, predicted_bytes; /* of device memory, in the whole run */
};

struct worker_pulse {  /* supervisor.c; anew with each process: worker_pool.c */
    int64_t moved_ms;  /* last sign that its work goes on (monotonic) */
    int64_t engine_ms; /* last sign that its engine does */
    uint64_t engine_beat, audio_ms, decoded_ms;
    struct rate rate;      /* while it has work: idling says nothing about its speed */
    int64_t busy_ms;       /* since when it has had work */
    double speed;          /* times real time, as it was last seen at work; 0 not yet */
    uint64_t memory_bytes; /* that it holds now: the device's, or a host worker's own */
};

struct worker_sight {      /* gpu_watch.c */
    struct gpu_sight seen; /* what the driver saw of its device last */
    int64_t at_ms;         /*   and when (monotonic); 0: nothing yet */
};

#endif
