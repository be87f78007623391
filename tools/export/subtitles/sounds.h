/* tools/export/subtitles/sounds.h - sounds as cues in brackets, where nobody speaks. Pure; any
 * thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_SUBTITLES_SOUNDS_H
#define NIGHTSHIFT_TOOLS_EXPORT_SUBTITLES_SOUNDS_H

#include "tools/export/subtitles.h"

/* Puts the document's sounds among the cues of *s, which are in order and do not overlap, and stay
 * so: each in the first stretch of its own that is free for long enough, unless the same was told a
 * moment before. The speech that stands there already is left out, and what is wider than a line.
 * Time and memory grow with cues and sounds, but for sorting these. ERR_NOMEM: *s is as it was. */
int sounds_put(const struct document *d, const struct subtitle_limits *l, struct subtitles *s,
               struct err *err);

#endif
