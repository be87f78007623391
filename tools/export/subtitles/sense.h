/* tools/export/subtitles/sense.h - how much sense is torn where a text is broken. Pure. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_SUBTITLES_SENSE_H
#define NIGHTSHIFT_TOOLS_EXPORT_SUBTITLES_SENSE_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/export/subtitles.h"

/* Of a break between the pieces a and b, which follow each other: 0 at the end of a sentence, up to
 * SENSE_TORN where no break is to be. In English and Spanish, articles, prepositions, possessives
 * and titles stay with what follows, and breaks come before conjunctions. language "": unknown. */
#define SENSE_WHOLE 0
#define SENSE_PLAIN 50
#define SENSE_TORN 200
unsigned sense_torn(const struct subtitles *s, const struct subtitle_piece *a,
                    const struct subtitle_piece *b, const char *language);
bool sense_ends_sentence(const struct subtitles *s, const struct subtitle_piece *a);

#endif
