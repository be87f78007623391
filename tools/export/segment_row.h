/* tools/export/segment_row.h - a row of the catalog as tools/export/formats.h wants it, with its
 * words.
 *
 * Main thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_SEGMENT_ROW_H
#define NIGHTSHIFT_TOOLS_EXPORT_SEGMENT_ROW_H

#include "store/read/read.h"
#include "tools/export/formats.h"

struct segment_row { /* zero at first; owns what the words of the last row needed */
    struct format_word *words;
    size_t count, room;
    struct buf texts;
};
void segment_row_free(struct segment_row *r);

/* *ret borrows from row and r, until the next call. Words are read only when with_words. */
int segment_row_format(struct segment_row *r, struct store *st, const struct read_segment *row,
                       bool with_words, struct format_segment *ret, struct err *err);
/* Does its reason say more than that it was tried again, with success? */
bool segment_row_doubted(const char *reason);

#endif
