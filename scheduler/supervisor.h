/* scheduler/supervisor.h - the devices of a run, a worker for each, and what is particular to
 * workers among its processes. Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_SUPERVISOR_H
#define NIGHTSHIFT_SCHEDULER_SUPERVISOR_H

#include "scheduler/run/run.h"

/* Its label and device are there. */
void supervisor_add(struct run *run, struct run_worker *w);

/* Finds and picks the devices, and makes a worker for each. Starts nothing that stays. */
int run_devices_init(struct run *run, struct err *err);
void run_devices_free(struct run_devices *d);
void run_devices_say(struct run *run); /* warnings, and why no GPU works */

#endif
