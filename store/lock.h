/* store/lock.h - who may write the catalog: the holder of an exclusive lock on FILE.lock.
 *
 * The kernel drops the lock with its holder, however it dies; the file's text (pid, purpose, time)
 * is for the sentence that others print. */
#ifndef NIGHTSHIFT_STORE_LOCK_H
#define NIGHTSHIFT_STORE_LOCK_H

#include "base/err.h"

struct catalog_lock;
/* purpose: "run", "enqueue" ... ERR_LOCKED: "another `nightshift run` (pid 123, since ...) holds
 * this catalog". ERR_DENIED when the directory is read-only. Close-on-exec. */
int catalog_lock_take(const char *catalog, const char *purpose, struct catalog_lock **ret,
                      struct err *err);
void catalog_lock_release(struct catalog_lock *lock); /* NULL is fine */

#endif
