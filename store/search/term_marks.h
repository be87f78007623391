/* store/search/term_marks.h - which of several things the segments of the catalog have. Internal to
 * store/. The store's thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_TERM_MARKS_H
#define NIGHTSHIFT_STORE_SEARCH_TERM_MARKS_H

#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

#define MARKS_MOST 32

struct mark {
    int64_t segment_id;
    uint32_t has; /* a bit for each thing */
};
struct marks {         /* zero at first; owned: marks_free */
    struct mark *list; /* in the order of segments */
    size_t count;
    size_t of[MARKS_MOST]; /* segments that have it */
};
/* Sets that bit of all segments which match. After an error as before. */
int marks_add(struct store *st, struct marks *m, const char *match, unsigned bit, struct err *err);
/* What a segment has; 0: nothing. */
uint32_t marks_of(const struct marks *m, int64_t segment_id);
void marks_free(struct marks *m);

#endif
