/* tools/search/search_query.h - what is typed as a vector, by the model whose vectors the catalog
 * has.
 *
 * Main thread. Loads the model on the processor and lets it go again: a search is one command. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_QUERY_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_QUERY_H

#include "store/store.h"

struct search_vector { /* owned: values */
    float *values;
    uint32_t size;
    double least; /* likeness that a text has at least that speaks of it; -1: not known */
};
/* stage: "embed-text" (a sentence encoder's vector of a question) or "embed-audio" (CLAP's of a
 * description). ERR_MODEL, ERR_MISSING: the model is not where it was, or is another one now. */
int search_vector(const struct store_stage_row *stage, const char *text, struct search_vector *ret,
                  struct err *err);

#endif
