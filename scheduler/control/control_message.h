/* scheduler/control/control_message.h - what goes over a run's local socket, beside the store's
 * requests and replies. */
#ifndef NIGHTSHIFT_SCHEDULER_CONTROL_CONTROL_MESSAGE_H
#define NIGHTSHIFT_SCHEDULER_CONTROL_CONTROL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum control_type {
    CONTROL_REQUEST = 100,
    CONTROL_REPLY,
    CONTROL_ERROR, /* i32 code, string */
    CONTROL_STATUS,
    CONTROL_LIVE,
};

#define CONTROL_DEVICES 64u

struct control_device {
    char name[48]; /* "cuda:0", "cpu #2" */
    bool ready;    /* its worker takes work */
    bool left;     /* it is left to others (run --idle), */
    char user[32]; /*   of whom this is known: "pid 4711"; "" */
    /* What the driver sees of it, whoever uses it; -1: not known. */
    int64_t percent, celsius, milliwatts, used_bytes, total_bytes;
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
    char note[64];        /* what it waits for: "paused", "resting until 22:00"; "" nothing */
    char hours[64];       /* at which it works: "22:00-06:00, until 07:00"; "" at any */
    char work[240];       /* a recording in work, its name for people, cut to that; "" none is */
    int64_t work_percent; /* of it; -1: too short to tell */
    uint32_t work_more;   /* others in work */
    struct control_device device[CONTROL_DEVICES];
    uint32_t devices; /* of them; a run of more tells of the first */
};

void control_live_put(struct buf *out, const struct control_live *m);
int control_live_get(const uint8_t *data, size_t len, struct control_live *ret, struct err *err);
void control_error_put(struct buf *out, const struct err *e);
/* Returns the code that was sent, or ERR_PROTOCOL; *err has the sentence. */
int control_error_get(const uint8_t *data, size_t len, struct err *err);

#endif
