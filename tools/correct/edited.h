/* tools/correct/edited.h - a recording's exported transcript that somebody edited, as changes.
 * Main thread. */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_EDITED_H
#define NIGHTSHIFT_TOOLS_CORRECT_EDITED_H

#include "tools/correct/changes.h"

struct edited {
    size_t segments;       /* that the recording has */
    size_t before, behind; /* of them, that the file does not have at its ends: they stay */
    size_t nowhere;        /* words of the file that belong to no segment: left out */
};
/* Appends to *changes what the file at `path` says otherwise than the recording reads now
 * (tools/correct/place_cues.h). changes_begin was called. ERR_INPUT: no transcript, or another
 * recording's; and what reading brings. */
int edited_read(struct store *st, int64_t media_id, const char *path, struct changes *changes,
                struct edited *ret, struct err *err);

#endif
