/* tools/search/search_join.h - what was found by several ways, as one ranking of moments.
 * Internal to tools/search; main thread. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_JOIN_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_JOIN_H

#include "tools/search/search_candidates.h"

/* Takes the rows of the lists over. First what has the words, or the class, that were asked for,
 * then what is like it. */
int search_join(struct candidates *c, struct search_results *ret, struct err *err);

#endif
