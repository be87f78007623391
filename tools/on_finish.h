/* tools/on_finish.h - a command of the user's that learns what a run did (run --on-finish). Main
 * thread. */
#ifndef NIGHTSHIFT_TOOLS_ON_FINISH_H
#define NIGHTSHIFT_TOOLS_ON_FINISH_H

#include "scheduler/run/options.h"

/* Seconds that the command may take; $NIGHTSHIFT_ON_FINISH_SECONDS has others. */
#define ON_FINISH_SECONDS 600

/* Has /bin/sh run the command, with the report of the last run on its standard input, NIGHTSHIFT_*
 * in its environment, which stay in ours, and both of its outputs on our standard error; waits for
 * it. failure: why the run failed, or never began; code 0: it did not. An error here is only logged
 * as a warning. */
void on_finish(const char *command, const char *catalog, const struct scheduler_result *r,
               const struct err *failure);

#endif
