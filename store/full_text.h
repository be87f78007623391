/* store/full_text.h - what FTS5 lends to those who extend it, words that stand for others, and the
 * index over the segments that are current. Internal to store/. The store's thread. */
#ifndef NIGHTSHIFT_STORE_FULL_TEXT_H
#define NIGHTSHIFT_STORE_FULL_TEXT_H

#include "store/db.h"
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

/* ---- the full-text index over the segments that are current.
 *
 * FTS5 writes what it has gathered whenever a statement ends, so that segments
 * which are indexed one by one take ten times as long: those that a transaction adds are indexed
 * together, before it is committed. */

/* Segments will be added: they are indexed before the commit. */
int text_index_begin(struct store *st, struct err *err);
/* Before the segment's text changes, or it goes; and behind the change. */
int text_index_take(struct store *st, int64_t segment_id, struct err *err);
int text_index_put(struct store *st, int64_t segment_id, struct err *err);
/* Before all segments of a task go. */
int text_index_take_task(struct store *st, int64_t task_id, struct err *err);
/* The task became current, or is not any more; task.current says which already. */
int text_index_current(struct store *st, int64_t task_id, bool current, struct err *err);

#endif
