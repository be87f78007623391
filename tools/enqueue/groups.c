#include "tools/enqueue/groups.h"

#include <stdlib.h>
#include <string.h>

#include "store/read/asked.h"
#include "tools/enqueue/enqueue_kept.h"
#include "tools/enqueue/said.h"

/* What was asked for of a path, of one kind; strings are of the pool. */
struct row {
    const char *options;
    bool fresh; /* nothing was: it is what the recordings there have */
    struct store_stage stage, source;
};

enum decision {
    NOTHING,
    KEEP, /* as it was asked for last */
    MAKE, /* as the options say */
};

/* These lists are in the order of paths, which is each one's first member. */
struct place {
    const char *path;
    const struct row *of[STAGE_COUNT];
};

struct wanted { /* a root; none lies below another one */
    const char *path;
    enum decision of[STAGE_COUNT];
};

struct groups_kept {
    void **pool;
    size_t pool_count, pool_cap;
    struct place *places;
    size_t count, cap;
    struct wanted *roots;
    size_t root_count;
    char *options[STAGE_COUNT]; /* as they were said now */
    bool plain;                 /* nothing was said of how */
    bool again, anew;           /* --again; and nothing was said of how */
    bool transcribes;           /* it was said how to transcribe */
    json_t *words[STAGE_COUNT]; /* what the wish borrows from */
    bool failed;
};

/* ------------------------------------------------------------------------------- memory */

/* Room for one more of a list; false: there is none. */
static bool more(void **list, size_t *cap, size_t count, size_t size)
{
    size_t n = *cap ? *cap * 2 : 16;
    void *bigger;

    if (count < *cap)
        return true;
    bigger = realloc(*list, n * size);
    if (!bigger)
        return false;
    *list = bigger;
    *cap = n;
    return true;
}

/* Takes p; false: it is NULL, or there is no memory to remember it in. */
static bool own(struct groups_kept *k, void *p)
{
    if (!p || !more((void **)&k->pool, &k->pool_cap, k->pool_count, sizeof(*k->pool))) {
        free(p);
        k->failed = true;
        return false;
    }
    k->pool[k->pool_count++] = p;
    return true;
}

static const char *own_text(struct groups_kept *k, char *s) { return own(k, s) ? s : ""; }

static const char *copy(struct groups_kept *k, const char *s) { return own_text(k, strdup(s)); }

static struct store_stage copy_stage(struct groups_kept *k, const struct store_stage *s)
{
    return (struct store_stage){.name = copy(k, s->name),
                                .model = copy(k, s->model),
                                .model_dir = copy(k, s->model_dir),
                                .model_hash = copy(k, s->model_hash),
                                .params_json = copy(k, s->params_json)};
}

void groups_free(struct groups *g)
{
    struct groups_kept *k = g->own;

    for (uint32_t i = 0; i < g->count; i++)
        for (uint32_t j = 0; j < g->list[i].count; j++)
            free(g->list[i].kinds[j].roots);
    free(g->list);
    free(g->regions);
    enqueue_stages_free(&g->found);
    if (k) {
        for (size_t i = 0; i < k->pool_count; i++)
            free(k->pool[i]);
        for (size_t i = 0; i < STAGE_COUNT; i++) {
            free(k->options[i]);
            json_decref(k->words[i]);
        }
        free(k->pool);
        free(k->places);
        free(k->roots);
        free(k);
    }
    memset(g, 0, sizeof(*g));
}

/* ------------------------------------------------------------------------------- paths */

