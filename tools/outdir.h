/* tools/outdir.h - writes files below one folder, whole or not at all, and never outside of it.
 *
 * One thread. Folders are made as needed; symbolic links below the folder are not followed. */
#ifndef NIGHTSHIFT_TOOLS_OUTDIR_H
#define NIGHTSHIFT_TOOLS_OUTDIR_H

#include <stddef.h>

#include "base/err.h"

struct outdir;
int outdir_open(const char *path, struct outdir **ret, struct err *err); /* made when missing */
void outdir_close(struct outdir *d);                                     /* NULL is fine */

/* Replaces `name` ("a/b.txt", as names_give gives it) by these bytes: written beside it, synced and
 * renamed. On error the old file, if any, is as it was. ERR_INPUT: something that is no folder, or
 * no file, has this name. */
int outdir_write(struct outdir *d, const char *name, const void *data, size_t len, struct err *err);

#endif
