/* scheduler/plan/disk_space.h - room for the catalog on its disk, and its log that cannot be
 * emptied. Pure.
 *
 * SQLite's log (FILE-wal) grows for as long as somebody reads in one transaction, and a shell that
 * was forgotten reads for ever. The run looks from time to time, and tells people once; when little
 * room is left it begins nothing new, before the disk is full. Nor does it where the disk is about
 * to be full for any other reason. */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_DISK_SPACE_H
#define NIGHTSHIFT_SCHEDULER_PLAN_DISK_SPACE_H

#include <stdbool.h>
#include <stdint.h>

struct disk_space_limits {
    uint64_t log_bytes;  /* a log beyond this is held by somebody */
    uint64_t free_bytes; /* less than this is little beside such a log */
    uint64_t full_bytes; /* less than this is little in any case */
};

struct disk_space { /* all zero at first */
    bool held;      /* at the last look, too; a reader that is just passing is not spoken of */
    bool told;      /* since the log became too long */
    bool log_waits, full; /* why: for the log's sake; for the disk's */
    bool waiting;         /* for either: nothing new is begun */
};

enum disk_space_say {
    DISK_SPACE_NOTHING,
    DISK_SPACE_HELD,  /* the log is too long, because somebody holds it */
    DISK_SPACE_SHORT, /* the same, and the run waits */
    DISK_SPACE_FULL,  /* the disk is nearly full, and the run waits */
    DISK_SPACE_AGAIN, /* it does not wait any more */
};

/* One look: what the log takes after it was tried to empty it, and what is free on its disk.
 * Waiting ends when the log is short again or twice the limit is free; for the disk's sake, when
 * twice full_bytes is free. */
enum disk_space_say disk_space_look(struct disk_space *r, const struct disk_space_limits *l,
                                    uint64_t log_bytes, uint64_t free_bytes);

#endif
