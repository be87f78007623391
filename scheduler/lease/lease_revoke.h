/* scheduler/lease/lease_revoke.h - leases that end before their time: what a worker is told of it.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_LEASE_LEASE_REVOKE_H
#define NIGHTSHIFT_SCHEDULER_LEASE_LEASE_REVOKE_H

#include "scheduler/run/run.h"

void lease_revoke_cap(struct run *run, const struct planner_step *s); /* CAP, as the planner says */
/* CANCEL to every lease of a task: what is in hand is dropped. */
void lease_revoke_task(struct run *run, int64_t task);
void lease_revoke_track(struct run *run, const struct run_lease *l, uint32_t track);
/* CAP to every lease of a task: what is in hand is finished. */
void lease_revoke_at_checkpoint(struct run *run, int64_t task);

#endif
