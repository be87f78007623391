#include "tools/export/names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "workers/text/codepoints.h"

#define COMPONENT_MAX 200 /* leaves room for suffixes below the 255 bytes of file systems */

/* Hashes of the names given out. Two names of one hash only make the second one longer. */
struct names_used {
    uint64_t *slots;
    size_t capacity, count;
};

int names_used_new(struct names_used **ret, struct err *err)
{
    struct names_used *u = calloc(1, sizeof(*u));

    if (u)
        u->slots = calloc(u->capacity = 1024, sizeof(*u->slots));
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

/* FNV-1a, never 0: the same in capitals, and composed or not. 0: no memory. */
static uint64_t hash_of(const char *s)
{
    struct codepoints as_is = {0}, apart = {0}, low = {0};
    uint64_t h = 0xCBF29CE484222325u;

    codepoints_put_utf8(&as_is, s, strlen(s));
    codepoints_canonical(&apart, &as_is, false);
    codepoints_lower(&low, &apart);
    for (size_t i = 0; i < low.len; i++)
        h = (h ^ (uint64_t)(uint32_t)low.at[i]) * 0x100000001B3u;
    h = as_is.failed || apart.failed || low.failed ? 0 : h ? h : 1;
    codepoints_free(&as_is);
    codepoints_free(&apart);
    codepoints_free(&low);
    return h;
}

static size_t place_of(const struct names_used *u, uint64_t h)
{
    size_t i = (size_t)(h ^ h >> 32) & (u->capacity - 1);

    while (u->slots[i] != 0 && u->slots[i] != h)
        i = (i + 1) & (u->capacity - 1);
    return i;
}

/* 1: it was free and is given out now; 0: it was not. */
static int claim_name(struct names_used *u, const char *name, struct err *err)
{
    uint64_t h = hash_of(name);

    if (h == 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    if ((u->count + 1) * 4 > u->capacity * 3) {
        struct names_used bigger = {.capacity = u->capacity * 2, .count = u->count};

        bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
        if (!bigger.slots)
            return err_set(err, ERR_NOMEM, "out of memory");
        for (size_t i = 0; i < u->capacity; i++)
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

/* Windows takes a name for one of its devices, whatever follows its first dot. Returns the length
 * of such a name at the beginning, 0 for any other. */
static size_t device_len(const unsigned char *p, size_t len)
{
    static const char *const devices[] = {"con", "prn", "aux", "nul", "conin$", "conout$"};
    const unsigned char *dot = memchr(p, '.', len);
    const char *s = (const char *)p;
    size_t n = dot ? (size_t)(dot - p) : len;

    while (n > 0 && p[n - 1] == ' ')
        n--;
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
        if (strlen(devices[i]) == n && strncasecmp(s, devices[i], n) == 0)
            return n;
    if (n < 4 || n > 5 || (strncasecmp(s, "com", 3) != 0 && strncasecmp(s, "lpt", 3) != 0))
        return 0;
    /* A digit, or one of those that are raised. */
    if (n == 4)
        return p[3] >= '1' && p[3] <= '9' ? n : 0;
    return p[3] == 0xC2 && (p[4] == 0xB9 || p[4] == 0xB2 || p[4] == 0xB3) ? n : 0;
}

/* One component, made safe here and wherever it may be copied to. */
static void put_component(struct buf *out, const unsigned char *p, size_t len)
{
    size_t start = out->len, device = device_len(p, len), n;
    bool dots = len <= 2 && (len == 0 || (p[0] == '.' && p[len - 1] == '.'));

    if (dots) {
        buf_put(out, "__", len == 0 ? 1 : len);
        return;
    }
    for (size_t i = 0; i < len; i += n ? n : 1) {
        n = utf8_printable(p + i, len - i);
        if (device > 0 && i == device)
            buf_put(out, "_", 1);
        if (out->len - start + (n ? n : 1) > COMPONENT_MAX)
            break;
        if (n == 0 || strchr("<>:\"|?*\\", p[i])) {
            buf_put(out, "_", 1);
            n = n ? n : 1;
        } else
            buf_put(out, p + i, n);
    }
    if (device == len)
        buf_put(out, "_", 1);
}

/* A dot or blank at the end of a folder's name is dropped elsewhere. */
static void put_slash(struct buf *out)
{
    char *last = out->len > 0 ? (char *)out->data + out->len - 1 : NULL;

    if (!last || *last == '/')
        return;
    if (*last == '.' || *last == ' ')
        *last = '_';
    buf_put(out, "/", 1);
}

/* All components, "//" (into an inner archive) and leading '/' as one '/'. */
static void put_path(struct buf *out, const unsigned char *p, size_t len)
{
    for (size_t i = 0; i < len;) {
        const unsigned char *slash = memchr(p + i, '/', len - i);
        size_t n = slash ? (size_t)(slash - p) - i : len - i;

        if (n > 0) {
            put_slash(out);
            put_component(out, p + i, n);
        }
        i += n + 1;
    }
}

char *names_portable(const char *path)
{
    struct buf out = BUF_INIT;

    if (*path == '/')
        buf_put(&out, "/", 1);
    put_path(&out, (const unsigned char *)path, strlen(path));
    if (!buf_cstr(&out))
        buf_free(&out);
    return (char *)out.data;
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
            rc = claim_name(u, buf_cstr(&name), err);
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
