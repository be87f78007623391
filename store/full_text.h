/* store/full_text.h - what FTS5 lends to those who extend it, and words that stand for others.
 * Internal to store/. The store's thread. */
#ifndef NIGHTSHIFT_STORE_FULL_TEXT_H
#define NIGHTSHIFT_STORE_FULL_TEXT_H

#include "store/store.h"

#define FULL_TEXT_TOKENIZER "unicode61" /* of the table segment_fts */

/* Valid while the store is open. */
struct fts5_api;
int full_text_api(struct store *st, struct fts5_api **ret, struct err *err);

/* In a word of an expression for MATCH: what follows may stand at its place instead ("harbour",
 * this, "harbor"), and so on. FTS5 finds either as one word. */
#define FULL_TEXT_FORM '\x01'
/* Has the connection know that. Before it touches the index. */
int full_text_register(struct store *st, struct err *err);

#endif
