/* store/parting/index_later.h - the full-text index of many new segments, in one go. Internal to
 * store/parting/.
 *
 * FTS5 writes what it has gathered whenever a statement begins, so a trigger that indexes each
 * segment by itself is nine tenths of the time that a segment's row takes. Between the two calls
 * the triggers of the index therefore keep to the segments that were there before, and the new
 * ones, which have higher numbers, are indexed by one statement at the end. */
#ifndef NIGHTSHIFT_STORE_PARTING_INDEX_LATER_H
#define NIGHTSHIFT_STORE_PARTING_INDEX_LATER_H

#include "store/db.h"

struct index_later;

/* Within store_begin, before anything is written. The catalog's triggers are others until
 * index_later_end or the rollback. */
int index_later_begin(struct store *st, struct index_later **ret, struct err *err);
/* Indexes what came, and puts the triggers back. Frees it in any case; after an error the
 * transaction must be rolled back. rc: what happened in between, < 0: only frees. NULL is fine.
 * Returns rc, or its own. */
int index_later_end(struct store *st, struct index_later *l, int rc, struct err *err);

#endif
