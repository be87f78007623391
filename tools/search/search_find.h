/* tools/search/search_find.h - what a search finds, by every way that is wanted and there, as one
 * ranking.
 *
 * Ways: words (full text), meaning (vectors of passages), classes of sound, and what it sounds like
 * (CLAP's vectors). Main thread. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_FIND_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_FIND_H

#include "tools/search/search_result.h"

/* ERR_USAGE: the text cannot be understood; ERR_EMPTY: a way that was asked for has nothing in the
 * catalog.
 */
int search_find(struct store *st, const struct search_wish *wish, struct search_results *ret,
                struct err *err);

#endif
