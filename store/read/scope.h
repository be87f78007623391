/* store/read/scope.h - the recordings that a search is about.
 *
 * One person or one language is in few recordings, and these are found without a look at their
 * contents. A speaker or a language only selects recordings: the passages in them are checked
 * afterwards. Any store_mode, the store's thread. */
#ifndef NIGHTSHIFT_STORE_READ_SCOPE_H
#define NIGHTSHIFT_STORE_READ_SCOPE_H

#include "store/store.h"

struct scope {
    const char *path;     /* recordings at or below it, as read_filter; NULL: all */
    const char *speaker;  /* with somebody of this label or name, upper and lower case of ASCII
                           * alike; NULL: all. Costs a look at the names of all speakers */
    const char *language; /* with something said in this language; NULL: all. Costs a look at all
                           * segments: there is no index for what nearly every recording has */
};

/* The part of the catalog's recordings that are in it: 0 ... 1. */
int scope_part(struct store *st, const struct scope *scope, double *ret, struct err *err);

#endif
