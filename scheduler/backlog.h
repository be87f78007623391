/* scheduler/backlog.h - the work that waits: stages in their turn, their tasks into the planner.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_BACKLOG_H
#define NIGHTSHIFT_SCHEDULER_BACKLOG_H

#include "scheduler/run/run.h"

/* Refills the planner from the current stage; chooses the stage when there is none. Returns false
 * when nothing is runnable now (workers may still hold leases). */
bool backlog_refill(struct run *run);
void backlog_rescan(struct run *run); /* the catalog has changed: look at every task again */
/* Forgets what is not leased: it is read from the catalog again. False: not now, or never. */
bool backlog_forget_queued(struct run *run);
/* Another stage may have something of a higher priority than the run's: then what that holds is
 * finished to a checkpoint, and the other one is next. Called when requests may have changed it. */
void backlog_overtake(struct run *run);
/* After a request: forget what is not leased, stop leases of tasks that are not wanted any more.
 * cancel: their work in hand is dropped; else it is ended at a checkpoint. */
void backlog_recheck(struct run *run, bool cancel);
void backlog_drop(struct run *run, int64_t task); /* forgets a task without leases, here and in the
                                                     planner */
void backlog_end_stage(struct run *run); /* the run is at no stage: the next refill chooses one */
void backlog_free(struct run *run);
/* Work that waits in the catalog and is not queued yet, in shards of full length: about. */
double backlog_unread(const struct run *run);
char *backlog_shown(const struct store_task *t); /* its name for people; owned; NULL: no memory */

#endif
