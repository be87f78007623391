/* tools/export/names.h - under which name a recording's transcript is written. Pure; one thread per
 * set.
 *
 * The folders below the common one are kept; a member of an archive lies in a folder of the
 * archive's name. No name can lead out of the output folder: "..", "." and empty components are
 * rewritten, bytes that are control characters or no UTF-8 become '_', over-long components are
 * cut. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_NAMES_H
#define NIGHTSHIFT_TOOLS_EXPORT_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Bytes of a name or path without its ending: what follows the last dot of its last component, if
 * that has no blank. So the second "tape.wav" of an archive, "tape.wav (2)", is no "tape" too. */
size_t names_stem(const char *name);

/* Shortens base (an absolute folder, "" at first) to what it has in common with the folder of
 * path. *base is newly allocated each time it changes. */
int names_common(char **base, const void *path, size_t len, struct err *err);

/* Names given out in one export, so that no two recordings share one. */
struct names_used;
int names_used_new(struct names_used **ret, struct err *err);
void names_used_free(struct names_used *u); /* NULL is fine */

/* The relative name, newly allocated: "1990/tape.srt"; "1990/tape.wav.srt" when that is given out
 * already (tape.mp3 beside tape.wav); with the recording's number when that is too. Upper and
 * lower case count as the same, for the disks that think so. */
int names_give(struct names_used *u, const char *base, const void *path, size_t path_len,
               const void *member, size_t member_len, int64_t id, const char *suffix, char **ret,
               struct err *err);

#endif
