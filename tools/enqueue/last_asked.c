#include "tools/enqueue/last_asked.h"

#include <stdlib.h>
#include <string.h>

#include "store/read/asked.h"

struct last {
    void **pool; /* rows and strings */
    size_t pool_count, pool_cap;
    struct last_place *places;
    size_t count, cap;
    struct paths roots; /* while it is read */
    bool fresh, failed;
};

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
static bool own(struct last *l, void *p)
{
    if (!p || !more((void **)&l->pool, &l->pool_cap, l->pool_count, sizeof(*l->pool))) {
        free(p);
        l->failed = true;
        return false;
    }
    l->pool[l->pool_count++] = p;
    return true;
}

static const char *copy(struct last *l, const char *s)
{
    char *mine = strdup(s);

    return own(l, mine) ? mine : "";
}

static struct store_stage copy_stage(struct last *l, const struct store_stage *s)
{
    return (struct store_stage){.name = copy(l, s->name),
                                .model = copy(l, s->model),
                                .model_dir = copy(l, s->model_dir),
                                .model_hash = copy(l, s->model_hash),
                                .params_json = copy(l, s->params_json)};
}

static struct last_row *new_row(struct last *l, const struct asked *a)
{
    const struct store_stage *source = store_stage_source(&a->stage);
    struct last_row *r = calloc(1, sizeof(*r));

    if (!own(l, r))
        return NULL;
    r->fresh = l->fresh;
    r->options = a->options ? copy(l, a->options) : NULL;
    r->stage = copy_stage(l, &a->stage);
    if (source)
        r->source = copy_stage(l, source);
    return r;
}

/* Stages of a later version are not ours to go on with. Rows of a path come one after the other. */
static int keep_row(void *arg, const struct asked *a)
{
    struct last *l = arg;
    const struct stage_kind *kind = stage_kind_find(a->stage.name);
    const bool same = l->count > 0 && strcmp(l->places[l->count - 1].path, a->path) == 0;
    const size_t n = strlen(a->path);
    size_t i = 0;

    if (!kind || (!paths_nearest(l->roots, a->path, n) && !paths_below(l->roots, a->path, n)))
        return 0;
    while (stage_kinds[i] != kind)
        i++;
    if (!same && !more((void **)&l->places, &l->cap, l->count, sizeof(*l->places)))
        l->failed = true;
    else if (!same)
        l->places[l->count++] = (struct last_place){.path = copy(l, a->path)};
    if (!l->failed)
        l->places[l->count - 1].of[i] = new_row(l, a);
    return l->failed;
}

/* Where nothing was asked for, a catalog that was made before askings were kept may know. */
static int read_fresh(struct last *l, struct store *known, struct err *err)
{
    const size_t asked = l->count;
    int rc = 0;

    l->fresh = true;
    for (size_t i = 0; rc == 0 && i < l->roots.count; i++) {
        const char *path = *(const char *const *)((const char *)l->roots.list + i * l->roots.size);

        if (!paths_nearest(PATHS_OF(l->places, asked), path, strlen(path)))
            rc = asked_usual(known, path, keep_row, l, err);
    }
    if (l->count > asked)
        qsort(l->places, l->count, sizeof(*l->places), paths_compare);
    return rc;
}

int last_read(struct store *known, struct paths roots, struct last **ret, struct err *err)
{
    struct last *l = calloc(1, sizeof(*l));
    int rc = 0;

    if (!l)
        return err_set(err, ERR_NOMEM, "out of memory");
    l->roots = roots;
    if (known)
        rc = asked_each(known, keep_row, l, err);
    if (rc == 0 && known)
        rc = read_fresh(l, known, err);
    if (l->failed)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc != 0)
        last_free(l);
    else
        *ret = l;
    return rc;
}

void last_free(struct last *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->pool_count; i++)
        free(l->pool[i]);
    free(l->pool);
    free(l->places);
    free(l);
}

struct paths last_places(const struct last *l) { return PATHS_OF(l->places, l->count); }

const struct last_row *last_of(const struct last *l, const char *path, size_t kind)
{
    for (size_t n = strlen(path); n > 0; n = paths_above(path, n)) {
        const struct last_place *p = paths_exact(last_places(l), path, n);

        if (p && p->of[kind])
            return p->of[kind];
    }
    return NULL;
}

bool last_any(const struct last *l, const char *path)
{
    return paths_nearest(last_places(l), path, strlen(path)) != NULL;
}
