/* tools/export/names.h - under which name a recording's transcript is written. Pure; one thread per
 * set.
 *
 * The folders below the common one are kept; a member of an archive lies in a folder of the
 * archive's name. No name can lead out of the output folder: "..", "." and empty components are
 * rewritten, bytes that are no UTF-8 and control characters become '_', over-long components are
 * cut. Names may be copied to disks of Windows and its shares: so do characters that these refuse,
 * and a dot or blank at a folder's end; behind a name of theirs for a device comes a '_'. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_NAMES_H
#define NIGHTSHIFT_TOOLS_EXPORT_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Bytes of a name or path without its ending: what follows the last dot of its last component, if
 * that has no blank. So the second "tape.wav" of an archive, "tape.wav (2)", is no "tape" too. */
size_t names_stem(const char *name);

/* A path whose parts are made safe as those of the names given out. NULL: no memory. */
char *names_portable(const char *path);

/* Shortens base (an absolute folder, "" at first) to what it has in common with the folder of
 * path. *base is newly allocated each time it changes. */
int names_common(char **base, const void *path, size_t len, struct err *err);

/* Names given out in one export, so that no two recordings share one. */
struct names_used;
int names_used_new(struct names_used **ret, struct err *err);
void names_used_free(struct names_used *u); /* NULL is fine */

/* The relative name, newly allocated: "1990/tape.srt"; "1990/tape.wav.srt" when that is given out
 * already (tape.mp3 beside tape.wav); with the recording's number when that is too. Upper and
 * lower case count as the same, and so does a letter with its accent beside it, for the disks that
 * think so. */
int names_give(struct names_used *u, const char *base, const void *path, size_t path_len,
               const void *member, size_t member_len, int64_t id, const char *suffix, char **ret,
               struct err *err);

#endif
