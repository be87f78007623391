/* store/read/recipes.h - what an enqueue is to do, folder by folder, and what it would cost to have
 * it otherwise.
 *
 * Any store_mode, the store's thread. Rows are borrowed during the callback, which ends the reading
 * by returning a value other than 0 (as in store/read/read.h). Paths are raw and absolute. */
#ifndef NIGHTSHIFT_STORE_READ_RECIPES_H
#define NIGHTSHIFT_STORE_READ_RECIPES_H

#include "store/store.h"

struct recipe {
    const char *path;                 /* a file or folder; what lies below it is meant, too */
    const char *kind;                 /* the name of a stage */
    const char *options, *model_hash; /* as of struct request */
    int64_t job_id;                   /* the last enqueue that set it; 0: none did */
};
typedef int (*recipe_fn)(void *arg, const struct recipe *row);

/* All of them, in the order of paths (bytes) and kinds. */
int recipes_each(struct store *st, recipe_fn fn, void *arg, struct err *err);

/* Recordings at or below the path that have results of the stage's kind, and of which another stage
 * of it is wanted now: one row for each of these. */
struct recipe_other {
    int64_t stage_id;
    struct store_stage was; /* without its source */
    uint64_t recordings;    /* that lack the new stage's results: they would be done again */
    uint64_t have;          /* and those that have them, */
    uint64_t told;          /* and those whose text is there: only its words' times are made */
    int64_t known_ms;       /* of `recordings`, as far as their lengths are known */
    uint64_t unknown;       /* and how many of them have none yet */
};
typedef int (*recipe_other_fn)(void *arg, const struct recipe_other *row);
/* untimed: parameters by which such a text was written (store_known_text); NULL: none would do. */
int recipes_others(struct store *st, const char *path, const struct store_stage *stage,
                   const char *untimed, recipe_other_fn fn, void *arg, struct err *err);

#endif
