#include "tools/enqueue/groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/enqueue/option_words.h"
#include "tools/enqueue/recipes.h"

struct root { /* none lies below another one */
    const char *path;
    char *said[STAGE_COUNT];          /* owned */
    const char *options[STAGE_COUNT]; /* of it, or of the recipe; NULL: none */
    bool changed[STAGE_COUNT];        /* something was said that is not the recipe */
};

struct groups_own {
    const struct enqueue_wish *wish;
    struct recipes *recipes;
    struct root *roots; /* in the order of paths */
    size_t root_count;
    bool plain; /* nothing was said of how */
    bool again;
    bool times;    /* as of struct groups */
    json_t *words; /* what wishes borrow from */
};

static void free_group(struct groups_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        free(group->kinds[i].roots);
        free(group->kinds[i].options);
    }
    enqueue_stages_free(&group->found);
    json_decref(group->words);
}

void groups_free(struct groups *g)
{
    struct groups_own *own = g->own;

    for (uint32_t i = 0; i < g->count; i++)
        free_group(&g->list[i]);
    free(g->list);
    free(g->regions);
    if (own) {
        for (size_t i = 0; i < own->root_count; i++)
            for (size_t kind = 0; kind < STAGE_COUNT; kind++)
                free(own->roots[i].said[kind]);
        free(own->roots);
        recipes_free(own->recipes);
        json_decref(own->words);
        free(own);
    }
    memset(g, 0, sizeof(*g));
}

/* ------------------------------------------------------------------------------- what is said */

/* Drops roots that lie below another root. */
static int keep_roots(struct groups_own *own, const char *const *roots, size_t count,
                      struct err *err)
{
    struct root *all = calloc(count, sizeof(*all));

    own->roots = calloc(count, sizeof(*own->roots));
    if (!all || !own->roots) {
        free(all);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++)
        all[i].path = roots[i];
    qsort(all, count, sizeof(*all), paths_compare);
    for (size_t i = 0; i < count; i++) {
        const char *path = all[i].path;

        if (!paths_nearest(PATHS_OF(all, count), path, paths_above(path, strlen(path))) &&
            (i == 0 || strcmp(all[i - 1].path, path) != 0))
            own->roots[own->root_count++] = all[i];
    }
    free(all);
    return 0;
}

/* Does the wish say how this kind is to be done? */
static bool speaks_of(const struct enqueue_wish *w, size_t kind)
{
    return kind == 0 ? enqueue_wish_transcribes(w) != NULL : w->other[kind] != NULL;
}

/* "--diarize" alone. */
static bool is_bare(const struct enqueue_wish *w, size_t kind)
{
    bool bare = kind != 0 && w->other[kind][0] == 0;

    for (size_t i = 0; i < w->count; i++)
        bare &= w->options[i].stage != kind || !w->options[i].given;
    return bare;
}

/* Are speakers told apart there? Then segments are parted by the times of words. */
static bool tells_apart(const struct groups_own *own, const char *path)
{
    bool ret = false;

    for (size_t kind = 0; kind < STAGE_COUNT; kind++)
        if (stage_kinds[kind] == &stage_diarize)
            ret = own->wish->other[kind] || recipes_of(own->recipes, path, kind);
    return ret;
}

static bool options_differ(const char *options, const struct recipe_row *row)
{
    return !row || strcmp(options, row->options) != 0;
}

/* Does a folder below have a transcription of its own? That is nobody's to change in passing. */
static bool has_own_below(const struct groups_own *own, const char *path)
{
    const struct paths places = recipes_places(own->recipes);
    const struct recipe_place *place = places.list;

    for (size_t i = 0; i < places.count; i++)
        if (place[i].of[0].options && strcmp(place[i].path, path) != 0 &&
            paths_nearest((struct paths){&path, 1, sizeof(path)}, place[i].path,
                          strlen(place[i].path)))
            return true;
    return false;
}

/* Are speakers to be told apart in what is transcribed without times of words? The text that is
 * there gets them. */
static bool wants_times(const struct groups_own *own, const char *path)
{
    const struct recipe_row *row = recipes_of(own->recipes, path, 0);
    bool told = false;

    for (size_t kind = 0; kind < STAGE_COUNT; kind++)
        told |= stage_kinds[kind] == &stage_diarize && own->wish->other[kind];
    return own->wish->times && told && !own->wish->no_transcribe && row &&
           !strstr(row->options, "word-timestamps") && !has_own_below(own, path);
}

