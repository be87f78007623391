/* scheduler/plan/restart.h - when a worker that died is started again, and when not any more. Pure.
 *
 * A death with nothing in hand (before it was ready, or idle) is the worker's own. A death with
 * work in hand may be a recording's doing, and bad recordings in a row must not cost the device:
 * there the different recordings that it was the first to die on alone are counted, since its last
 * result. A recording that failed, or died alone, before says nothing about this worker. */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_RESTART_H
#define NIGHTSHIFT_SCHEDULER_PLAN_RESTART_H

#include <stdbool.h>
#include <stdint.h>

#define RESTART_OWN_MAX 5u     /* own deaths in a row: put aside */
#define RESTART_VICTIMS_MAX 8u /* different recordings that it died on alone, in a row */
#define RESTART_BASE_MS 1000u
#define RESTART_CAP_MS 60000

struct restart {       /* all zero at first */
    uint32_t in_a_row; /* deaths since its last result */
    uint32_t own;
    uint32_t victim_count;
    int64_t victims[RESTART_VICTIMS_MAX];
};

enum restart_cause {
    RESTART_OWN,   /* it held nothing */
    RESTART_MANY,  /* it held several recordings */
    RESTART_ONE,   /* it held one, `task`, */
    RESTART_KNOWN, /* or one that failed or died alone before */
};

/* How long to wait before it is started again (base_ms 0: RESTART_BASE_MS); -1: put it aside. */
int64_t restart_death(struct restart *r, enum restart_cause cause, int64_t task, uint32_t base_ms);
/* It gave a result: everything is forgotten. */
void restart_result(struct restart *r);

#endif
