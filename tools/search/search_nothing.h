/* tools/search/search_nothing.h - what is said where a search found nothing. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_NOTHING_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_NOTHING_H

#include "base/buf.h"
#include "tools/search/search_result.h"

/* That nobody said it only where all recordings that were asked about were transcribed; else what
 * is known, and how many were not, and why. heard: something sounds like wish->sound. */
int search_nothing(struct store *st, const struct search_wish *wish, bool heard, struct buf *ret,
                   struct err *err);

#endif
