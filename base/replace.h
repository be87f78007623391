/* base/replace.h - a file that takes the place of another as a whole: written beside it, synced,
 * and renamed. A reader of the name finds the old file or the new one, even after a power cut.
 *
 * Any thread, each with files of its own. */
#ifndef NIGHTSHIFT_BASE_REPLACE_H
#define NIGHTSHIFT_BASE_REPLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* The new file is written as NAME.writing-HOST-PID, so that no other machine or process uses the
 * same name. A process that is killed leaves it there. */
#define REPLACE_BESIDE ".writing-"

enum replace_owner {
    REPLACE_OURS,    /* whatever the name is */
    REPLACE_PRIVATE, /* ours, and a new file is for this user alone */
    /* A name that somebody typed: an SQLite database, or anything but a plain file (a link, a
     * device, a folder), stays as it is, ERR_USAGE. */
    REPLACE_THEIRS,
};

/* Writes these bytes to `path` and keeps its permissions. After an error `path` is as before. If
 * only syncing the folder failed, it holds the new bytes, and after a power cut either. */
int replace_file(const char *path, const void *data, size_t len, enum replace_owner whose,
                 struct err *err);

/* The same in steps, for callers with work between them. Gives the name of the new file beside
 * `path`, newly allocated, and removes a file that a process with our number left there. */
int replace_beside(const char *path, char **ret, struct err *err);
/* A new file, never one that is there, never through a link, with the bytes of `from`, synced. On
 * an error it is gone again. */
int replace_copy(const char *from, const char *to, struct err *err);
/* `beside` becomes `path`, and is freed in any case; on an error it is removed. ERR_MISSING: it was
 * gone, and `path` is unchanged. */
int replace_with(char *beside, const char *path, struct err *err);

/* Call it after another rename to `path`, so that this outlives a power cut. */
int replace_sync_folder(const char *path, struct err *err);

/* All bytes into an open file. Errno, or 0. */
int replace_put(int fd, const void *data, size_t len);

#endif
