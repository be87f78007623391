/* scheduler/run/state/rest.h - when a run keeps still: what rest/ keeps of it. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_STATE_REST_H
#define NIGHTSHIFT_SCHEDULER_RUN_STATE_REST_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/plan/idle.h"

struct working_hours { /* working_hours.c */
    bool shut;         /* it is not the time to work */
    bool over;         /* hours.until has come: the run ends */
    int64_t end_ms;    /* wall clock: of hours.until */
    char text[48];     /* "resting until 22:00", while shut */
};

struct make_way {       /* make_way.c */
    bool other_numbers; /* pids are not those that the driver has */
    bool all_left;      /* every device is left to others: nothing is begun */
    char text[64];      /*   "waiting: others use cuda:0", while that is so */
};

struct worker_way { /* make_way.c */
    struct idle idle;
    bool left;     /* its device is left to others */
    char user[32]; /*   of whom this is known: "pid 4711"; "" */
};

#endif
