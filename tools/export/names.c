#include "tools/export/names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

#define COMPONENT_MAX 200 /* leaves room for suffixes below the 255 bytes of file systems */

/* Hashes of the names given out. Two names of one hash only make the second one longer. */
struct names_used {
    uint64_t *slots;
    size_t cap, count;
};

int names_used_new(struct names_used **ret, struct err *err)
{
    struct names_used *u = calloc(1, sizeof(*u));

    if (u)
        u->slots = calloc(u->cap = 1024, sizeof(*u->slots));
    if (!u || !u->slots) {
        free(u);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *ret = u;
    return 0;
}

void names_used_free(struct names_used *u)
{
    if (u)
        free(u->slots);
    free(u);
}

static uint64_t hash_of(const char *s) /* FNV-1a, ASCII case folded; never 0 */
{
    uint64_t h = 0xCBF29CE484222325u;

    for (; *s; s++)
        h = (h ^ (uint64_t)(unsigned char)(*s >= 'A' && *s <= 'Z' ? *s + 32 : *s)) * 0x100000001B3u;
    return h ? h : 1;
}

static size_t place_of(const struct names_used *u, uint64_t h)
{
    size_t i = (size_t)(h ^ h >> 32) & (u->cap - 1);

    while (u->slots[i] != 0 && u->slots[i] != h)
        i = (i + 1) & (u->cap - 1);
    return i;
}

/* 1: it was free and is given out now; 0: it was not. */
static int claim(struct names_used *u, const char *name, struct err *err)
{
    uint64_t h = hash_of(name);

    if ((u->count + 1) * 4 > u->cap * 3) {
        struct names_used bigger = {.cap = u->cap * 2, .count = u->count};

        bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
        if (!bigger.slots)
            return err_set(err, ERR_NOMEM, "out of memory");
        for (size_t i = 0; i < u->cap; i++)
            if (u->slots[i] != 0)
                bigger.slots[place_of(&bigger, u->slots[i])] = u->slots[i];
        free(u->slots);
        *u = bigger;
    }
    if (u->slots[place_of(u, h)] == h)
        return 0;
    u->slots[place_of(u, h)] = h;
    u->count++;
    return 1;
}

/* ------------------------------------------------------------------------------- components */

/* Length of the well-formed character at p, 0 when it is none or a control character. */
static size_t good_char(const unsigned char *p, size_t left)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;

    if (p[0] < 0x20 || p[0] == 0x7F || n > left || !utf8_valid(p, n))
        return 0;
    if (n == 2 && p[0] == 0xC2 && p[1] < 0xA0) /* C1 control characters */
        return 0;
    return n;
}

/* One component, made safe. */
static void put_component(struct buf *out, const unsigned char *p, size_t len)
{
    size_t start = out->len, n;
    bool dots = len <= 2 && (len == 0 || (p[0] == '.' && p[len - 1] == '.'));

    if (dots) {
        buf_put(out, "__", len == 0 ? 1 : len);
        return;
    }
    for (size_t i = 0; i < len; i += n ? n : 1) {
        n = good_char(p + i, len - i);
        if (out->len - start + (n ? n : 1) > COMPONENT_MAX)
            break;
        if (n == 0 || p[i] == '\\') {
            buf_put(out, "_", 1);
            n = 1;
        } else
            buf_put(out, p + i, n);
    }
}

/* All components, "//" (into an inner archive) and leading '/' as one '/'. */
static void put_path(struct buf *out, const unsigned char *p, size_t len)
{
    for (size_t i = 0; i < len;) {
        const unsigned char *slash = memchr(p + i, '/', len - i);
        size_t n = slash ? (size_t)(slash - p) - i : len - i;

        if (n > 0) {
            if (out->len > 0)
                buf_put(out, "/", 1);
            put_component(out, p + i, n);
        }
        i += n + 1;
    }
}

size_t names_stem(const char *name)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    const char *dot = strrchr(last, '.');

    return dot && dot > last && !strchr(dot, ' ') ? (size_t)(dot - name) : strlen(name);
}

int names_common(char **base, const void *path, size_t len, struct err *err)
{
    const char *p = path;
    size_t dir = len, common = 0, have;

    while (dir > 0 && p[dir - 1] != '/')
        dir--;
    dir -= dir > 0; /* the folder of path, without the '/' behind it */
    if (!*base) {
        *base = strndup(p, dir);
        return *base ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    }
    have = strlen(*base);
    for (size_t i = 0; i <= have && i <= dir; i++) {
        bool end_a = i == have, end_b = i == dir;

        if ((end_a || (*base)[i] == '/') && (end_b || p[i] == '/'))
            common = i;
        if (end_a || end_b || (*base)[i] != p[i])
            break;
    }
    (*base)[common] = 0;
    return 0;
}

int names_give(struct names_used *u, const char *base, const void *path, size_t path_len,
               const void *member, size_t member_len, int64_t id, const char *suffix, char **ret,
               struct err *err)
{
    const unsigned char *p = path;
    size_t skip = strlen(base), stem;
    struct buf whole = BUF_INIT, name = BUF_INIT;
    int rc = 0;

    if (skip > path_len || memcmp(base, path, skip) != 0 ||
        (skip > 0 && skip < path_len && p[skip] != '/' && base[skip - 1] != '/'))
        skip = 0;
    put_path(&whole, p + skip, path_len - skip);
    put_path(&whole, member, member_len);
    if (!buf_cstr(&whole) || whole.len == 0) {
        rc = err_set(err, ERR_NOMEM, "out of memory");
        goto out;
    }
    stem = names_stem(buf_cstr(&whole));
    for (int attempt = 0; rc == 0; attempt++) {
        buf_clear(&name);
        buf_put(&name, whole.data, attempt == 0 ? stem : whole.len);
        if (attempt >= 2)
            buf_printf(&name, ".%lld", (long long)id);
        if (attempt > 2)
            buf_printf(&name, "-%d", attempt);
        buf_printf(&name, ".%s", suffix);
        if (!buf_cstr(&name))
            rc = err_set(err, ERR_NOMEM, "out of memory");
        else
            rc = claim(u, buf_cstr(&name), err);
    }
    if (rc > 0) {
        *ret = (char *)name.data;
        name = BUF_INIT;
        rc = 0;
    }
out:
    buf_free(&whole);
    buf_free(&name);
    return rc;
}
