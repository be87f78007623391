/* scheduler/rest.h - when a run keeps still: it works at some hours only (run --until, --between),
 * and leaves GPUs to others who use them (run --idle). The policy is in plan/rest.h. Internal to
 * scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_REST_H
#define NIGHTSHIFT_SCHEDULER_REST_H

#include "scheduler/run/run.h"

#define WORKING_HOURS_TEXT 64
void working_hours_begin(struct run *run); /* says them */
void working_hours_tick(struct run *run);  /* rests, goes on, or ends the run at a checkpoint */
/* "22:00-06:00, until 07:00"; "": at any hour. */
void working_hours_text(const struct run *run, char ret[WORKING_HOURS_TEXT]);

/* ---- a GPU that others use is left to them, at a checkpoint, and taken again when it was free for
 * some minutes. Each device for itself. */

void make_way_begin(struct run *run); /* says it; what others use is not begun with */
void make_way_tick(struct run *run, int64_t now_ms);

#endif
