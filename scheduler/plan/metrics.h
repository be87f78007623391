/* scheduler/plan/metrics.h - a run's figures as Prometheus reads them (text format 0.0.4). Pure.
 * docs/reference/program.md says what each means. */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_METRICS_H
#define NIGHTSHIFT_SCHEDULER_PLAN_METRICS_H

#include "base/buf.h"
#include "scheduler/plan/progress.h"

struct metrics_device {
    char name[48]; /* "cuda:0", "cpu #2" */
    bool ready;
    int64_t busy_ms, audio_ms; /* in this run */
    uint64_t memory_bytes, predicted_bytes;
    uint32_t slots, windows;
    bool left; /* to others: run --idle */
    /* By the driver, of the whole device, whoever uses it; -1: not known. */
    int percent, celsius;
    int64_t milliwatts, joules; /* joules: in this run */
    int64_t used_bytes, total_bytes;
};

struct metrics {
    struct progress progress;
    bool on;               /* false: the last words of a run */
    int64_t started_ms;    /* wall clock */
    int64_t audio_ms;      /* heard in this run */
    uint64_t done, failed; /* recordings in this run */
    const struct metrics_device *device;
    size_t devices;
};

/* Appends; a buffer that failed stays failed. */
void metrics_text(const struct metrics *m, struct buf *out);

#endif
