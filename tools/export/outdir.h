/* tools/export/outdir.h - writes files below one folder, whole or not at all, and never outside of
 * it.
 *
 * Folders are made as needed; symbolic links below the folder are not followed. Files are written
 * under a name of their own, in the folder itself, and get the right one when a group of them is
 * synced, since a sync for each takes most of the time of an export. While a group is open, SIGINT,
 * SIGTERM and SIGHUP wait: only kill -9 leaves half-made files (".nightshift-HOST-PID-N.tmp")
 * behind, and outdir_open removes those of this machine's processes that are no more. One thread.
 */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_OUTDIR_H
#define NIGHTSHIFT_TOOLS_EXPORT_OUTDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct outdir;
int outdir_open(const char *path, struct outdir **ret, struct err *err); /* made when missing */
void outdir_close(struct outdir *d); /* drops what was not flushed; NULL is fine */

/* Will replace `name` ("a/b.txt", as names_give gives it) by these bytes when the group is flushed.
 * On error this file is not in the group and the old one, if any, is as it was. ERR_INPUT:
 * something that is no folder, or no file, has this name. */
int outdir_write(struct outdir *d, const char *name, const void *data, size_t len, struct err *err);
/* The same of a file that is too large to be held, or to be waited for: begin (which flushes the
 * group), append piece by piece, end; nothing else is written between. A signal ends the process
 * between two pieces, with nothing of the file left; if somebody else holds it, ERR_CANCELLED.
 * After an error only outdir_drop. */
int outdir_begin(struct outdir *d, const char *name, struct err *err);
int outdir_append(struct outdir *d, const void *data, size_t len, struct err *err);
int outdir_end(struct outdir *d, struct err *err);
void outdir_drop(struct outdir *d); /* nothing was begun: well */
/* Is a file of that name there already, with exactly these bytes? data NULL: with any. A file that
 * waits in the group is not there yet. */
bool outdir_has(struct outdir *d, const char *name, const void *data, size_t len);
/* The beginning of such a file, at most n bytes of it, into `ret`: how many; -1: there is none, or
 * it cannot be read. */
ssize_t outdir_read(struct outdir *d, const char *name, char *ret, size_t n);
/* Removes files of a folder ("recordings") that keep() does not want. ERR_IO; a folder that is not
 * there is well. */
int outdir_prune(struct outdir *d, const char *folder, bool (*keep)(void *arg, const char *name),
                 void *arg, struct err *err);
/* Syncs and renames the group; outdir_write does it when the group is full. All are tried, the old
 * files of those that fail stay as they were, and fn hears of each. Returns what went wrong with
 * the disk, not ERR_INPUT: names that it does not take are those files' own trouble. */
int outdir_flush(struct outdir *d, struct err *err);
typedef void (*outdir_failure_fn)(void *arg, const char *name, const struct err *why);
void outdir_on_failure(struct outdir *d, outdir_failure_fn fn, void *arg);
/* Files that have their names, since outdir_open. */
uint64_t outdir_files(const struct outdir *d);

#endif
