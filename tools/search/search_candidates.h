/* tools/search/search_candidates.h - a search under way: what each way has found, before it is one
 * ranking. Internal to tools/search; main thread. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_CANDIDATES_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_CANDIDATES_H

#include "store/read/scope.h"
#include "tools/search/search_result.h"

/* So many were seen and too few are in this language: it is worth to read segments. */
#define CANDIDATES_MANY_SEEN 16000u

/* One way's candidates, best first. */
struct candidates_list {
    struct search_result *rows;
    size_t count, capacity;
};

struct candidates {
    struct store *st;
    const struct search_wish *wish;
    struct candidates_list lists[SEARCH_WAYS];
    bool has_class;    /* such a sound was heard somewhere; only with a text */
    int64_t unseen_ms; /* of audio that has no vectors of the model by which is searched */
    struct err err;    /* of a callback */
};

void candidates_list_free(struct candidates_list *l);

/* So many of each way, unless all are asked for: one more than is shown tells that there are more.
 */
size_t candidates_most(const struct search_wish *w);
/* The strings of row are borrowed, NULL for "". On error c->err says why. */
int candidates_add(struct candidates *c, enum search_way way, const struct search_result *row);
/* The same with who speaks there, when that is who is wanted. */
int candidates_add_heard(struct candidates *c, enum search_way way,
                         const struct search_result *row);

/* The recordings that are looked at. Borrows the wish's strings. */
int candidates_scope(struct candidates *c, struct scope *ret, struct err *err);
/* After so many of that scope were seen, of which too few are wanted. */
void candidates_narrow(const struct candidates *c, struct scope *scope, size_t seen);

#endif
