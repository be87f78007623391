/* tools/enqueue/groups.h - which stages the recordings below each of the paths get: those that were
 * asked for last of their folder, or those that the options ask for now.
 *
 * Of each kind of stage by itself: what was asked for last of a path is what the catalog keeps for
 * it, or else for the nearest folder above it. Folders below a path that were asked for otherwise
 * are regions of their own, and regions with equal stages are one group, with one job for each
 * stage. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_GROUPS_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_GROUPS_H

#include "tools/enqueue/stages/enqueue_stages.h"

struct groups_kind {
    struct store_stage stage;
    bool kept;  /* as it was asked for last */
    bool keeps; /* nobody asks for another one now: a recording that is found here, and has another
                   one of the kind from elsewhere, keeps that */
    /* Paths of which it is from now on what was asked for last, as of struct request. */
    const char **roots;
    uint32_t root_count;
    const char *options; /* borrowed */
    bool replaces;
    char *own_params, *own_dir; /* what the stage borrows */
    /* What enqueue_paths says of it. */
    int64_t job_id;                      /* 0 in a dry run */
    uint64_t tasks;                      /* new ones; 0 in a dry run */
    uint64_t lacking;                    /* recordings without the transcription that it works on */
    uint64_t restored, reasked, instead; /* as of struct store_enqueue_counts */
};

struct groups_group {
    struct groups_kind kinds[STAGE_COUNT];
    uint32_t count;
};

struct groups_region {
    const char *path;
    uint32_t group;
};

struct groups_kept; /* what was read of the catalog */

struct groups {
    struct groups_group *list; /* one at least */
    uint32_t count;
    struct groups_region *regions; /* in the order of paths */
    uint32_t region_count;
    struct enqueue_stages found; /* what the options ask for; nothing where all is kept */
    struct groups_kept *own;
};

/* roots: absolute; borrowed for the life of *ret. known: the catalog, or NULL. again: what the
 * options ask for, also where it was said before; and where they say nothing of how, what was said
 * last, with the models that are here now. w is then told what that was. *doing as of
 * enqueue_stages_find. What *ret holds is to be freed in any case. */
int groups_make(struct enqueue_wish *w, bool again, struct store *known, const char *const *roots,
                uint32_t root_count, struct groups *ret, char doing[200], struct err *err);
void groups_free(struct groups *g);

/* The group of what lies at the path, which is at or below a root. */
uint32_t groups_of(const struct groups *g, const char *path, size_t len);

/* Is that a stage of a folder of its own below the path? */
bool groups_have_below(const struct groups *g, const char *path, const struct store_stage *stage);

/* What the options ask for, of each path for which it is not what was asked for last: fn gets a
 * stage, and the path, at or below which recordings may have another one of its kind. */
typedef int (*groups_new_fn)(void *arg, const struct store_stage *stage, const char *root,
                             struct err *err);
int groups_new(const struct groups *g, groups_new_fn fn, void *arg, struct err *err);

#endif
