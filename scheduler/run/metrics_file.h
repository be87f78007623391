/* scheduler/run/metrics_file.h - the run's figures in a file for Prometheus (run --metrics),
 * replaced as a whole: its reader never sees a part. Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_METRICS_FILE_H
#define NIGHTSHIFT_SCHEDULER_RUN_METRICS_FILE_H

#include "scheduler/run/run.h"

void metrics_file_tick(struct run *run, int64_t now_ms); /* monotonic; each ten seconds */
void metrics_file_end(struct run *run);                  /* the last words */

#endif
