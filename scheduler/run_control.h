/* scheduler/run_control.h - what other commands ask of a run through its socket.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_CONTROL_H
#define NIGHTSHIFT_SCHEDULER_RUN_CONTROL_H

#include "scheduler/run/run.h"

/* That nobody can reach it is told, and no error: the run is worth more than its remote control. */
void run_control_start(struct run *run);

#endif
