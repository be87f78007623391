/* scheduler/task_end.h - what becomes of a task whose leases have all ended: it is done, forgotten,
 * queued again, tried again later, or given up.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_TASK_END_H
#define NIGHTSHIFT_SCHEDULER_TASK_END_H

#include "scheduler/run/run.h"

/* No lease of it is open any more (e->idle). *t may be gone afterwards. */
void task_end(struct run *run, struct run_task *t, const struct planner_ended *e);

#endif
