/* base/replace.h - a file that takes the place of another as a whole: written beside it, synced,
 * and renamed. Whoever reads the name finds the old file or the new one, and after a power cut,
 * too.
 *
 * Any thread, each with files of its own. */
#ifndef NIGHTSHIFT_BASE_REPLACE_H
#define NIGHTSHIFT_BASE_REPLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* What is written beside NAME is NAME.writing-HOST-PID, so that neither another machine nor another
 * process has the same. Somebody who is killed leaves it there. */
#define REPLACE_BESIDE ".writing-"

enum replace_owner {
    REPLACE_OURS,    /* whatever the name is */
    REPLACE_PRIVATE, /* ours, and a new file is for this user alone */
    /* A name that somebody typed: what is no plain file (a link, a device, a folder) or an SQLite
     * database stays as it is, ERR_USAGE. */
    REPLACE_THEIRS,
};

/* `path` holds these bytes, or on an error what it held, with the permissions that it had; where
 * only the folder could not be synced, the bytes, and after a power cut either. */
int replace_file(const char *path, const void *data, size_t len, enum replace_owner whose,
                 struct err *err);

/* The same in steps, for who has more to say between them. The name of what is written beside
 * `path`, newly allocated; what somebody with our number left there is removed. */
int replace_beside(const char *path, char **ret, struct err *err);
/* A new file, never one that is there, never through a link, with the bytes of `from`, synced. On
 * an error it is gone again. */
int replace_copy(const char *from, const char *to, struct err *err);
/* `beside` becomes `path`, and is freed in any case; on an error it is removed. ERR_MISSING: it was
 * gone, and `path` is what it was. */
int replace_with(char *beside, const char *path, struct err *err);

/* After a rename to `path` by other means: that it outlives a power cut, too. */
int replace_sync_folder(const char *path, struct err *err);

/* All bytes into an open file. Errno, or 0. */
int replace_put(int fd, const void *data, size_t len);

#endif
