#include "scheduler/plan/room.h"

enum room_say room_look(struct room *r, const struct room_limits *l, uint64_t log_bytes,
                        uint64_t free_bytes)
{
    bool held = log_bytes > l->log_bytes, before = r->held, waited = r->waiting;

    r->held = held;
    if (!held) {
        r->told = r->waiting = false;
        return waited ? ROOM_AGAIN : ROOM_NOTHING;
    }
    if (waited) {
        r->waiting = free_bytes / 2 < l->free_bytes;
        return r->waiting ? ROOM_NOTHING : ROOM_AGAIN;
    }
    if (!before)
        return ROOM_NOTHING;
    if (free_bytes < l->free_bytes) {
        r->told = r->waiting = true;
        return ROOM_SHORT;
    }
    if (r->told)
        return ROOM_NOTHING;
    r->told = true;
    return ROOM_HELD;
}
