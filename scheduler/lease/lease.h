/* scheduler/lease/lease.h - what goes to a worker with a lease beside its shards, and leases that
 * end before their time. Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_LEASE_LEASE_H
#define NIGHTSHIFT_SCHEDULER_LEASE_LEASE_H

#include "scheduler/run/run.h"

/* ---- leases that end before their time: what a worker is told of it */

void lease_revoke_cap(struct run *run, const struct planner_step *s); /* CAP, as the planner says */
/* CANCEL to every lease of a task: what is in hand is dropped. */
void lease_revoke_task(struct run *run, int64_t task);
void lease_revoke_track(struct run *run, const struct run_lease *l, uint32_t track);
/* CAP to every lease of a task: what is in hand is finished. */
void lease_revoke_at_checkpoint(struct run *run, int64_t task);

/* ---- the text of a recording in the lease of a stage that works on it */

/* Reads t->passages as they are now: 0; 1 when nobody spoke; or an error. */
int passages_read(struct run *run, struct run_task *t, struct err *err);
void passages_drop(struct run_task *t);
/* The lease's part; the texts stay the task's. */
void passages_fill(const struct run_task *t, struct msg_lease *m);
/* Does the worker's answer fit them? False: *err says how not. */
bool passages_answered(const struct run_task *t, const struct msg_shard_done *m, struct err *err);

/* ---- leases of transcriptions whose text another one has written already: it goes to the worker
 * with the lease, and comes back with the times of its words */

/* Adds the known text of the task's shards [first, last]. If there is none, or it cannot be read,
 * they are heard: the track stays as it is, and an error is reported. */
void known_text_add(struct run *run, const struct store_stage_row *stage,
                    const struct store_task *t, uint32_t first, uint32_t last, struct msg_track *m);
/* All tracks' goes. */
void known_text_drop(struct msg_lease *m);
/* The lease as a message. Known text that no worker could read is dropped first, and that is
 * reported. */
void known_text_put(struct run *run, const struct run_task *t, struct msg_lease *m,
                    struct buf *ret);

#endif
