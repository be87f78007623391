/* tools/enqueue/found/skip_name.h - names under which nothing lies that anybody wants heard: what
 * was thrown away, what systems keep for themselves, what has not come whole. Pure. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_FOUND_SKIP_NAME_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_FOUND_SKIP_NAME_H

#include <stdbool.h>

enum skip_reason {
    SKIP_NONE,
    SKIP_TRASH,      /* a recycle bin, or a file that a file system keeps though it was deleted */
    SKIP_SYSTEM,     /* AppleDouble, thumbnails, indexes and snapshots of storage servers */
    SKIP_UNFINISHED, /* a transfer gives such a name to what has not come whole */
    SKIP_HIDDEN,     /* begins with a dot */
    SKIP_REASONS
};

/* A word for programs and lists: "trash", "system", "unfinished", "hidden"; "" for SKIP_NONE. */
const char *skip_word(enum skip_reason reason);

/* By the last name of `path`, whatever lies above it. */
enum skip_reason skip_name(const char *path, bool directory);
/* By all names of a member of an archive ("a/b.zip//c/d.wav"): the first that says something.
 * hidden: hidden ones are taken. */
enum skip_reason skip_member(const char *member, bool hidden);

#endif
