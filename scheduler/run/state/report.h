/* scheduler/run/state/report.h - what report.c and metrics_file.c keep of a run. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_STATE_REPORT_H
#define NIGHTSHIFT_SCHEDULER_RUN_STATE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/plan/progress.h"

struct report {
    int64_t due_ms, json_due_ms;
    bool line_shown, tty, color;
    char said[PROGRESS_LINE]; /* the last such line of the log */
};

struct metrics_file {
    int64_t due_ms;
    bool told; /* that they cannot be written */
};

#endif