/* Applies the wish to the kind's recipe; row NULL: there is none. The model and voice activity stay
 * unless the wish names them; --again with the bare option takes the usual ones. A transcription
 * gets times of words if speakers are told apart, unless the recipe's has none and `times` is not
 * set. */
static int build_root_options(struct groups_own *own, struct root *root, size_t kind,
                              struct enqueue_wish w, const struct recipe_row *row, struct err *err)
{
    char **to = &root->said[kind];
    const bool times = kind == 0 && wants_times(own, root->path);
    int rc = 0;

    if (row && !(own->again && kind != 0 && is_bare(&w, kind)))
        rc = said_again(row->options, kind, true, &w, own->words, err);
    if (rc == 0)
        rc = said_options(&w, kind, to, err);
    own->times |= times;
    if (rc == 0 &&
        (times || (kind == 0 && options_differ(*to, row) && tells_apart(own, root->path)))) {
        enqueue_params_say(&w.params, "word-timestamps", NULL);
        free(*to);
        *to = NULL;
        rc = said_options(&w, kind, to, err);
    }
    root->options[kind] = *to;
    return rc;
}

/* The recipe's transcription, with times of words. */
static int say_times(struct groups_own *own, struct root *root, const struct recipe_row *row,
                     struct err *err)
{
    struct enqueue_wish w;
    int rc;

    enqueue_wish_init(&w);
    rc = said_again(row->options, 0, false, &w, own->words, err);
    if (rc != 0)
        return rc;
    enqueue_params_say(&w.params, "word-timestamps", NULL);
    rc = said_options(&w, 0, &root->said[0], err);
    root->options[0] = root->said[0];
    own->times = root->changed[0] = true;
    return rc;
}

/* Decides what is done at a root with one kind. A transcription is added if nothing was asked for
 * before, and if others are asked for without --no-transcribe: then as the catalog had it last. */
static int say_kind(struct groups_own *own, struct root *root, size_t kind, struct err *err)
{
    const struct enqueue_wish *w = own->wish;
    const struct recipe_row *row = recipes_of(own->recipes, root->path, kind);
    const struct recipe_row *newest = own->plain ? NULL : recipes_newest(own->recipes);
    struct enqueue_wish nothing;
    int rc;

    if (speaks_of(w, kind)) {
        rc = build_root_options(own, root, kind, *w, row, err);
        root->changed[kind] = own->again || options_differ(rc == 0 ? root->options[kind] : "", row);
        return rc;
    }
    if (!row && kind == 0 && !w->no_transcribe &&
        (!own->plain || !recipes_any(own->recipes, root->path))) {
        enqueue_wish_init(&nothing);
        row = newest;
        if (!row)
            return build_root_options(own, root, kind, nothing, NULL, err);
    }
    if (kind == 0 && wants_times(own, root->path))
        return say_times(own, root, row, err);
    root->options[kind] = row ? row->options : NULL;
    return 0;
}

/* ------------------------------------------------------------------------------- regions */

static const struct root *root_of(const struct groups_own *own, const char *path)
{
    return paths_nearest(PATHS_OF(own->roots, own->root_count), path, strlen(path));
}

/* By what a kind is done at a path that is, or lies below, a root. */
static const char *options_at(const struct groups_own *own, const struct root *root,
                              const char *path, size_t kind)
{
    const struct recipe_row *row = recipes_of(own->recipes, path, kind);

    if (root->changed[kind])
        return root->options[kind];
    return row ? row->options : root->options[kind];
}

static void plan_group(const struct groups_own *own, const char *path, struct groups_plan *ret)
{
    const struct root *root = root_of(own, path);
    const struct recipe_row *newest = recipes_newest(own->recipes);
    bool works = false; /* something, on a transcription */

    memset(ret, 0, sizeof(*ret));
    for (size_t kind = 0; kind < STAGE_COUNT; kind++) {
        const bool follows = !stage_kinds[kind]->hears; /* the transcription */
        const bool changed = root->changed[kind] || (follows && root->changed[0]);

        ret->options[kind] = options_at(own, root, path, kind);
        ret->done[kind] = ret->options[kind] &&
                          (!own->wish->no_transcribe || (kind != 0 && speaks_of(own->wish, kind)));
        works |= ret->done[kind] && follows;
        if (!ret->done[kind])
            continue;
        ret->keeps[kind] = !changed && !own->again;
        ret->kept[kind] = ret->keeps[kind] && recipes_of(own->recipes, path, kind);
        ret->replaces[kind] = root->changed[kind];
    }
    if (works && !ret->options[0] && newest)
        ret->options[0] = newest->options;
}

