/* scheduler/stage_aside.h - stages that cannot be done in this run: a model that is gone, or that
 * fits no device. run_is_aside says which. Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_STAGE_ASIDE_H
#define NIGHTSHIFT_SCHEDULER_STAGE_ASIDE_H

#include "scheduler/run/run.h"

/* The stage's tasks stay pending, the run goes on with the others and ends with this error. Its
 * leases are taken back. */
void stage_aside_put(struct run *run, const struct store_stage_row *stage, const struct err *why);
/* The run ends with this error, when all else is done; the first one counts. */
void stage_aside_why(struct stages_aside *a, const struct err *why);
void stage_aside_take_back(
    struct stages_aside *a); /* somebody may have mended them: all are tried again */
void stage_aside_free(struct stages_aside *a);

#endif
