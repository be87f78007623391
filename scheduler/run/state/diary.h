/* scheduler/run/state/diary.h - what diary.c keeps of a run, and of each worker. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_STATE_DIARY_H
#define NIGHTSHIFT_SCHEDULER_RUN_STATE_DIARY_H

#include <stdbool.h>
#include <stdint.h>

struct run_stretch { /* what a device did since the diary was written last */
    int64_t busy_ms, audio_ms;
    uint64_t memory_bytes, predicted_bytes; /* the most */
    uint32_t slots, windows;
    /* By the driver (gpu_watch.c). Sums are of values times ms of the stretch. */
    int64_t seen_ms, left_ms, percent_ms, microjoules;
    int64_t celsius, used_bytes; /* the most */
    bool percents, milliwatts;   /* any of them was known */
};

struct worker_diary {
    struct run_stretch stretch;
    int64_t busy_before_ms, audio_before_ms, microjoules_before; /* in the stretches before */
};

struct diary {
    int64_t run_id;
    int64_t stretch_ms;         /* wall clock: where the stretch begins that is on */
    int64_t ticked_ms, span_ms; /* span: of the stretch, in this run */
    int64_t work_ms;            /* of the run, so long any device had work */
    uint64_t noted;             /* results that its row was written with last ... */
    int64_t note_due_ms;        /* ... and when it may be again: monotonic */
};

#endif
