#include "tools/describe/whose.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "store/read/read.h"

struct name {
    char *name; /* owned: the last part of a path or member */
    int64_t media_id;
};

struct whose {
    struct store *store;
    const char *folder;
    struct name *names; /* of all places, sorted; read when the first bare name is looked for */
    size_t count, cap;
    bool have_names;
};

int whose_new(struct store *st, const char *folder, struct whose **ret, struct err *err)
{
    struct whose *w = calloc(1, sizeof(*w));

    if (!w)
        return err_set(err, ERR_NOMEM, "out of memory");
    w->store = st;
    w->folder = folder;
    *ret = w;
    return 0;
}

void whose_free(struct whose *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++)
        free(w->names[i].name);
    free(w->names);
    free(w);
}

/* ---- bare names */

static int take_name(void *arg, int64_t media_id, const char *path, const char *member)
{
    const char *whole = member[0] ? member : path, *slash = strrchr(whole, '/');
    struct whose *w = arg;

    if (!list_grow(&w->names, &w->cap, w->count, sizeof(*w->names)))
        return ERR_NOMEM;
    w->names[w->count] = (struct name){strdup(slash ? slash + 1 : whole), media_id};
    return w->names[w->count++].name ? 0 : ERR_NOMEM;
}

static int by_name(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->media_id > y->media_id) - (x->media_id < y->media_id);
}

static int read_names(struct whose *w, struct err *err)
{
    int rc = w->have_names ? 0 : read_places(w->store, take_name, w, err);

    if (rc == ERR_NOMEM)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0 && !w->have_names && w->count > 0)
        qsort(w->names, w->count, sizeof(*w->names), by_name);
    w->have_names |= rc == 0;
    return rc;
}

static int by_bare_name(struct whose *w, const char *name, int64_t *ret, struct err *err)
{
    size_t low = 0, high;
    int rc = read_names(w, err);

    if (rc != 0)
        return rc;
    for (high = w->count; low < high;) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(w->names[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == w->count || strcmp(w->names[low].name, name) != 0)
        return err_set(err, ERR_MISSING, "'%.300s' is not in the catalog", name);
    for (size_t i = low; i < w->count && strcmp(w->names[i].name, name) == 0; i++)
        if (w->names[i].media_id != w->names[low].media_id)
            return err_set(err, ERR_USAGE,
                           "'%.300s' is the name of several recordings: give the path", name);
    *ret = w->names[low].media_id;
    return 0;
}

/* ---- paths */

/* One more part, of n bytes, of a path that begins with a slash. */
static void put_part(struct buf *path, const char *part, size_t n)
{
    if (n == 0 || (n == 1 && part[0] == '.'))
        return;
    if (n == 2 && memcmp(part, "..", 2) == 0) {
        while (path->len > 0 && path->data[--path->len] != '/')
            ;
        return;
    }
    buf_put_u8(path, '/');
    buf_put(path, part, n);
}

static void put_parts(struct buf *path, const char *parts, size_t n)
{
    for (const char *end = parts + n; parts < end;) {
        const char *slash = memchr(parts, '/', (size_t)(end - parts));
        size_t len = (size_t)((slash ? slash : end) - parts);

        put_part(path, parts, len);
        parts += len + 1;
    }
}

/* The place whose path is the first n bytes. */
static int at(struct whose *w, const char *path, size_t n, const char *member, int64_t *ret,
              struct err *err)
{
    struct buf whole = BUF_INIT;
    const char *absolute;
    int rc;

    if (path[0] != '/')
        put_parts(&whole, w->folder, strlen(w->folder));
    put_parts(&whole, path, n);
    absolute = buf_cstr(&whole);
    rc = absolute ? read_place(w->store, absolute, member, ret, err)
                  : err_set(err, ERR_NOMEM, "out of memory");
    buf_free(&whole);
    return rc;
}

int whose_place(struct whose *w, const char *path, const char *member, int64_t *ret,
                struct err *err)
{
    const char *inside = path[0] ? strstr(path + 1, "//") : NULL;
    int rc;

    if (!path[0])
        return err_set(err, ERR_MISSING, "no recording is named");
    rc = at(w, path, strlen(path), member, ret, err);
    if (rc == ERR_MISSING && inside && inside[2] && !member[0])
        rc = at(w, path, (size_t)(inside - path), inside + 2, ret, err);
    if (rc == ERR_MISSING && !strchr(path, '/') && !member[0])
        rc = by_bare_name(w, path, ret, err);
    if (rc == 0)
        *err = (struct err){0}; /* of what was tried before */
    return rc;
}

int whose_number(struct whose *w, const char *number, int64_t *ret, struct err *err)
{
    size_t n = strspn(number, "0123456789");
    int64_t id = n > 0 && n <= 18 && !number[n] ? strtoll(number, NULL, 10) : 0;
    int rc;

    if (id == 0)
        return err_set(err, ERR_USAGE, "'%.100s' is no number of a recording", number);
    rc = read_recording_by_id(w->store, id, NULL, NULL, err);
    if (rc == 0)
        *ret = id;
    return rc;
}
