#include "tools/enqueue/groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/enqueue/stages/enqueue_kept.h"
#include "tools/enqueue/last_asked.h"
#include "tools/enqueue/option_words.h"

enum decision {
    NOTHING,
    KEEP, /* as it was asked for last */
    MAKE, /* as the options say */
};

struct wanted { /* a root; none lies below another one */
    const char *path;
    enum decision of[STAGE_COUNT];
};

struct groups_kept {
    struct last *last;
    struct wanted *roots; /* in the order of paths */
    size_t root_count;
    char *options[STAGE_COUNT]; /* as they were said now */
    bool plain;                 /* nothing was said of how */
    bool again, anew;           /* --again; and nothing was said of how */
    bool transcribes;           /* it was said how to transcribe */
    bool hears_now;             /* nothing was said; voice activity has come since the last time */
    json_t *words[STAGE_COUNT]; /* what the wish borrows from */
};

static void free_group(struct groups_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        free(group->kinds[i].roots);
        free(group->kinds[i].own_params);
        free(group->kinds[i].own_dir);
    }
}

void groups_free(struct groups *g)
{
    struct groups_kept *k = g->own;

    for (uint32_t i = 0; i < g->count; i++)
        free_group(&g->list[i]);
    free(g->list);
    free(g->regions);
    enqueue_stages_free(&g->found);
    if (k) {
        last_free(k->last);
        for (size_t i = 0; i < STAGE_COUNT; i++) {
            free(k->options[i]);
            json_decref(k->words[i]);
        }
        free(k->roots);
        free(k);
    }
    memset(g, 0, sizeof(*g));
}

/* ------------------------------------------------------------------------------- paths */

/* The root whose decisions hold there; NULL: it is below none. */
static const struct wanted *wanted_of(const struct groups_kept *k, const char *path)
{
    return paths_nearest(PATHS_OF(k->roots, k->root_count), path, strlen(path));
}

/* What lies below another root is part of that one. */
static int keep_roots(struct groups_kept *k, const char *const *roots, size_t count,
                      struct err *err)
{
    struct wanted *all = calloc(count, sizeof(*all));

    k->roots = calloc(count, sizeof(*k->roots));
    if (!all || !k->roots) {
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
            k->roots[k->root_count++] = all[i];
    }
    free(all);
    return 0;
}

/* ------------------------------------------------------------------------------- decisions */

/* Something was said, but nothing of how to transcribe: a transcription that was asked for below
 * goes on there, and nobody has another one for it. */
static bool goes_without_saying(const struct groups_kept *k, size_t kind)
{
    return kind == 0 && !k->plain && !k->anew && !k->transcribes;
}

/* Does the wish say anything of how this kind is to be done? */
static bool speaks_of(const struct enqueue_wish *w, size_t kind)
{
    return kind == 0 ? enqueue_wish_transcribes(w) != NULL : w->other[kind] != NULL;
}

/* Is it what was said last time, word for word? */
static bool as_said(const struct groups_kept *k, const struct last_row *r, size_t kind)
{
    return r && !k->again && r->options && strcmp(r->options, k->options[kind]) == 0;
}

static bool hears_otherwise(const struct enqueue_wish *w, const struct last_row *r, size_t kind)
{
    const struct hearing_words now = enqueue_hearing(stage_kinds[kind], w->params.params.hearing);
    const struct hearing_words was =
        r ? stage_hearing_words(r->stage.name, r->stage.params_json) : now;

    return strcmp(was.channels, now.channels) != 0 || strcmp(was.tracks, now.tracks) != 0;
}

