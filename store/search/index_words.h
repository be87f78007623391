/* store/search/index_words.h - how the full-text index parts a text into words: by its own
 * tokenizer. Internal to store/. The store's thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_INDEX_WORDS_H
#define NIGHTSHIFT_STORE_SEARCH_INDEX_WORDS_H

#include <sqlite3.h>

#include "store/search/query.h"
#include "store/store.h"

/* What FTS5 lends to those who extend it; valid while the store is open. */
int index_words_fts5(struct store *st, fts5_api **ret, struct err *err);

struct index_words { /* zero: nothing to close */
    fts5_tokenizer kind;
    Fts5Tokenizer *tokenizer;
};
int index_words_open(struct store *st, struct index_words *ret, struct err *err);
void index_words_close(struct index_words *w);
/* For the parser of queries; valid while w is open and stays where it is. */
struct query_words index_words_of(struct index_words *w);

#endif
