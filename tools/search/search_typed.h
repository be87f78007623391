/* tools/search/search_typed.h - what is typed to search for, looked at before it is searched.
 * Main thread. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_TYPED_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_TYPED_H

#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

struct search_typed {
    bool exact; /* quotes, stars, operators: what has the same meaning is not what is looked for */
    bool one_word;
    size_t terms; /* things that must all be there */
};
#define SEARCH_NO_PLACE ((size_t)-1)

/* ERR_USAGE: it cannot be understood; *at is the byte where that is, or SEARCH_NO_PLACE. */
int search_typed(struct store *st, const char *text, struct search_typed *ret, size_t *at,
                 struct err *err);
/* Checks a text to compare by meaning: it must have a word and no operators. ERR_USAGE. */
int search_typed_meaning(struct store *st, const char *text, struct err *err);

#endif
