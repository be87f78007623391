/* tools/correct/labels.h - names of speakers that a transcript's file has in front of its texts.
 * Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_LABELS_H
#define NIGHTSHIFT_TOOLS_CORRECT_LABELS_H

#include "tools/export/cues.h"

struct labels { /* zero at first; owned: labels_free */
    char **list;
    size_t count, capacity;
};
void labels_free(struct labels *l);
int labels_add(struct labels *l, const char *name,
               struct err *err); /* "" and known ones: nothing */

/* Takes "NAME: " and "[NAME] " away from the beginning of every cue. A name that no speaker has
 * stays in the text. */
void labels_strip(const struct labels *l, struct cues *cues);

#endif
