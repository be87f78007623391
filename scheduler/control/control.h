/* scheduler/control/control.h - the local socket of a run, seen from another command.
 *
 * The run listens on FILE.sock beside the catalog (mode 0600; the peer's uid is checked). One frame
 * asks, one frame answers (workers/wire/frame.h): CONTROL_REQUEST carries a store request, answered
 * by CONTROL_REPLY or CONTROL_ERROR; CONTROL_STATUS is answered by CONTROL_LIVE. Blocking; for
 * tools.
 */
#ifndef NIGHTSHIFT_SCHEDULER_CONTROL_CONTROL_H
#define NIGHTSHIFT_SCHEDULER_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/requests/request.h"

enum control_type {
    CONTROL_REQUEST = 100,
    CONTROL_REPLY,
    CONTROL_ERROR, /* i32 code, string */
    CONTROL_STATUS,
    CONTROL_LIVE,
};

struct control_live { /* what only the run knows */
    uint32_t pid, workers;
    /* That take work. What a worker did is in the catalog before it is not counted any more (unless
     * the catalog cannot be written, or the run is told to stop at once); its process, and with it
     * the device's memory, is gone some moments later. */
    uint32_t workers_ready;
    int64_t started_ms;      /* wall clock */
    uint64_t audio_done_ms;  /* in this run, by the heartbeats */
    double speed;            /* times real time, of the last minutes */
    int64_t low_ms, high_ms; /* until its end; -1 unknown */
    bool draining;
    char work[240];       /* a recording in work, its name for people, cut to that; "" none is */
    int64_t work_percent; /* of it; -1: too short to tell */
    uint32_t work_more;   /* others in work */
};

struct control;
/* ERR_EMPTY: no run listens on this catalog. */
int control_connect(const char *catalog, struct control **ret, struct err *err);
int control_request(struct control *c, const struct request *rq, struct request_reply *ret,
                    struct err *err);
int control_status(struct control *c, struct control_live *ret, struct err *err);
void control_close(struct control *c);

#endif
