/* scheduler/supervisor.h - what is particular to workers among the processes of a run.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_SUPERVISOR_H
#define NIGHTSHIFT_SCHEDULER_SUPERVISOR_H

#include "scheduler/run/run.h"

/* Its label and device are there. */
void supervisor_add(struct run *run, struct run_worker *w);

#endif
