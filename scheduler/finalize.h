/* scheduler/finalize.h - recordings that need a look as a whole, once all of their shards
 * are there: what is to be finalized is read from the catalog and given to finalizers. Internal to
 * scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_FINALIZE_H
#define NIGHTSHIFT_SCHEDULER_FINALIZE_H

#include "scheduler/run/run.h"

int finalize_open(struct run *run, struct err *err);
/* Gives out what is to be finalized, and starts finalizers for it. False: nothing is, and nothing
 * is in hand. */
bool finalize_step(struct run *run);
void finalize_take_back(struct run *run); /* finalizers that are quarantined are tried again */
bool finalize_in_hand(const struct run *run);
void finalize_recheck(struct run *run); /* after a request: some may not be wanted any more */
void finalize_leave(struct run *run);   /* QUIT to all */
void finalize_free(struct run *run);

#endif
