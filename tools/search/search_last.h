/* tools/search/search_last.h - the hits of this user's last search, for `nightshift play N`.
 *
 * A file of one's own, $XDG_STATE_HOME/nightshift/last-search (~/.local/state), of mode 0600: which
 * catalog it was, and a line for each hit that was shown. Not in the catalog: that may be somebody
 * else's, read by many at once and by those who may not write. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_LAST_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_LAST_H

#include "base/buf.h"
#include "base/err.h"

#define SEARCH_LAST_MAX 10000 /* hits that are kept */

/* The n-th hit's line is put behind those of `list`. */
void search_last_put(struct buf *list, int64_t media_id, int64_t start_ms, int64_t end_ms);
/* Replaces what was kept; catalog: absolute. Nobody misses it when that cannot be done. */
void search_last_keep(const char *catalog, struct buf *list);
/* Hit n, from 1. ERR_MISSING: there is no such hit, or the last search was in another catalog. */
int search_last_find(const char *catalog, uint64_t n, int64_t *media_id, int64_t *start_ms,
                     struct err *err);

#endif
