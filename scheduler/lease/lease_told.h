/* scheduler/lease/lease_told.h - leases of transcriptions whose text another one has written
 * already: it goes to the worker with the lease, and comes back with the times of its words.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_LEASE_LEASE_TOLD_H
#define NIGHTSHIFT_SCHEDULER_LEASE_LEASE_TOLD_H

#include "scheduler/run/run.h"

/* What is there of shards [first, last] of the task. Where there is nothing, or it cannot be read,
 * they are heard: the track stays as it is, and a fault is said. */
void told_add(struct run *run, const struct store_stage_row *stage, const struct store_task *t,
              uint32_t first, uint32_t last, struct msg_track *m);
/* All tracks' goes. */
void told_drop(struct msg_lease *m);
/* The lease as a message. What is told of it and no worker could read is dropped before, and that
 * is said. */
void told_put(struct run *run, const struct run_task *t, struct msg_lease *m, struct buf *ret);

#endif
