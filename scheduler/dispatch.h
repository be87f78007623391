/* scheduler/dispatch.h - leases to workers, as the planner gives them out.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_DISPATCH_H
#define NIGHTSHIFT_SCHEDULER_DISPATCH_H

#include "scheduler/run/run.h"

void dispatch_all(struct run *run); /* until the planner has nothing to say */
/* Forgets a lease with its tracks; the planner is told of its end by itself. */
void dispatch_close(struct run *run, struct run_lease *l);
void dispatch_free(struct run *run);

#endif
