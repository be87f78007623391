#include "scheduler/plan/room.h"

static enum room_say log_look(struct room *r, const struct room_limits *l, uint64_t log_bytes,
                              uint64_t free_bytes)
{
    bool held = log_bytes > l->log_bytes, before = r->held, waited = r->log_waits;

    r->held = held;
    if (!held) {
        r->told = r->log_waits = false;
        return waited ? ROOM_AGAIN : ROOM_NOTHING;
    }
    if (waited) {
        r->log_waits = free_bytes / 2 < l->free_bytes;
        return r->log_waits ? ROOM_NOTHING : ROOM_AGAIN;
    }
    if (!before)
        return ROOM_NOTHING;
    if (free_bytes < l->free_bytes) {
        r->told = r->log_waits = true;
        return ROOM_SHORT;
    }
    if (r->told)
        return ROOM_NOTHING;
    r->told = true;
    return ROOM_HELD;
}

enum room_say room_look(struct room *r, const struct room_limits *l, uint64_t log_bytes,
                        uint64_t free_bytes)
{
    const bool waited = r->waiting, was_full = r->full;
    const enum room_say say = log_look(r, l, log_bytes, free_bytes);

    r->full = (was_full ? free_bytes / 2 : free_bytes) < l->full_bytes;
    r->waiting = r->log_waits || r->full;
    if (waited && !r->waiting)
        return ROOM_AGAIN;
    if (say == ROOM_AGAIN) /* for the log's sake, but the disk is full */
        return ROOM_NOTHING;
    return r->full && !was_full && say != ROOM_SHORT ? ROOM_FULL : say;
}
