/* store/rescue.h - is the catalog still where it was, and a copy of it where it is not.
 *
 * A file that is deleted or replaced while it is open goes on taking commits, and is gone when it
 * is closed. Of a writing store; its thread. */
#ifndef NIGHTSHIFT_STORE_RESCUE_H
#define NIGHTSHIFT_STORE_RESCUE_H

#include "store/store.h"

/* 0: the path and that of the log beside it still name what is open. ERR_MISSING: deleted or moved;
 * ERR_CHANGED: something else is in its place, or the log is gone. What cannot be looked at now
 * counts as in place. */
int store_in_place(const struct store *st, struct err *err);

/* Writes all that is committed through this connection to a new file beside the catalog's path,
 * FILE.rescued-<time>, and no half of it. What lies at the path now is not touched, but a log of
 * ours beside it is removed, which would be taken for its own. *ret: its path, newly allocated. */
int store_rescue(struct store *st, char **ret, struct err *err);

#endif
