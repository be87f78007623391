/* store/search/widen.h - a query's words in their other forms, as far as somebody said them.
 * Internal to store/. The store's thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_WIDEN_H
#define NIGHTSHIFT_STORE_SEARCH_WIDEN_H

#include "store/search/query.h"
#include "store/store.h"

/* English words in other spellings and with other endings (word_forms.h): those that the index has,
 * of the first words of a long query alone. */
int widen(struct store *st, struct query *q, struct err *err);
/* Does any segment have this word of the index? */
int widen_is_said(struct store *st, const char *word, bool *ret, struct err *err);

#endif
