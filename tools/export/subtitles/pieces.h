/* tools/export/subtitles/pieces.h - a segment's text in pieces that no line is broken in, each with
 * its time. Pure. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_SUBTITLES_PIECES_H
#define NIGHTSHIFT_TOOLS_EXPORT_SUBTITLES_PIECES_H

#include "tools/export/subtitles.h"

/* Puts them behind those of s; none is wider than `columns`. Times are the words', and between
 * their ends in proportion; of a text without words in proportion within the segment. */
int pieces_put(struct subtitles *s, size_t *capacity, const struct document_segment *segment,
               uint32_t columns, struct err *err);
/* Columns and characters that are read of a text. */
void pieces_measure(const char *text, size_t len, uint32_t *columns, uint32_t *characters);
/* Chinese, Japanese or of their punctuation: lines are broken between any two of them, but for
 * those that kinsoku keeps together. */
bool pieces_wide_script(int32_t c);

#endif