static enum decision decide(const struct groups_kept *k, const struct enqueue_wish *w,
                            const char *root, size_t kind)
{
    const struct last_row *r = last_of(k->last, root, kind);

    if (k->plain && kind == 0 && k->hears_now && r)
        return MAKE;
    if (k->plain)
        return r ? KEEP : kind == 0 && !last_any(k->last, root) ? MAKE : NOTHING;
    if (kind == 0 ? w->no_transcribe : !w->other[kind])
        return NOTHING;
    if (!speaks_of(w, kind))
        return r && !k->anew ? KEEP : MAKE;
    /* How to transcribe is part of what is said of that which works on it. */
    if (k->transcribes && !as_said(k, last_of(k->last, root, 0), 0) &&
        (!stage_kinds[kind]->hears || hears_otherwise(w, r, kind)))
        return MAKE;
    return as_said(k, r, kind) ? KEEP : MAKE;
}

/* Whether there is anything to be made of the options. */
static bool decide_all(struct groups_kept *k, const struct enqueue_wish *w)
{
    bool make = false;

    for (size_t i = 0; i < k->root_count; i++)
        for (size_t kind = 0; kind < STAGE_COUNT; kind++) {
            k->roots[i].of[kind] = decide(k, w, k->roots[i].path, kind);
            make |= k->roots[i].of[kind] == MAKE;
        }
    return make;
}

/* --again without a word on how: the same words, and what they mean now. */
static int say_again(struct groups_kept *k, struct enqueue_wish *w, struct err *err)
{
    bool transcribes = false, any = false;
    int rc = 0;

    for (size_t kind = 0; rc == 0 && kind < STAGE_COUNT; kind++) {
        const struct last_row *r = last_of(k->last, k->roots[0].path, kind);

        for (size_t i = 1; rc == 0 && i < k->root_count; i++) {
            const struct last_row *o = last_of(k->last, k->roots[i].path, kind);

            if (!r != !o ||
                (r && strcmp(r->options ? r->options : "", o->options ? o->options : "") != 0))
                rc = err_set(err, ERR_USAGE,
                             "these were last asked for in different ways; try --again with one "
                             "of them at a time, or say how all are to be done");
        }
        if (rc != 0 || !r)
            continue;
        if (!r->options)
            return err_set(err, ERR_USAGE,
                           "the catalog does not know with which options these were asked for; "
                           "try --again with them");
        any = true;
        transcribes |= kind == 0;
        rc = said_again(r->options, kind, w, &k->words[kind], err);
    }
    w->no_transcribe = any && !transcribes;
    w->anew = k->anew = any;
    k->plain = !any;
    return rc;
}

/* Was it transcribed without voice activity, only since its model was not here? */
static bool lacked_voice(const struct last_row *r)
{
    struct transcribe_params p;
    struct err ignored = {0};

    return r && r->options && !strstr(r->options, "\"--vad=off\"") &&
           !strstr(r->options, "\"--condition-on-previous-text\"") &&
           transcribe_params_from_json(r->stage.params_json, &p, &ignored) == 0 && !p.vad_model[0];
}

static bool voice_is_here(void)
{
    const struct enqueue_vad any = {.wish = VAD_AUTO};
    char model[ENQUEUE_VAD_NAME], hash[ENQUEUE_VAD_HASH];
    struct err ignored = {0};

    return enqueue_vad_find(&any, model, hash, &ignored) == 0 && model[0] != 0;
}

/* A catalog that began without voice activity, and has it now: what is new is transcribed with it,
 * by the same words as last time. What was transcribed without stays. */
static int hear_from_now_on(struct groups_kept *k, struct enqueue_wish *w, struct err *err)
{
    const struct last_row *first = last_of(k->last, k->roots[0].path, 0);

    for (size_t i = 0; i < k->root_count; i++) {
        const struct last_row *r = last_of(k->last, k->roots[i].path, 0);

        if (!lacked_voice(r) || strcmp(r->options, first->options) != 0)
            return 0;
    }
    if (!voice_is_here())
        return 0;
    k->hears_now = true;
    return said_again(first->options, 0, w, &k->words[0], err);
}

/* ------------------------------------------------------------------------------- groups */

