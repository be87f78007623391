/* scheduler/dispatch.h - leases to workers, as the planner gives them out, and what becomes of a
 * task whose leases have all ended. Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_DISPATCH_H
#define NIGHTSHIFT_SCHEDULER_DISPATCH_H

#include "scheduler/run/run.h"

void dispatch_all(struct run *run); /* until the planner has nothing to say */
/* Forgets a lease with its tracks; the planner is told of its end by itself. */
void dispatch_close(struct run *run, struct run_lease *l);
void dispatch_free(struct run *run);

/* Ends a task that has no open leases any more (e->idle): it is done, forgotten, queued again,
 * tried again later, or given up. *t may be gone afterwards. */
void task_end(struct run *run, struct run_task *t, const struct planner_ended *e);

#endif
