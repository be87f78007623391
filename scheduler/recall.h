/* scheduler/recall.h - leases that end before their time: what a worker is told of it.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_RECALL_H
#define NIGHTSHIFT_SCHEDULER_RECALL_H

#include "scheduler/run/run.h"

void recall_cap(struct run *run, const struct planner_step *s); /* CAP, as the planner says */
/* CANCEL to every lease of a task: what is in hand is dropped. */
void recall_task(struct run *run, int64_t task);
void recall_track(struct run *run, const struct run_lease *l, uint32_t track);
/* CAP to every lease of a task: what is in hand is finished. */
void recall_at_checkpoint(struct run *run, int64_t task);

#endif
