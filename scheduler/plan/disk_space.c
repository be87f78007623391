#include "scheduler/plan/disk_space.h"

static enum disk_space_say log_look(struct disk_space *r, const struct disk_space_limits *l,
                                    uint64_t log_bytes, uint64_t free_bytes)
{
    bool held = log_bytes > l->log_bytes, before = r->held, waited = r->log_waits;

    r->held = held;
    if (!held) {
        r->told = r->log_waits = false;
        return waited ? DISK_SPACE_AGAIN : DISK_SPACE_NOTHING;
    }
    if (waited) {
        r->log_waits = free_bytes / 2 < l->free_bytes;
        return r->log_waits ? DISK_SPACE_NOTHING : DISK_SPACE_AGAIN;
    }
    if (!before)
        return DISK_SPACE_NOTHING;
    if (free_bytes < l->free_bytes) {
        r->told = r->log_waits = true;
        return DISK_SPACE_SHORT;
    }
    if (r->told)
        return DISK_SPACE_NOTHING;
    r->told = true;
    return DISK_SPACE_HELD;
}

enum disk_space_say disk_space_look(struct disk_space *r, const struct disk_space_limits *l,
                                    uint64_t log_bytes, uint64_t free_bytes)
{
    const bool waited = r->waiting, was_full = r->full;
    const enum disk_space_say say = log_look(r, l, log_bytes, free_bytes);

    r->full = (was_full ? free_bytes / 2 : free_bytes) < l->full_bytes;
    r->waiting = r->log_waits || r->full;
    if (waited && !r->waiting)
        return DISK_SPACE_AGAIN;
    if (say == DISK_SPACE_AGAIN) /* for the log's sake, but the disk is full */
        return DISK_SPACE_NOTHING;
    return r->full && !was_full && say != DISK_SPACE_SHORT ? DISK_SPACE_FULL : say;
}
