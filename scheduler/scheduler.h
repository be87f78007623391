/* scheduler/scheduler.h - one run: from a catalog with pending tasks to one without.
 *
 * Owns the libuv loop, the only writing connection, the workers and the control socket. Single
 * thread. */
#ifndef NIGHTSHIFT_SCHEDULER_SCHEDULER_H
#define NIGHTSHIFT_SCHEDULER_SCHEDULER_H

#include "base/err.h"
#include "scheduler/run/options.h"

/* Returns 0 when the run ended in order (also when recordings failed, or it was drained). */
int scheduler_run(const struct scheduler_options *o, struct scheduler_result *ret, struct err *err);

#endif
