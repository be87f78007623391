/* tools/export/subtitles/lines.h - which pieces are a cue, and which of them a line. Pure. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_SUBTITLES_LINES_H
#define NIGHTSHIFT_TOOLS_EXPORT_SUBTITLES_LINES_H

#include "tools/export/subtitles.h"

struct lines_run {       /* what one speaker says without a long pause, in one language */
    size_t first, count; /* pieces */
    const char *language;
    struct subtitle_limits limits; /* none of them 0 */
    uint32_t label_columns;        /* in front of the first cue, with a blank; 0: none */
    bool label_line;               /* that has a line of its own; there are two at least then */
    int64_t next_ms;               /* when the next run begins */
};
/* The cues of a run: ends[k] is one past the last piece of the k-th, counted from the run's first.
 * ends has room for `count`. Sets `line` of the pieces. */
int lines_break(struct subtitles *s, const struct lines_run *run, size_t *ends, size_t *ret,
                struct err *err);

#endif
