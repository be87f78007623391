/* store/search/widen.h - the words of a query: as the full-text index parts them, and in their
 * other forms, as far as somebody said them. Internal to store/. The store's thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_WIDEN_H
#define NIGHTSHIFT_STORE_SEARCH_WIDEN_H

#include <sqlite3.h>

#include "store/search/query.h"
#include "store/store.h"

/* ---- how the full-text index parts a text into words: by its own tokenizer */

struct index_words { /* zero: nothing to close */
    fts5_tokenizer kind;
    Fts5Tokenizer *tokenizer;
};
int index_words_open(struct store *st, struct index_words *ret, struct err *err);
void index_words_close(struct index_words *w);
/* The word that a text of one word is in the index; "" where it is none, or has no room. */
int index_words_one(struct index_words *w, const char *s, size_t n, char *ret, size_t capacity,
                    struct err *err);
/* Gives the index's words to the query parser; valid while w is open and not moved. */
struct query_words index_words_of(struct index_words *w);

/* English words in other spellings and with other endings (word_forms.h): those that the index has,
 * of the first words of a long query alone. */
int widen(struct store *st, struct query *q, struct err *err);
/* Does any segment have this word of the index? */
int widen_is_said(struct store *st, const char *word, bool *ret, struct err *err);

#endif
