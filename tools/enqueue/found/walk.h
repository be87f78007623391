/* tools/enqueue/found/walk.h - visits the files under a directory, in an order that does not
 * change.
 *
 * Files of a directory come before its sub-directories, both sorted by bytes. Memory: the names of
 * one directory's entries at a time, the names of the sub-directories on the way down, and 16
 * bytes for every directory seen. A symbolic link is followed when it is a root, or with `follow`:
 * then links to directories are taken last, so that a directory keeps its real path, and no
 * directory is entered twice. Nothing but directories is ever opened. One thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_FOUND_WALK_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_FOUND_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/err.h"
#include "tools/enqueue/found/skip_name.h"

enum walk_kind {
    WALK_FILE,       /* a regular file */
    WALK_SKIPPED,    /* left out for its name, see `skip`; a directory is not entered */
    WALK_EXCLUDED,   /* left out by a pattern; a directory is not entered */
    WALK_LINK,       /* a symbolic link that is not followed, or leads nowhere */
    WALK_SPECIAL,    /* a pipe, socket or device */
    WALK_OTHER_DISK, /* a directory on another file system, with one_file_system */
    WALK_UNREADABLE, /* could not be looked at: `error` says why */
};

struct walk_entry { /* valid during the call */
    enum walk_kind kind;
    const char *path; /* absolute, raw bytes */
    size_t path_len;
    const char
        *below; /* inside `path`: the part below the root, for patterns; the name for a root */
    int dir;    /* of the directory that holds it, and its name there, for openat; -1 and the */
    const char *name;      /*   path for a root */
    bool directory;        /* it is one (with LINK: it leads to one) */
    bool included;         /* FILE: no --include was given, or one of them fits */
    const struct stat *st; /* NULL when it could not be had */
    enum skip_reason skip; /* of SKIPPED */
    int error;             /* errno of UNREADABLE */
};

struct walk_options {                            /* borrowed for the life of the walk */
    const char *const *include, *const *exclude; /* NULL-terminated, or NULL */
    bool follow, one_file_system;
    bool hidden; /* what is hidden is not skipped */
    /* Called for everything but directories that are entered. Non-zero stops the walk with it. */
    int (*entry)(void *arg, const struct walk_entry *e, struct err *err);
    void *arg;
};

struct walk;
int walk_new(const struct walk_options *o, struct walk **ret, struct err *err);
/* One root: a file or directory, as cli_absolute gives it. Several in one walk share the memory of
 * the directories seen. ERR_MISSING: not there. Returns the callback's value if it is not 0. */
int walk_root(struct walk *w, const char *root, struct err *err);
void walk_free(struct walk *w);

/* Does a pattern fit? `below` is the path below the root. A pattern without '/' is held against the
 * last name, one with '/' against the whole; '*' also fits '/'; a '/' at the end fits directories
 * alone; ASCII case does not matter. Pure. */
bool walk_fits(const char *pattern, const char *below, bool directory);
bool walk_fits_any(const char *const *patterns, const char *below, bool directory);

#endif