static const struct store_stage *made(const struct groups *g, size_t kind)
{
    for (uint32_t i = 0; i < g->found.count; i++)
        if (strcmp(g->found.stages[i].name, stage_kinds[kind]->name) == 0)
            return &g->found.stages[i];
    return NULL;
}

static void add_kind(const struct groups *g, const char *path, size_t kind, enum decision how,
                     struct groups_group *ret)
{
    const struct last_row *r = how == KEEP ? last_of(g->own->last, path, kind) : NULL;
    struct groups_kind *k = &ret->kinds[ret->count];

    if (r)
        *k = (struct groups_kind){
            .stage = r->stage, .kept = true, .keeps = true, .options = r->options};
    else if (how == MAKE && made(g, kind))
        *k = (struct groups_kind){.stage = *made(g, kind),
                                  .keeps = (g->own->plain || goes_without_saying(g->own, kind)) &&
                                           !g->own->again,
                                  .options = g->own->options[kind]};
    else
        return;
    if (r && r->source.name)
        k->stage.source = &r->source;
    ret->count++;
}

/* The transcription that others work on there. */
static const struct store_stage *source_of(const struct groups *g, const char *path,
                                           struct groups_group *group)
{
    const struct last_row *r = g->own->transcribes ? NULL : last_of(g->own->last, path, 0);

    if (group->count > 0 && strcmp(group->kinds[0].stage.name, stage_transcribe.name) == 0)
        return &group->kinds[0].stage;
    if (r)
        return &r->stage;
    return g->found.transcribe.name ? &g->found.transcribe : NULL;
}

/* What works on a transcription works on the one that is asked for there; what is made beside it
 * hears what it hears. */
static int put_on_source(const struct groups *g, const char *path, struct groups_group *group,
                         struct err *err)
{
    const struct store_stage *source = source_of(g, path, group);

    for (uint32_t i = 0; i < group->count && source; i++) {
        struct store_stage *s = &group->kinds[i].stage;
        const struct stage_kind *kind = stage_kind_find(s->name);
        char *params = NULL;
        int rc;

        if (kind == &stage_transcribe || (kind->hears && group->kinds[i].kept))
            continue;
        rc = enqueue_stage_on(kind, source, s->params_json, &params, err);
        if (rc != 0)
            return rc;
        s->params_json = group->kinds[i].own_params = params;
        if (kind->hears)
            continue;
        s->source = source;
        if (source == &group->kinds[0].stage)
            group->kinds[i].keeps &= group->kinds[0].keeps;
    }
    return 0;
}

static bool same_stage(const struct store_stage *s, const struct store_stage *t)
{
    return strcmp(s->name, t->name) == 0 && strcmp(s->model_hash, t->model_hash) == 0 &&
           strcmp(s->params_json, t->params_json) == 0;
}

static bool same_kind(const struct groups_kind *a, const struct groups_kind *b)
{
    return same_stage(&a->stage, &b->stage) && a->kept == b->kept && a->keeps == b->keeps;
}

static bool same_group(const struct groups_group *a, const struct groups_group *b)
{
    bool same = a->count == b->count;

    for (uint32_t i = 0; same && i < a->count; i++)
        same = same_kind(&a->kinds[i], &b->kinds[i]);
    return same;
}

/* Sources lie in the group itself: its place is settled before they are pointed to. */
static void settle_sources(struct groups *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        struct groups_group *group = &g->list[i];
        struct store_stage *first = group->count ? &group->kinds[0].stage : NULL;

        for (uint32_t j = 1; j < group->count; j++)
            if (!stage_kind_find(group->kinds[j].stage.name)->hears &&
                strcmp(first->name, stage_transcribe.name) == 0)
                group->kinds[j].stage.source = first;
    }
}

/* Of a root: where is it from now on what was asked for last? */
static int note_root(struct groups *g, struct groups_group *group, const struct wanted *root,
                     struct err *err)
{
    const struct groups_kept *k = g->own;

