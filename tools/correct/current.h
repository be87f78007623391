/* tools/correct/current.h - the segments of a recording as they read now, in memory. Main thread.
 */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_CURRENT_H
#define NIGHTSHIFT_TOOLS_CORRECT_CURRENT_H

#include "store/read/read.h"
#include "tools/correct/labels.h"

struct current_segment { /* owned strings */
    int64_t segment_id, start_ms, end_ms;
    char *text,
        *heard; /* as it reads, "" where people said that it is nothing; the machine's words */
};
struct current { /* zero at first; owned: current_free */
    struct current_segment *list;
    size_t count, room;
    struct labels who; /* whom exports name before its segments */
};
void current_free(struct current *c);
/* Of the current transcription, in order. ERR_NOMEM; ERR_CHANGED: a run
 * transcribed it meanwhile; and what reading brings. */
int current_read(struct store *st, int64_t media_id, struct current *ret, struct err *err);
/* The segment that is said at that time, the last one to begin; NULL: none is. */
const struct current_segment *current_at(const struct current *c, int64_t ms);

#endif
