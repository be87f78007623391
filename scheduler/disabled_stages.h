/* scheduler/disabled_stages.h - stages that cannot be done in this run: a model that is gone, or
 * that fits no device. run_is_disabled says which. Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_DISABLED_STAGES_H
#define NIGHTSHIFT_SCHEDULER_DISABLED_STAGES_H

#include "scheduler/run/run.h"

/* The stage's tasks stay pending, the run goes on with the others and ends with this error. Its
 * leases are taken back. */
void disabled_stage_put(struct run *run, const struct store_stage_row *stage,
                        const struct err *why);
/* The run ends with this error, when all else is done; the first one counts. */
void disabled_stage_why(struct disabled_stages *a, const struct err *why);
void disabled_stage_take_back(
    struct disabled_stages *a); /* somebody may have mended them: all are tried again */
void disabled_stage_free(struct disabled_stages *a);

#endif