static bool same_plan(const struct groups_plan *a, const struct groups_plan *b)
{
    bool same = true;

    for (size_t i = 0; same && i < STAGE_COUNT; i++)
        same = !a->options[i] == !b->options[i] &&
               (!a->options[i] || strcmp(a->options[i], b->options[i]) == 0) &&
               a->done[i] == b->done[i] && a->keeps[i] == b->keeps[i] &&
               a->replaces[i] == b->replaces[i];
    return same;
}

static size_t kind_of(const struct store_stage *s)
{
    size_t kind = 0;

    while (strcmp(stage_kinds[kind]->name, s->name) != 0)
        kind++;
    return kind;
}

/* Voice activity's model may have come since the recipe was set. */
static void note_voice(const char *was, const char *is, struct enqueue_stages *found)
{
    if (!strstr(was, "vad=") && strstr(is, "vad=on\""))
        snprintf(found->note, sizeof(found->note),
                 "The model of voice activity is here now, and new work uses it. Finished work "
                 "stays; --again does it anew.");
}

/* The stages of a plan. */
static int build_group_stages(const struct groups_own *own, struct store *known,
                              struct groups_group *g, char doing[200], struct err *err)
{
    const struct groups_plan *p = &g->plan;
    struct enqueue_wish w;
    int rc;

    enqueue_wish_init(&w);
    w.no_transcribe = !p->done[0];
    w.hears = p->options[0] != NULL;
    w.on_known = own->wish->no_transcribe && enqueue_wish_on_source(own->wish);
    memcpy(w.kept, p->kept, sizeof(w.kept));
    g->words = json_array();
    rc = g->words ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    for (size_t kind = 0; rc == 0 && kind < STAGE_COUNT; kind++)
        if (p->options[kind] && (kind == 0 || p->done[kind]))
            rc = said_again(p->options[kind], kind, false, &w, g->words, err);
    if (rc == 0)
        rc = enqueue_stages_find(&w, known, &g->found, doing, err);
    if (p->kept[0])
        g->found.note[0] = 0;
    for (uint32_t i = 0; rc == 0 && i < g->found.count; i++) {
        const size_t kind = kind_of(&g->found.stages[i]);

        g->kinds[g->count++] = (struct groups_kind){.stage = g->found.stages[i],
                                                    .kept = p->kept[kind],
                                                    .keeps = p->keeps[kind],
                                                    .replaces = p->replaces[kind]};
        rc = said_options(&w, kind, &g->kinds[i].options, err);
        if (rc == 0 && p->kept[kind])
            note_voice(p->options[kind], g->kinds[i].options, &g->found);
    }
    return rc;
}

/* A stage that continues needs the same model: other files are another model. */
static int check_model(const struct groups_kind *k, const struct recipe_row *row, char doing[200],
                       struct err *err)
{
    if (!k->keeps || !row || strcmp(row->model_hash, k->stage.model_hash) == 0)
        return 0;
    snprintf(doing, 200, "continue as last time");
    return err_set(err, ERR_MODEL,
                   "%.200s now holds another model '%.120s' than last time. Bring the old one "
                   "back, or use --again to do its work anew with this one (or with --%s=...)",
                   k->stage.model_dir, k->stage.model, stage_kind_find(k->stage.name)->option);
}

/* The region's own recipe, where it is another one from now on. */
static int note_recipe(const struct groups *g, struct groups_group *group, const char *path,
                       char doing[200], struct err *err)
{
    const struct groups_own *own = g->own;
    const struct recipe_place *place =
        paths_exact(recipes_places(own->recipes), path, strlen(path));
    const bool is_root = strcmp(root_of(own, path)->path, path) == 0;

    for (uint32_t i = 0; i < group->count; i++) {
        struct groups_kind *k = &group->kinds[i];
        const size_t kind = kind_of(&k->stage);
        const struct recipe_row *row = recipes_of(own->recipes, path, kind);
        int rc = check_model(k, row, doing, err);

        if (rc != 0)
            return rc;
        if (!is_root && (k->replaces || !place || !place->of[kind].options))
            continue;
        if (!k->replaces && !options_differ(k->options, row) &&
            strcmp(row->model_hash, k->stage.model_hash) == 0)
            continue;
        if (!k->roots)
            k->roots =
                calloc(own->root_count + recipes_places(own->recipes).count, sizeof(*k->roots));
        if (!k->roots)
            return err_set(err, ERR_NOMEM, "out of memory");
        k->roots[k->root_count++] = path;
    }
    return 0;
}

