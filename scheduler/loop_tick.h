/* scheduler/loop_tick.h - what a run does in a tick of its loop: finalizes, reads on, leases; and
 * when it is over. Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_LOOP_TICK_H
#define NIGHTSHIFT_SCHEDULER_LOOP_TICK_H

#include "scheduler/run/run.h"

void loop_tick_steps(struct run *run); /* while it is dirty */
/* Goes on, or lets go of the devices at a checkpoint: as it is paused, and as its hours say. */
void loop_tick_hold(struct run *run);
void loop_tick_pause(struct run *run, bool paused); /* the whole catalog is, or is not any more */
/* Finishes started work up to a checkpoint; then the run ends. */
void loop_tick_stop(struct run *run);
/* No more is begun: workers and finalizers leave, or are killed; then the loop stops. */
void loop_tick_end(struct run *run, bool at_once);

#endif
