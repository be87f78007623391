/* scheduler/worker_pool.h - all of the run's workers: started for a stage, drained, told to leave.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_WORKER_POOL_H
#define NIGHTSHIFT_SCHEDULER_WORKER_POOL_H

#include "scheduler/run/run.h"

void worker_pool_start(struct run_worker *w);   /* one that has no process */
void worker_pool_dismiss(struct run_worker *w); /* QUIT */

/* DRAIN; one that is not ready leaves. */
void worker_pool_drain_one(struct run_worker *w);

void worker_pool_want(struct run *run);  /* start all that are OFF, and whose devices are ours */
void worker_pool_drain(struct run *run); /* DRAIN to all; those that are not ready leave */
void worker_pool_leave(struct run *run); /* QUIT to all */
/* The stage's model has failed w: why. If that may be fp16's range, which `auto` takes and models
 * of bf16 may leave, all workers in fp16 leave and begin again in what has more: true; what they
 * hold comes back. False: it is the model's fault, or who chose the precision must know. */
bool worker_pool_left_fp16(struct run_worker *w, const char *why);
/* Devices for which the last stage was too large may have room for another. */
void worker_pool_new_stage(struct run *run);
bool worker_pool_all_too_small(const struct run *run); /* for the stage's model */

#endif