    for (uint32_t i = 0; i < group->count; i++) {
        struct groups_kind *of = &group->kinds[i];
        size_t kind = 0;
        const struct last_row *r;

        while (strcmp(stage_kinds[kind]->name, of->stage.name) != 0)
            kind++;
        r = last_of(k->last, root->path, kind);
        if (root->of[kind] != MAKE && !(r && r->fresh))
            continue;
        if (!of->roots)
            of->roots = calloc(k->root_count, sizeof(*of->roots));
        if (!of->roots)
            return err_set(err, ERR_NOMEM, "out of memory");
        of->roots[of->root_count++] = root->path;
        of->replaces = root->of[kind] == MAKE && !k->plain && !goes_without_saying(k, kind);
    }
    return 0;
}

/* What works on a transcription follows it, also where nobody speaks of it: else there would be two
 * transcriptions, one of them for that alone. */
static enum decision decided_of(const struct groups *g, const struct wanted *root, const char *path,
                                size_t kind)
{
    const struct groups_kept *k = g->own;

    if (k->plain && last_any(k->last, path) &&
        !(k->hears_now && root->of[kind] == MAKE && strcmp(root->path, path) == 0))
        return KEEP;
    if (goes_without_saying(k, kind) && root->of[kind] == MAKE && last_of(k->last, path, kind) &&
        made(g, kind) && !same_stage(&last_of(k->last, path, kind)->stage, made(g, kind)))
        return KEEP;
    if (root->of[kind] == NOTHING && root->of[0] == MAKE && !stage_kinds[kind]->hears && !k->plain)
        return last_of(k->last, path, kind) ? KEEP : NOTHING;
    return root->of[kind];
}

/* The stages of what lies at the path. */
static int make_group(const struct groups *g, const char *path, struct groups_group *ret,
                      struct err *err)
{
    const struct wanted *root = wanted_of(g->own, path);

    memset(ret, 0, sizeof(*ret));
    for (size_t kind = 0; kind < STAGE_COUNT; kind++)
        add_kind(g, path, kind, decided_of(g, root, path, kind), ret);
    return put_on_source(g, path, ret, err);
}

static int add_region(struct groups *g, const char *path, struct err *err)
{
    struct groups_group group;
    const struct wanted *root = wanted_of(g->own, path);
    uint32_t at = 0;
    int rc = make_group(g, path, &group, err);

    if (rc != 0) {
        free_group(&group);
        return rc;
    }
    while (at < g->count && !same_group(&g->list[at], &group))
        at++;
    if (at == g->count)
        g->list[g->count++] = group;
    else
        free_group(&group);
    g->regions[g->region_count++] = (struct groups_region){path, at};
    return strcmp(root->path, path) == 0 ? note_root(g, &g->list[at], root, err) : 0;
}

static int add_regions(struct groups *g, struct err *err)
{
    const struct groups_kept *k = g->own;
    const struct paths places = last_places(k->last);
    const struct last_place *place = places.list;
    const size_t most = k->root_count + places.count;
    int rc = 0;

    g->list = calloc(most, sizeof(*g->list));
    g->regions = calloc(most, sizeof(*g->regions));
    if (!g->list || !g->regions)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < k->root_count; i++)
        rc = add_region(g, k->roots[i].path, err);
    for (size_t i = 0; rc == 0 && i < places.count; i++) {
        const char *path = place[i].path;
        const struct wanted *root = wanted_of(k, path);

        if (root && strcmp(root->path, path) != 0)
            rc = add_region(g, path, err);
    }
    qsort(g->regions, g->region_count, sizeof(*g->regions), paths_compare);
    settle_sources(g);
    return rc;
}

