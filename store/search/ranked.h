/* store/search/ranked.h - the best segments that the index finds, chosen before anything of the
 * others is looked up (store/search/ranking.h). Internal to store/search. The store's thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_RANKED_H
#define NIGHTSHIFT_STORE_SEARCH_RANKED_H

#include "base/buf.h"
#include "store/read/filter.h"
#include "store/read/read.h"

struct ranked_hit {
    double score;
    size_t at, len; /* in texts: "[segment, snippet]" as JSON */
};
struct ranked { /* zero: nothing to free */
    struct ranked_hit *hits;
    size_t count, room;
    struct buf texts;
};
/* Those that may be among the best, of equals all. *all: they are asked for all, or so many are
 * equal that it is no gain: *ret is empty then. */
int ranked_find(struct store *st, const struct read_search *search, const char *expression,
                struct filter_path *path, struct ranked *ret, bool *all, struct err *err);
/* Hands them out as read_search does. */
int ranked_give(struct store *st, const struct read_search *search, struct ranked *found,
                read_segment_fn fn, void *arg, struct err *err);
void ranked_free(struct ranked *r);

#endif
