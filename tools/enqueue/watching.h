/* tools/enqueue/watching.h - stays with files and folders, and enqueues what comes.
 *
 * A look compares names, sizes and times alone. If they differ from what was enqueued last, it
 * starts an `enqueue` of all roots in a process of its own. That process judges which files are
 * stable as of the look, so it takes what the look saw. A look follows some time after inotify
 * events; without them (network shares, a root that is not there, more folders than the kernel can
 * watch) it comes every poll_ms. It ignores what the events were, so none is missed when the
 * kernel's queue overflows. One thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_WATCHING_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_WATCHING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

#define WATCHING_AS_OF 24

struct watching {
    const char *const *roots; /* absolute */
    uint32_t root_count;
    const char *const *argv; /* of the enqueue; ends with NULL */
    char *as_of;             /* a word of argv, WATCHING_AS_OF bytes: the look's time, in ms */
    bool hidden;             /* what is hidden is enqueued, too */
    int64_t stable_ms;       /* a file is whole when nothing has happened to it for so long */
    int64_t poll_ms;
};

/* Until SIGINT, SIGTERM or SIGHUP: 0. An enqueue that fails is said, and tried again. */
int watching_run(const struct watching *w, struct err *err);

/* Is it so long that anything happened to the file? A time that is ahead of our clock by more than
 * that, of a server whose clock is wrong, says nothing, and counts as stable. Pure. */
bool watching_is_stable(const struct stat *st, int64_t stable_ms, int64_t now_ms);

#endif
