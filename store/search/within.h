/* store/search/within.h - words and groups that are said within some time of each other in one
 * recording, in whichever of its segments.
 *
 * Any store_mode, the store's thread; rows are borrowed during the callback, as in read.h. */
#ifndef NIGHTSHIFT_STORE_SEARCH_WITHIN_H
#define NIGHTSHIFT_STORE_SEARCH_WITHIN_H

#include "store/read/read.h"

#define WITHIN_TERMS 31 /* at most, and two at least */

/* The terms of search->text (query_terms) begin at most within_ms apart: their segments do. Each
 * segment is of the speaker and in the language that is asked for, and no such segment from the
 * first to the last has what NOT leaves out. `sound` is not looked at. The nearest to each other
 * first (one segment that has it all before several that begin together), then by recording and
 * position; by_time: by these alone. ERR_USAGE: as read_search, and fewer or more terms than there
 * may be. Takes some 50 bytes for every segment that has a term. */
int read_within(struct store *st, const struct read_search *search, int64_t within_ms,
                read_span_fn fn, void *arg, struct err *err);

#endif
