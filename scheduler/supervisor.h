/* scheduler/supervisor.h - what is particular to workers among the processes of a run.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_SUPERVISOR_H
#define NIGHTSHIFT_SCHEDULER_SUPERVISOR_H

#include "scheduler/run/run.h"

/* Its label and device are there. */
void supervisor_add(struct run *run, struct run_worker *w);
void supervisor_want(struct run *run);  /* start all that are OFF */
void supervisor_drain(struct run *run); /* DRAIN to all; those that are not ready leave */
void supervisor_leave(struct run *run); /* QUIT to all */
/* Devices for which the last stage was too large may have room for another. */
void supervisor_new_stage(struct run *run);

#endif