static int by_path(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The element whose path is these n bytes, of a list in the order of paths; NULL: there is none. */
static const void *exact(const void *list, size_t count, size_t size, const char *path, size_t n)
{
    size_t low = 0, high = count;

    while (low < high) {
        const size_t mid = (low + high) / 2;
        const void *at = (const char *)list + mid * size;
        const char *of = *(const char *const *)at;
        int c = strncmp(of, path, n);

        if (c == 0 && of[n] == 0)
            return at;
        if (c >= 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

/* The length of the folder above the first n bytes; 0 above "/". */
static size_t above(const char *path, size_t n)
{
    if (n <= 1)
        return 0;
    while (n > 1 && path[n - 1] != '/')
        n--;
    return n > 1 ? n - 1 : 1;
}

/* The nearest at or above the path. */
static const void *nearest(const void *list, size_t count, size_t size, const char *path, size_t n)
{
    const void *at = NULL;

    for (; n > 0 && !at; n = above(path, n))
        at = exact(list, count, size, path, n);
    return at;
}

/* What was asked for last of a path: that of the nearest at or above it. NULL: nothing. */
static const struct row *row_of(const struct groups_kept *k, const char *path, size_t kind)
{
    for (size_t n = strlen(path); n > 0; n = above(path, n)) {
        const struct place *p = exact(k->places, k->count, sizeof(*p), path, n);

        if (p && p->of[kind])
            return p->of[kind];
    }
    return NULL;
}

static bool any_row_of(const struct groups_kept *k, const char *path)
{
    return nearest(k->places, k->count, sizeof(*k->places), path, strlen(path)) != NULL;
}

/* The root whose decisions hold there; NULL: it is below none. */
static const struct wanted *wanted_of(const struct groups_kept *k, const char *path)
{
    return nearest(k->roots, k->root_count, sizeof(*k->roots), path, strlen(path));
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
    qsort(all, count, sizeof(*all), by_path);
    for (size_t i = 0; i < count; i++) {
        const char *path = all[i].path;

        if (!nearest(all, count, sizeof(*all), path, above(path, strlen(path))) &&
            (i == 0 || strcmp(all[i - 1].path, path) != 0))
            k->roots[k->root_count++] = all[i];
    }
    free(all);
    return 0;
}

/* ------------------------------------------------------------------------------- the catalog */

struct reading {
    struct groups_kept *k;
    bool fresh;
};

/* Is it at or above a root, or below one? */
static bool concerns(const struct groups_kept *k, const char *path)
{
    const size_t n = strlen(path);
    size_t low = 0, high = k->root_count;

    if (wanted_of(k, path))
        return true;
    while (low < high) { /* the first root that is not before "path/" */
        const size_t mid = (low + high) / 2;
        const char *of = k->roots[mid].path;
        int c = strncmp(of, path, n);

        if (c > 0 || (c == 0 && (unsigned char)of[n] >= '/') || (c == 0 && n == 1))
            high = mid;
        else
            low = mid + 1;
    }
    return low < k->root_count && strncmp(k->roots[low].path, path, n) == 0 &&
           (k->roots[low].path[n] == '/' || n == 1);
}

static struct row *new_row(struct groups_kept *k, const struct asked *a, bool fresh)
{
    const struct store_stage *source = store_stage_source(&a->stage);
    struct row *r = calloc(1, sizeof(*r));

    if (!own(k, r))
        return NULL;
    r->fresh = fresh;
    r->options = a->options ? copy(k, a->options) : NULL;
    r->stage = copy_stage(k, &a->stage);
    if (source)
        r->source = copy_stage(k, source);
    return r;
}

/* Stages of a later version are not ours to go on with. Rows of a path come one after the other. */
static int keep_row(void *arg, const struct asked *a)
{
    struct reading *g = arg;
    struct groups_kept *k = g->k;
    const struct stage_kind *kind = stage_kind_find(a->stage.name);
    const bool same = k->count > 0 && strcmp(k->places[k->count - 1].path, a->path) == 0;
    size_t i = 0;

    if (!kind || !concerns(k, a->path))
        return 0;
    while (stage_kinds[i] != kind)
        i++;
    if (!same && !more((void **)&k->places, &k->cap, k->count, sizeof(*k->places)))
        k->failed = true;
    else if (!same)
        k->places[k->count++] = (struct place){.path = copy(k, a->path)};
    if (!k->failed)
        k->places[k->count - 1].of[i] = new_row(k, a, g->fresh);
    return k->failed;
}

static int read_rows(struct groups_kept *k, struct store *known, struct err *err)
{
    struct reading g = {.k = k};
    int rc = known ? asked_each(known, keep_row, &g, err) : 0;
    const size_t asked = k->count;

    g.fresh = true;
    for (size_t i = 0; rc == 0 && known && i < k->root_count; i++) {
        const char *path = k->roots[i].path;

        if (!nearest(k->places, asked, sizeof(*k->places), path, strlen(path)))
            rc = asked_usual(known, path, keep_row, &g, err);
    }
    if (k->count > asked)
        qsort(k->places, k->count, sizeof(*k->places), by_path);
    return k->failed ? err_set(err, ERR_NOMEM, "out of memory") : rc;
}

/* ------------------------------------------------------------------------------- decisions */

/* Does the wish say anything of how this kind is to be done? */
static bool speaks_of(const struct enqueue_wish *w, size_t kind)
{
    return kind == 0 ? enqueue_wish_transcribes(w) != NULL : w->other[kind] != NULL;
}

/* Is it what was said last time, word for word? */
static bool as_said(const struct groups_kept *k, const struct row *r, size_t kind)
{
    return r && !k->again && r->options && strcmp(r->options, k->options[kind]) == 0;
}

static enum decision decide(const struct groups_kept *k, const struct enqueue_wish *w,
                            const char *root, size_t kind)
{
    const struct row *r = row_of(k, root, kind);

    if (k->plain)
        return r ? KEEP : kind == 0 && !any_row_of(k, root) ? MAKE : NOTHING;
    if (kind == 0 ? w->no_transcribe : !w->other[kind])
        return NOTHING;
    if (!speaks_of(w, kind))
        return r && !k->anew ? KEEP : MAKE;
    /* How to transcribe is part of what is said of that which works on it. */
    if (!stage_kinds[kind]->hears && k->transcribes && !as_said(k, row_of(k, root, 0), 0))
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
        const struct row *r = row_of(k, k->roots[0].path, kind);

        for (size_t i = 1; rc == 0 && i < k->root_count; i++) {
            const struct row *o = row_of(k, k->roots[i].path, kind);

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
    const struct row *r = how == KEEP ? row_of(g->own, path, kind) : NULL;
    struct groups_kind *k = &ret->kinds[ret->count];

    if (r)
        *k = (struct groups_kind){
            .stage = r->stage, .kept = true, .usual = !r->options, .options = r->options};
    else if (how == MAKE && made(g, kind))
        *k = (struct groups_kind){.stage = *made(g, kind), .options = g->own->options[kind]};
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
    const struct row *r = g->own->transcribes ? NULL : row_of(g->own, path, 0);

    if (group->count > 0 && strcmp(group->kinds[0].stage.name, stage_transcribe.name) == 0)
        return &group->kinds[0].stage;
    if (r)
        return &r->stage;
    return g->found.transcribe.name ? &g->found.transcribe : NULL;
}

/* What works on a transcription works on the one that is asked for there. */
static int put_on_source(const struct groups *g, const char *path, struct groups_group *group,
                         struct err *err)
{
    const struct store_stage *source = source_of(g, path, group);

    for (uint32_t i = 0; i < group->count && source; i++) {
        struct store_stage *s = &group->kinds[i].stage;
        const struct stage_kind *kind = stage_kind_find(s->name);
        char *params = NULL;
        int rc;

        if (kind->hears)
            continue;
        rc = enqueue_stage_on(kind, source, s->params_json, &params, err);
        if (rc != 0)
            return rc;
        s->params_json = own_text(g->own, params);
        s->source = source;
    }
    return g->own->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

static bool same_kind(const struct groups_kind *a, const struct groups_kind *b)
{
    const struct store_stage *s = &a->stage, *t = &b->stage;

    return strcmp(s->name, t->name) == 0 && strcmp(s->model_hash, t->model_hash) == 0 &&
           strcmp(s->params_json, t->params_json) == 0 && a->kept == b->kept &&
           a->usual == b->usual;
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
        const struct row *r;

        while (strcmp(stage_kinds[kind]->name, of->stage.name) != 0)
            kind++;
        r = row_of(k, root->path, kind);
        if (root->of[kind] != MAKE && !(r && r->fresh))
            continue;
        if (!of->roots)
            of->roots = calloc(k->root_count, sizeof(*of->roots));
        if (!of->roots)
            return err_set(err, ERR_NOMEM, "out of memory");
        of->roots[of->root_count++] = root->path;
        of->replaces = root->of[kind] == MAKE && !k->plain;
    }
    return 0;
}

/* What works on a transcription follows it, also where nobody speaks of it: else there would be two
 * transcriptions, one of them for that alone. */
static enum decision decided_of(const struct groups_kept *k, const struct wanted *root,
                                const char *path, size_t kind)
{
    if (k->plain && any_row_of(k, path))
        return KEEP;
    if (root->of[kind] == NOTHING && root->of[0] == MAKE && !stage_kinds[kind]->hears && !k->plain)
        return row_of(k, path, kind) ? KEEP : NOTHING;
    return root->of[kind];
}

/* The stages of what lies at the path. */
static int make_group(const struct groups *g, const char *path, struct groups_group *ret,
                      struct err *err)
{
    const struct wanted *root = wanted_of(g->own, path);

    memset(ret, 0, sizeof(*ret));
    for (size_t kind = 0; kind < STAGE_COUNT; kind++)
        add_kind(g, path, kind, decided_of(g->own, root, path, kind), ret);
    return put_on_source(g, path, ret, err);
}

static int add_region(struct groups *g, const char *path, struct err *err)
{
    struct groups_group group;
    const struct wanted *root = wanted_of(g->own, path);
    uint32_t at = 0;
    int rc = make_group(g, path, &group, err);

    if (rc != 0)
        return rc;
    while (at < g->count && !same_group(&g->list[at], &group))
        at++;
    if (at == g->count)
        g->list[g->count++] = group;
    g->regions[g->region_count++] = (struct groups_region){path, at};
    return strcmp(root->path, path) == 0 ? note_root(g, &g->list[at], root, err) : 0;
}

static int add_regions(struct groups *g, struct err *err)
{
    const struct groups_kept *k = g->own;
    const size_t most = k->root_count + k->count;
    int rc = 0;

    g->list = calloc(most, sizeof(*g->list));
    g->regions = calloc(most, sizeof(*g->regions));
    if (!g->list || !g->regions)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < k->root_count; i++)
        rc = add_region(g, k->roots[i].path, err);
    for (size_t i = 0; rc == 0 && i < k->count; i++) {
        const char *path = k->places[i].path;
        const struct wanted *root = wanted_of(k, path);

        if (root && strcmp(root->path, path) != 0)
            rc = add_region(g, path, err);
    }
    qsort(g->regions, g->region_count, sizeof(*g->regions), by_path);
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
                k->stage.model_dir = own_text(g->own, dir);
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

int groups_make(struct enqueue_wish *w, bool again, struct store *known, const char *const *roots,
                uint32_t root_count, struct groups *ret, char doing[200], struct err *err)
{
    const struct row *last;
    struct groups_kept *k = calloc(1, sizeof(*k));
    int rc;

    memset(ret, 0, sizeof(*ret));
    ret->own = k;
    rc = k ? keep_roots(k, roots, root_count, err) : err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = read_rows(k, known, err);
    if (rc != 0)
        return rc;
    k->plain = !said_anything(w);
    k->again = again;
    if (k->plain && again)
        rc = say_again(k, w, err);
    if (rc == 0)
        rc = say_options(k, w, err);
    if (rc != 0)
        return rc;
    k->transcribes = enqueue_wish_transcribes(w) != NULL;
    last = row_of(k, k->roots[0].path, 0);
    if (decide_all(k, w))
        rc = enqueue_stages_find(w, known, last ? &last->stage : NULL, &ret->found, doing, err);
    if (rc == 0)
        rc = add_regions(ret, err);
    return rc == 0 ? check_kept(ret, doing, err) : rc;
}

/* ------------------------------------------------------------------------------- asking it */

uint32_t groups_of(const struct groups *g, const char *path, size_t len)
{
    const struct groups_region *at =
        nearest(g->regions, g->region_count, sizeof(*g->regions), path, len);

    return at ? at->group : g->regions[0].group;
}

static int new_of(const struct groups *g, const struct wanted *root, groups_new_fn fn, void *arg,
                  struct err *err)
{
    const struct groups_group *group = &g->list[groups_of(g, root->path, strlen(root->path))];
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < group->count; i++)
        if (!group->kinds[i].kept)
            rc = fn(arg, &group->kinds[i].stage, root->path, err);
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
