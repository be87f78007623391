/* tools/correct/edited.h - a recording's exported transcript that somebody edited, as changes.
 * Main thread. */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_EDITED_H
#define NIGHTSHIFT_TOOLS_CORRECT_EDITED_H

#include "tools/correct/changes.h"

struct edited {
    size_t segments;        /* that the recording has */
    size_t before, behind;  /* of them, that the file does not have at its ends: they stay */
    size_t nowhere;         /* words of the file that belong to no segment: left out */
    struct changes refused; /* owned: changes_free; segments that changed since the export */
};
/* Appends to *changes what the file at `path` says otherwise than the recording reads now
 * (tools/correct/place_cues.h). A file of a page's corrections has what was edited alone, and what
 * it read before: where the recording reads otherwise now, nothing is changed, and it is appended
 * to ret->refused. changes_begin was called, for *changes and for ret->refused. ERR_INPUT: no
 * transcript, or another recording's; and what reading brings. */
int edited_read(struct store *st, int64_t media_id, const char *path, struct changes *changes,
                struct edited *ret, struct err *err);

#endif
