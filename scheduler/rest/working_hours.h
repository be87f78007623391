/* scheduler/rest/working_hours.h - a run that works at some hours only (plan/hours.h), as its
 * options say. Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_REST_WORKING_HOURS_H
#define NIGHTSHIFT_SCHEDULER_REST_WORKING_HOURS_H

#include "scheduler/run/run.h"

#define WORKING_HOURS_TEXT 64
void working_hours_begin(struct run *run); /* says them */
void working_hours_tick(struct run *run);  /* rests, goes on, or ends the run at a checkpoint */
/* "22:00-06:00, until 07:00"; "": at any hour. */
void working_hours_text(const struct run *run, char ret[WORKING_HOURS_TEXT]);

#endif
