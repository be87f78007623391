/* tools/export/html/timeline.h - a recording from its beginning to its end as inline SVG: who
 * speaks, what is heard, chapters, doubts. Pure; one thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_HTML_TIMELINE_H
#define NIGHTSHIFT_TOOLS_EXPORT_HTML_TIMELINE_H

#include "base/buf.h"
#include "tools/export/document.h"
#include "tools/export/html/tally.h"

#define TIMELINE_COLOURS 8 /* classes s0 to s7 of style.css */

/* How long it is: what is known, or where its last segment, turn or sound ends; at least 1. */
int64_t timeline_length_ms(const struct document *d);
/* speakers: its turns' names, summed up; sounds: of its sounds. */
void timeline_put(const struct document *d, const struct tally *speakers,
                  const struct tally *sounds, struct buf *out);
/* The number of a speaker's colour; -1: nobody that the tally has. */
int timeline_colour(const struct tally *speakers, const char *name);

#endif
