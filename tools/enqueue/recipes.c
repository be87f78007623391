#include "tools/enqueue/recipes.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "store/read/recipes.h"

struct recipes {
    struct recipe_place *places;
    size_t count, capacity;
};

/* Rows of a path come one after the other. */
static struct recipe_place *place_of(struct recipes *r, const char *path)
{
    struct recipe_place *last = r->count > 0 ? &r->places[r->count - 1] : NULL;

    if (last && strcmp(last->path, path) == 0)
        return last;
    if (!list_grow(&r->places, &r->capacity, r->count, sizeof(*r->places)))
        return NULL;
    last = &r->places[r->count];
    memset(last, 0, sizeof(*last));
    last->path = strdup(path);
    r->count += last->path != NULL;
    return last->path ? last : NULL;
}

/* 1: no memory. */
static int store_recipe_row(void *arg, const struct recipe *row)
{
    struct recipe_place *at;
    struct recipe_row *to;
    size_t kind = 0;

    while (kind < STAGE_COUNT && strcmp(stage_kinds[kind]->name, row->kind) != 0)
        kind++;
    if (kind == STAGE_COUNT)
        return 0;
    at = place_of(arg, row->path);
    if (!at)
        return 1;
    to = &at->of[kind];
    to->options = strdup(row->options);
    to->model_hash = strdup(row->model_hash);
    to->job_id = row->job_id;
    return !to->options || !to->model_hash;
}

int recipes_read(struct store *known, struct recipes **ret, struct err *err)
{
    struct recipes *r = calloc(1, sizeof(*r));
    int rc = r ? 0 : 1;

    if (rc == 0 && known)
        rc = recipes_each(known, store_recipe_row, r, err);
    if (rc > 0)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc != 0)
        recipes_free(r);
    else
        *ret = r;
    return rc;
}

void recipes_free(struct recipes *r)
{
    for (size_t i = 0; r && i < r->count; i++) {
        for (size_t kind = 0; kind < STAGE_COUNT; kind++) {
            free(r->places[i].of[kind].options);
            free(r->places[i].of[kind].model_hash);
        }
        free(r->places[i].path);
    }
    free(r ? r->places : NULL);
    free(r);
}

struct paths recipes_places(const struct recipes *r) { return PATHS_OF(r->places, r->count); }

const struct recipe_row *recipes_of(const struct recipes *r, const char *path, size_t kind)
{
    for (size_t n = strlen(path); n > 0; n = paths_above(path, n)) {
        const struct recipe_place *p = paths_exact(recipes_places(r), path, n);

        if (p && p->of[kind].options)
            return &p->of[kind];
    }
    return NULL;
}

bool recipes_any(const struct recipes *r, const char *path)
{
    return paths_nearest(recipes_places(r), path, strlen(path)) != NULL;
}

const struct recipe_row *recipes_newest(const struct recipes *r)
{
    const struct recipe_row *newest = NULL;

    for (size_t i = 0; i < r->count; i++) {
        const struct recipe_row *row = &r->places[i].of[0];

        if (row->options && row->job_id > (newest ? newest->job_id : 0))
            newest = row;
    }
    return newest;
}
