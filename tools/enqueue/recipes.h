/* tools/enqueue/recipes.h - the recipes that the catalog has for some paths: of each kind of stage
 * the options by which it is done there. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_RECIPES_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_RECIPES_H

#include <stdbool.h>

#include "store/store.h"
#include "tools/enqueue/path_list.h"
#include "workers/stages/stage_kind.h"

struct recipe_row {
    char *options, *model_hash; /* as of struct request */
    int64_t job_id;             /* 0: set without an enqueue */
};

struct recipe_place { /* in the order of paths */
    char *path;
    struct recipe_row of[STAGE_COUNT]; /* as stage_kinds; options NULL: none of that kind */
};

struct recipes; /* owns its rows and their strings */

/* known: the catalog, or NULL, which has none. Kinds of a later version are left out. */
int recipes_read(struct store *known, struct recipes **ret, struct err *err);
void recipes_free(struct recipes *r); /* NULL is fine */

struct paths recipes_places(const struct recipes *r); /* of struct recipe_place */
/* The kind's (in stage_kinds) recipe at the path, or nearest above it; NULL: there is none. */
const struct recipe_row *recipes_of(const struct recipes *r, const char *path, size_t kind);
/* Has any kind a recipe there? */
bool recipes_any(const struct recipes *r, const char *path);
/* The recipe of the last enqueue that was to transcribe, at any path; NULL: there is none. */
const struct recipe_row *recipes_newest(const struct recipes *r);

#endif