/* What goes on as it was must be able to. */
static int check_kept(struct groups *g, char doing[200], struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < g->count; i++)
        for (uint32_t j = 0; rc == 0 && j < g->list[i].count; j++) {
            struct groups_kind *k = &g->list[i].kinds[j];
            char *dir = NULL;

            if (!k->kept)
                continue;
            snprintf(doing, 200, "go on as last time");
            rc = enqueue_kept(&k->stage, &dir, err);
            if (dir)
                k->stage.model_dir = k->own_dir = dir;
        }
    return rc;
}

/* ------------------------------------------------------------------------------- together */

static int say_options(struct groups_kept *k, const struct enqueue_wish *w, struct err *err)
{
    int rc = 0;

    for (size_t kind = 0; rc == 0 && kind < STAGE_COUNT; kind++)
        rc = said_options(w, kind, &k->options[kind], err);
    return rc;
}

/* Are speakers told apart there, now or as last time? */
static bool tells_apart(const struct groups_kept *k, const struct enqueue_wish *w)
{
    bool ret = false;

    for (size_t kind = 0; kind < STAGE_COUNT; kind++) {
        if (stage_kinds[kind] != &stage_diarize)
            continue;
        ret |= w->other[kind] != NULL;
        for (size_t i = 0; i < k->root_count; i++)
            ret |= last_of(k->last, k->roots[i].path, kind) != NULL;
    }
    return ret;
}

int groups_make(struct enqueue_wish *w, bool again, struct store *known, const char *const *roots,
                uint32_t root_count, struct groups *ret, char doing[200], struct err *err)
{
    const struct last_row *last;
    struct groups_kept *k = calloc(1, sizeof(*k));
    int rc;

    memset(ret, 0, sizeof(*ret));
    ret->own = k;
    rc = k ? keep_roots(k, roots, root_count, err) : err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = last_read(known, PATHS_OF(k->roots, k->root_count), &k->last, err);
    if (rc != 0)
        return rc;
    k->plain = !said_anything(w);
    k->again = again;
    if (k->plain && again)
        rc = say_again(k, w, err);
    else if (k->plain)
        rc = hear_from_now_on(k, w, err);
    if (rc == 0)
        rc = say_options(k, w, err);
    if (rc != 0)
        return rc;
    k->transcribes = enqueue_wish_transcribes(w) != NULL;
    w->apart = tells_apart(k, w);
    w->again = again;
    last = last_of(k->last, k->roots[0].path, 0);
    if (decide_all(k, w))
        rc = enqueue_stages_find(w, known, last ? &last->stage : NULL, &ret->found, doing, err);
    if (rc == 0 && k->hears_now)
        snprintf(ret->found.note, sizeof(ret->found.note),
                 "Voice activity's model is here now: new recordings are transcribed with it. What "
                 "was transcribed without it stays; --again does it anew.");
    if (rc == 0)
        rc = add_regions(ret, err);
    return rc == 0 ? check_kept(ret, doing, err) : rc;
}

/* ------------------------------------------------------------------------------- asking it */

uint32_t groups_of(const struct groups *g, const char *path, size_t len)
{
    const struct groups_region *at =
        paths_nearest(PATHS_OF(g->regions, g->region_count), path, len);

    return at ? at->group : g->regions[0].group;
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

static int new_of(const struct groups *g, const struct wanted *root, groups_new_fn fn, void *arg,
                  struct err *err)
{
    const struct groups_group *group = &g->list[groups_of(g, root->path, strlen(root->path))];
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < group->count; i++) {
        const struct store_stage *s = &group->kinds[i].stage;

        if (!group->kinds[i].kept &&
            !(goes_without_saying(g->own, 0) && strcmp(s->name, stage_transcribe.name) == 0))
            rc = fn(arg, s, root->path, err);
    }
    return rc;
}

int groups_new(const struct groups *g, groups_new_fn fn, void *arg, struct err *err)
{
    const struct groups_kept *k = g->own;
    int rc = 0;

    for (size_t i = 0; rc == 0 && !k->plain && i < k->root_count; i++)
        rc = new_of(g, &k->roots[i], fn, arg, err);
    return rc;
}
