/* tools/enqueue/groups.h - which stages the recordings below each of the paths get: those of their
 * folder's recipe, or of what the options make of it.
 *
 * A recipe is kept for each kind of stage by itself: that of a path is what the catalog has for it,
 * or else for the nearest folder above it. Options that say how a kind is done are the path's
 * recipe from then on, and that of all below it; the other kinds stay as they are. Folders below a
 * path that have recipes of their own are regions of their own, and regions with equal recipes are
 * one group, with one job for each stage. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_GROUPS_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_GROUPS_H

#include <jansson.h>

#include "tools/enqueue/stages/enqueue_stages.h"

struct groups_kind {
    struct store_stage stage;
    bool kept;  /* by the recipe as it was */
    bool keeps; /* nobody asks for another one now: a recording that is found here, and has another
                   one of the kind, keeps that */
    /* Paths of which it is the recipe from now on, as of struct request. */
    const char **roots;
    uint32_t root_count;
    char *options;
    bool replaces;
    /* Filled in by enqueue_paths. */
    int64_t job_id;                      /* 0 in a dry run */
    uint64_t tasks;                      /* new ones; 0 in a dry run */
    uint64_t lacking;                    /* recordings without the transcription that it works on */
    uint64_t restored, reasked, instead; /* as of struct store_enqueue_counts */
};

struct groups_group {
    struct groups_kind kinds[STAGE_COUNT];
    uint32_t count;
    struct enqueue_stages found; /* what the kinds borrow from, with its note, */
    json_t *words;               /* and what that borrows from */
    struct groups_plan {
        const char *options[STAGE_COUNT]; /* of a recipe, or as they were said; NULL: none */
        bool done[STAGE_COUNT];           /* else it is only what another one works on */
        bool keeps[STAGE_COUNT], replaces[STAGE_COUNT];
        bool kept[STAGE_COUNT]; /* of the first region */
    } plan;
};

struct groups_region {
    const char *path;
    uint32_t group;
};

struct groups_own; /* what was read of the catalog */

struct groups {
    struct groups_group *list; /* one at least */
    uint32_t count;
    struct groups_region *regions; /* in the order of paths */
    uint32_t region_count;
    bool times; /* a transcription gets times of words that nobody asked for in so many words */
    struct groups_own *own;
};

/* roots: absolute; borrowed, as is the wish, for the life of *ret. known: the catalog, or NULL.
 * again: work done with other options is done again, with the models that are here now. *doing as
 * in enqueue_stages_find. The caller frees *ret even on error. */
int groups_make(const struct enqueue_wish *w, bool again, struct store *known,
                const char *const *roots, uint32_t root_count, struct groups *ret, char doing[200],
                struct err *err);
void groups_free(struct groups *g);

/* The group of what lies at the path, which is at or below a root. */
uint32_t groups_of(const struct groups *g, const char *path, size_t len);

/* Is that a stage of a folder of its own below the path? */
bool groups_have_below(const struct groups *g, const char *path, const struct store_stage *stage);

/* Passes fn each stage that differs from the recipe, and the path at or below which recordings may
 * have another stage of its kind. */
typedef int (*groups_new_fn)(void *arg, const struct store_stage *stage, const char *root,
                             struct err *err);
int groups_new(const struct groups *g, groups_new_fn fn, void *arg, struct err *err);

#endif