static int add_region(struct groups *g, struct store *known, const char *path, char doing[200],
                      struct err *err)
{
    struct groups_group *group = &g->list[g->count];
    uint32_t at = 0;
    int rc = 0;

    plan_group(g->own, path, &group->plan);
    while (at < g->count && !same_plan(&g->list[at].plan, &group->plan))
        at++;
    if (at == g->count) {
        g->count++;
        rc = build_group_stages(g->own, known, group, doing, err);
    }
    g->regions[g->region_count++] = (struct groups_region){path, at};
    return rc == 0 ? note_recipe(g, &g->list[at], path, doing, err) : rc;
}

static int add_regions(struct groups *g, struct store *known, char doing[200], struct err *err)
{
    const struct groups_own *own = g->own;
    const struct paths places = recipes_places(own->recipes);
    const struct recipe_place *place = places.list;
    const size_t most = own->root_count + places.count;
    int rc = 0;

    g->list = calloc(most, sizeof(*g->list));
    g->regions = calloc(most, sizeof(*g->regions));
    if (!g->list || !g->regions)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < own->root_count; i++)
        rc = add_region(g, known, own->roots[i].path, doing, err);
    for (size_t i = 0; rc == 0 && i < places.count; i++) {
        const struct root *root = root_of(own, place[i].path);

        if (root && strcmp(root->path, place[i].path) != 0)
            rc = add_region(g, known, place[i].path, doing, err);
    }
    qsort(g->regions, g->region_count, sizeof(*g->regions), paths_compare);
    return rc;
}

int groups_make(const struct enqueue_wish *w, bool again, struct store *known,
                const char *const *roots, uint32_t root_count, struct groups *ret, char doing[200],
                struct err *err)
{
    struct groups_own *own = calloc(1, sizeof(*own));
    int rc;

    memset(ret, 0, sizeof(*ret));
    ret->own = own;
    if (!own || !(own->words = json_array()))
        return err_set(err, ERR_NOMEM, "out of memory");
    own->wish = w;
    own->plain = !said_anything(w);
    own->again = again;
    rc = keep_roots(own, roots, root_count, err);
    if (rc == 0)
        rc = recipes_read(known, &own->recipes, err);
    for (size_t i = 0; rc == 0 && i < own->root_count; i++)
        for (size_t kind = 0; rc == 0 && kind < STAGE_COUNT; kind++)
            rc = say_kind(own, &own->roots[i], kind, err);
    ret->times = own->times;
    return rc == 0 ? add_regions(ret, known, doing, err) : rc;
}

/* ------------------------------------------------------------------------------- asking it */

uint32_t groups_of(const struct groups *g, const char *path, size_t len)
{
    const struct groups_region *at =
        paths_nearest(PATHS_OF(g->regions, g->region_count), path, len);

    return at ? at->group : g->regions[0].group;
}

static bool same_stage(const struct store_stage *s, const struct store_stage *t)
{
    return strcmp(s->name, t->name) == 0 && strcmp(s->model_hash, t->model_hash) == 0 &&
           strcmp(s->params_json, t->params_json) == 0;
}

bool groups_have_below(const struct groups *g, const char *path, const struct store_stage *stage)
{
    bool found = false;

    for (uint32_t i = 0; i < g->region_count && !found; i++) {
        const struct groups_group *group = &g->list[g->regions[i].group];
        const char *at = g->regions[i].path;

        if (strcmp(at, path) == 0 ||
            !paths_nearest((struct paths){&path, 1, sizeof(path)}, at, strlen(at)))
            continue;
        for (uint32_t j = 0; j < group->count && !found; j++)
            found = same_stage(&group->kinds[j].stage, stage);
    }
    return found;
}

int groups_new(const struct groups *g, groups_new_fn fn, void *arg, struct err *err)
{
    const struct groups_own *own = g->own;
    int rc = 0;

    for (size_t i = 0; i < own->root_count; i++) {
        const char *path = own->roots[i].path;
        const struct groups_group *group = &g->list[groups_of(g, path, strlen(path))];

        for (uint32_t j = 0; rc == 0 && j < group->count; j++)
            if (!group->kinds[j].keeps)
                rc = fn(arg, &group->kinds[j].stage, path, err);
    }
    return rc;
}
