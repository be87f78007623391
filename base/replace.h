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

struct replace_content { /* borrowed */
    const void *data;
    size_t len;
    int fd; /* over 0: a file that has it all, instead, read from its beginning */
};

enum replace_whose {
    REPLACE_OURS, /* whatever the name is */
    /* A name that somebody typed: what is no plain file (a link, a device, a folder) or an SQLite
     * database stays as it is, ERR_USAGE. */
    REPLACE_THEIRS,
};

/* `path` holds the content, or on an error what it held, with the permissions that it had. */
int replace_file(const char *path, const struct replace_content *c, enum replace_whose whose,
                 struct err *err);

/* The first half alone, for who renames many at once: a new file `name` in the open folder `dir`
 * (or AT_FDCWD), never one that is there, never through a link. On an error it is gone again. It is
 * not synced unless asked. *err says what went wrong with `shown`. */
int replace_write(int dir, const char *name, const char *shown, const struct replace_content *c,
                  bool sync, struct err *err);

#endif
