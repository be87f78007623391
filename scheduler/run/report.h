/* scheduler/run/report.h - what a run says while it goes on: the progress line, events, the
 * summary. Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_REPORT_H
#define NIGHTSHIFT_SCHEDULER_RUN_REPORT_H

#include "scheduler/run/run.h"

void report_start(struct run *run);
void report_tick(struct run *run, int64_t now_ms);
void report_end(struct run *run);
/* A log line that does not tear the progress line. */
void report_event(struct run *run, int level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
