/* store/lock.h - who may write the catalog: the holder of an exclusive lock on FILE.lock.
 *
 * The kernel drops the lock with its holder, however it dies; the file's text (pid, purpose, time)
 * is for the sentence that others print. It is written by the holder alone, and only where the file
 * was empty or a holder's before: what somebody else has put in its place is left as it is. */
#ifndef NIGHTSHIFT_STORE_LOCK_H
#define NIGHTSHIFT_STORE_LOCK_H

#include <stddef.h>

#include "base/err.h"

struct catalog_lock;
/* purpose: "run", "enqueue" ... ERR_LOCKED: "another `nightshift run` (pid 123, since ...) holds
 * this catalog". ERR_DENIED when the directory is read-only; ERR_INPUT: FILE.lock is a symbolic
 * link, no file, or somebody's. Missing directories are created. Close-on-exec. */
int catalog_lock_take(const char *catalog, const char *purpose, struct catalog_lock **ret,
                      struct err *err);
/* The same for a run, which waits ten seconds if another command holds the lock, and some seconds
 * if the holder is dead: a child of a killed run keeps the lock until it becomes a worker or dies
 * with the run. */
int catalog_lock_inherit(const char *catalog, const char *purpose, struct catalog_lock **ret,
                         struct err *err);
void catalog_lock_release(struct catalog_lock *lock); /* NULL is fine */

/* The catalog's path with symbolic links resolved and `suffix` appended (".lock", ".sock", ""), so
 * that two names of one catalog give one lock. The file itself need not exist, its directory must
 * (ERR_MISSING). Newly allocated. */
int catalog_sibling(const char *catalog, const char *suffix, char **ret, struct err *err);

/* Creates the directories above the catalog that are missing. */
int catalog_make_directory(const char *catalog, struct err *err);

/* Who holds the lock, for people ("`nightshift run` (pid 123, since 2026-...)"), cut to cap bytes.
 * ERR_EMPTY: nobody. Takes nothing. */
int catalog_lock_holder(const char *catalog, char *ret, size_t capacity, struct err *err);

#endif
