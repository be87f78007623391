/* tools/search/search_nearest.h - what is found by vectors: by meaning, or by what it sounds like.
 * Internal to tools/search; main thread. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_NEAREST_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_NEAREST_H

#include "tools/search/search_candidates.h"

/* way: SEARCH_MEANING or SEARCH_SOUND. ERR_EMPTY: the catalog has no such vectors. */
int search_nearest(struct candidates *c, enum search_way way, const char *text, struct err *err);

#endif
