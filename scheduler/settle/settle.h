/* scheduler/settle/settle.h - recordings that need a look as a whole, once all of their shards are
 * there: what is to be settled is read from the catalog and given to settlers. Internal to
 * scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_SETTLE_SETTLE_H
#define NIGHTSHIFT_SCHEDULER_SETTLE_SETTLE_H

#include "scheduler/run/run.h"

int settle_open(struct run *run, struct err *err);
/* Gives out what is to be settled, and starts settlers for it. False: nothing is, and nothing is in
 * hand. */
bool settle_step(struct run *run);
void settle_take_back(struct run *run); /* settlers that are aside are tried again */
bool settle_in_hand(const struct run *run);
void settle_recheck(struct run *run); /* after a request: some may not be wanted any more */
void settle_leave(struct run *run);   /* QUIT to all */
void settle_free(struct run *run);

#endif
