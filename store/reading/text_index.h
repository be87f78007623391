/* store/reading/text_index.h - the full-text index over the segments that are current.
 *
 * Internal to store/. FTS5 writes what it has gathered whenever a statement ends, so that segments
 * which are indexed one by one take ten times as long: those that a transaction adds are indexed
 * together, before it is committed. */
#ifndef NIGHTSHIFT_STORE_READING_TEXT_INDEX_H
#define NIGHTSHIFT_STORE_READING_TEXT_INDEX_H

#include "store/db.h"

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
