/* store/search/ranking.h - the best of what the full-text index finds, without ranking all of it.
 *
 * A common word is in every third segment. What FTS5's bm25 makes of a segment depends on how often
 * it has the words, which the index says at once, and on its length, which is looked up; so does
 * everything that a filter asks for. Once as many are found as are wanted, a segment that could not
 * be among the best even if it had no other word is passed over before anything of it is looked up.
 * The numbers are those of bm25, and so is the order. Internal to store/. The store's thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_RANKING_H
#define NIGHTSHIFT_STORE_SEARCH_RANKING_H

#include <sqlite3.h>

#include "store/db.h"

struct ranking { /* owned, of one statement; zero: nothing to free */
    size_t wanted;
    double *best; /* a heap, the least on top; `count` of at most `wanted` */
    size_t count;
    double score; /* of the row at hand */
    /* Of the query, known with its first row: */
    int phrases;
    double average; /* words of a segment */
    double *weight, *often;
};

/* For queries of this connection: RANKING_HOPEFUL, whether a row of segment_fts may be among the
 * best, cheap; and RANKING_AMONG, whether it is, and then its score is ranking.score. Both take
 * the parameter that ranking_bind binds; the second one anything of what is looked up, so that this
 * is done before. */
#define RANKING_HOPEFUL "nightshift_hopeful"
#define RANKING_AMONG "nightshift_among"
int ranking_functions(struct store *st, struct err *err);
void ranking_bind(struct db_rows *rows, int parameter, struct ranking *r);

int ranking_make(size_t wanted, struct ranking *ret, struct err *err);
void ranking_free(struct ranking *r);
void ranking_add(struct ranking *r, double score); /* one that is really meant */
/* Of what was added, what has less is not among the best any more; -1: all is. */
double ranking_least(const struct ranking *r);

#endif
