/* scheduler/lease/lease_passages.h - the text of a recording in the lease of a stage that works on
 * it. Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_LEASE_LEASE_PASSAGES_H
#define NIGHTSHIFT_SCHEDULER_LEASE_LEASE_PASSAGES_H

#include "scheduler/run/run.h"

/* Reads t->passages as they are now: 0; 1 when nobody spoke; or an error. */
int passages_read(struct run *run, struct run_task *t, struct err *err);
void passages_drop(struct run_task *t);
/* The lease's part; the texts stay the task's. */
void passages_fill(const struct run_task *t, struct msg_lease *m);
/* Does the worker's answer fit them? False: *err says how not. */
bool passages_answered(const struct run_task *t, const struct msg_shard_done *m, struct err *err);

#endif
