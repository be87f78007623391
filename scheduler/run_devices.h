/* scheduler/run_devices.h - the devices of a run, and a worker for each.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_DEVICES_H
#define NIGHTSHIFT_SCHEDULER_RUN_DEVICES_H

#include "scheduler/run/run.h"

/* Finds and picks the devices, and makes a worker for each. Starts nothing that stays. */
int run_devices_init(struct run *run, struct err *err);
void run_devices_free(struct run_devices *d);
void run_devices_say(struct run *run); /* warnings, and why no GPU works */

#endif
