/* tools/export/subtitles/times.h - from when to when a cue is seen. Pure. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_SUBTITLES_TIMES_H
#define NIGHTSHIFT_TOOLS_EXPORT_SUBTITLES_TIMES_H

#include "tools/export/subtitles.h"

/* In order; each has, at first, the times in which it is spoken. characters: of each. */
void times_settle(struct subtitle *list, size_t count, const uint32_t *characters,
                  const struct subtitle_limits *limits);

#endif
