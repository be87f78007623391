/* tools/search/fuse.h - several rankings of moments as one, by reciprocal rank: a moment's score is
 * the sum of 1 / (60 + rank) over the rankings that have it (Cormack, Clarke and Buettcher:
 * Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods, SIGIR 2009).
 * Scores of different kinds need not be compared. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_FUSE_H
#define NIGHTSHIFT_TOOLS_SEARCH_FUSE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FUSE_K 60
#define FUSE_LISTS 4
#define FUSE_NONE SIZE_MAX

struct fuse_item {
    int64_t media_id, start_ms, end_ms;
};
struct fuse_hit {
    int64_t media_id, start_ms, end_ms; /* of the first of its items, in the order of lists */
    double score;
    size_t at[FUSE_LISTS]; /* its item in each list; FUSE_NONE: none */
};

/* lists[k]: counts[k] items, best first; at most FUSE_LISTS. An item is the same moment as a hit of
 * the same recording that it overlaps (the first one), of which this list has none yet; else it is
 * a hit by itself. *ret: newly allocated, best first; of equals the recording and moment that come
 * first. */
int fuse(const struct fuse_item *const *lists, const size_t *counts, size_t n,
         struct fuse_hit **ret, size_t *ret_count, struct err *err);

#endif
