/* scheduler/rest/make_way.h - run --idle: a GPU that others use is left to them, at a checkpoint,
 * and taken again when it was free for some minutes (plan/idle.h). Each device for itself. Internal
 * to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_REST_MAKE_WAY_H
#define NIGHTSHIFT_SCHEDULER_REST_MAKE_WAY_H

#include "scheduler/run/run.h"

void make_way_begin(struct run *run); /* says it; what others use is not begun with */
void make_way_tick(struct run *run, int64_t now_ms);

#endif
