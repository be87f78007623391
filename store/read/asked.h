/* store/read/asked.h - what an enqueue asked for last, folder by folder, and what it would cost to
 * have it otherwise.
 *
 * As store/read/read.h: any store_mode, the store's thread; rows are borrowed during the callback,
 * which ends the reading by returning other than 0. Paths are raw and absolute. */
#ifndef NIGHTSHIFT_STORE_READ_ASKED_H
#define NIGHTSHIFT_STORE_READ_ASKED_H

#include "store/store.h"

struct asked {
    const char *path;         /* a file or folder; what lies below it is meant, too */
    int64_t stage_id;         /* its name is the kind */
    struct store_stage stage; /* with its source */
    const char *options;      /* as of struct request; NULL: nobody knows */
};
typedef int (*asked_fn)(void *arg, const struct asked *row);

/* All that was asked for; in the order of paths (bytes) and kinds. */
int asked_each(struct store *st, asked_fn fn, void *arg, struct err *err);

/* Of a folder of a catalog that was made before askings were kept: of each kind the stage that is
 * wanted of most recordings there, of those for which nothing else was asked. options is NULL. */
int asked_usual(struct store *st, const char *path, asked_fn fn, void *arg, struct err *err);

/* Recordings at or below the path that have results of the stage's kind, and of which another stage
 * of it is wanted now: one row for each of these. */
struct asked_other {
    struct asked was;
    uint64_t recordings; /* that lack the new stage's results: they would be done again */
    uint64_t have;       /* and those that have them */
    int64_t known_ms;    /* of `recordings`, as far as their lengths are known */
    uint64_t unknown;    /* and how many of them have none yet */
};
typedef int (*asked_other_fn)(void *arg, const struct asked_other *row);
int asked_others(struct store *st, const char *path, const struct store_stage *stage,
                 asked_other_fn fn, void *arg, struct err *err);

#endif
