/* store/search/span.h - the segments of a stretch as one row, a struct read_span. Internal to
 * store/. The store's thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_SPAN_H
#define NIGHTSHIFT_STORE_SEARCH_SPAN_H

#include "store/db.h"
#include "store/read/read.h"

/* For span_give, till db_rows_end: the texts with what matches in marks. match is borrowed. */
void span_prepare(struct store *st, const char *match, const struct read_search *search,
                  struct db_rows *ret, struct err *err);
/* Hands out these segments, in the order of their times; those that are gone meanwhile are left
 * out, and nothing is where all are. Returns as the functions of read.h do. */
int span_give(const struct db_rows *prepared, const int64_t *segment_ids, size_t n, read_span_fn fn,
              void *arg, struct err *err);

#endif
