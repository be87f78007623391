/* store/search/span.h - the segments of a stretch as one row, a struct read_span. Internal to
 * store/. The store's thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_SPAN_H
#define NIGHTSHIFT_STORE_SEARCH_SPAN_H

#include <stddef.h>
#include <stdint.h>

#include "store/db.h"
#include "store/read/read.h"
#include "store/store.h"

/* Prepares a statement for span_give, until db_rows_end: the texts with matches marked. match is
 * borrowed. */
void span_prepare(struct store *st, const char *match, const struct read_search *search,
                  struct db_rows *ret, struct err *err);
/* Hands out these segments, in the order of their times; those that are gone meanwhile are left
 * out, and nothing is where all are. Returns as the functions of read.h do. */
int span_give(const struct db_rows *prepared, const int64_t *segment_ids, size_t n, read_span_fn fn,
              void *arg, struct err *err);

/* ---- which of several things the segments of the catalog have. Internal to store/. The store's
 * thread */

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
/* A segment's bits; 0: none. */
uint32_t marks_of(const struct marks *m, int64_t segment_id);
void marks_free(struct marks *m);

#endif
