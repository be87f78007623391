/* store/files.h - SQLite's write-ahead log beside the catalog (FILE-wal): how long it is, how to
 * empty it, and who keeps that from happening. Needs a store opened for writing; the store's
 * thread. */
#ifndef NIGHTSHIFT_STORE_FILES_H
#define NIGHTSHIFT_STORE_FILES_H

#include "store/store.h"

#define STORE_LOG_KEPT 67108864u /* bytes: one that nobody holds is cut to this by itself */

/* Bytes on the disk; 0 when there is none. */
uint64_t store_log_bytes(const struct store *st);
/* Puts it into the catalog and empties it, as far as that goes without waiting for anybody. Not
 * between store_begin and store_commit. ERR_LOCKED: somebody reads (or writes). */
int store_log_empty(struct store *st, struct err *err);
/* Free bytes of the file system that it is on, and all of them. */
int store_log_room(const struct store *st, uint64_t *ret, uint64_t *all, struct err *err);
/* Who is in a transaction on the catalog, as far as the kernel tells, for people: "sqlite3 (pid
 * 123)", "sqlite3 (pid 123) and others", or "another program". Cut to cap bytes. */
void store_log_readers(const struct store *st, char *ret, size_t capacity);

/* ---- is the catalog still where it was, and a copy of it where it is not.
 *
 * A file that is deleted or replaced while it is open goes on taking commits, and is gone when it
 * is closed. Needs a store opened for writing; the store's thread. */

/* 0: the path and that of the log beside it still name what is open. ERR_MISSING: deleted or moved;
 * ERR_CHANGED: something else is in its place, or the log is gone. A file that cannot be examined
 * now counts as in place. */
int store_in_place(const struct store *st, struct err *err);

/* Writes all that is committed through this connection to a new file beside the catalog's path,
 * FILE.rescued-<time>. After an error no part of it is left. The file that is at the path now is
 * not touched, but our log beside it is removed: SQLite would take it for that file's log. *ret:
 * the new file's path, newly allocated. */
int store_rescue(struct store *st, char **ret, struct err *err);

#endif
