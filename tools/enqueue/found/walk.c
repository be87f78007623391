#include "tools/enqueue/found/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/pair_set.h"

/* A path of PATH_MAX bytes cannot be opened by anybody later, so it bounds the depth as well. */
#define PATH_CAP ((size_t)PATH_MAX)

/* Names of one directory, one behind the other, and where each begins. 32-bit offsets: a million
 * names of 30 bytes take 34 MB. */
struct names {
    char *bytes;
    uint32_t *at;
    size_t len, cap, count, capacity;
};

struct walk {
    struct walk_options o;
    char path[PATH_CAP + 256]; /* of what is being looked at */
    size_t len, root_len;      /* below = path + root_len */
    dev_t root_dev;
    struct pair_set seen; /* directories */
    struct names links;   /* with follow: whole paths of links to directories, for later */
};

/* ------------------------------------------------------------------------------- patterns */

bool walk_fits(const char *pattern, const char *below, bool directory)
{
    char copy[PATH_CAP];
    size_t len = strlen(pattern);
    const char *last = strrchr(below, '/');

    if (len > 0 && pattern[len - 1] == '/') {
        if (!directory)
            return false;
        len--;
    }
    if (len == 0 || len >= sizeof(copy))
        return false;
    memcpy(copy, pattern, len);
    copy[len] = 0;
    if (!strchr(copy, '/'))
        return fnmatch(copy, last ? last + 1 : below, FNM_CASEFOLD) == 0;
    return fnmatch(copy[0] == '/' ? copy + 1 : copy, below, FNM_CASEFOLD) == 0;
}

bool walk_fits_any(const char *const *patterns, const char *below, bool directory)
{
    for (; patterns && *patterns; patterns++)
        if (walk_fits(*patterns, below, directory))
            return true;
    return false;
}

/* ------------------------------------------------------------------------------- names */

static void names_free(struct names *n)
{
    free(n->bytes);
    free(n->at);
    memset(n, 0, sizeof(*n));
}

static int names_add(struct names *n, const char *name, size_t len, struct err *err)
{
    if (n->len + len + 1 > UINT32_MAX)
        return err_set(err, ERR_LIMIT, "a directory holds more than 4 GB of names");
    if (n->len + len + 1 > n->cap) {
        size_t cap = n->cap + n->cap / 2 + len + 4096;
        char *bytes = realloc(n->bytes, cap);

        if (!bytes)
            return err_set(err, ERR_NOMEM, "out of memory for the names of a directory");
        n->bytes = bytes;
        n->cap = cap;
    }
    if (n->count == n->capacity) {
        size_t capacity = n->capacity + n->capacity / 2 + 256;
        uint32_t *at = realloc(n->at, capacity * sizeof(*at));

        if (!at)
            return err_set(err, ERR_NOMEM, "out of memory for the names of a directory");
        n->at = at;
        n->capacity = capacity;
    }
    n->at[n->count++] = (uint32_t)n->len;
    memcpy(n->bytes + n->len, name, len + 1);
    n->len += len + 1;
    return 0;
}

static int by_bytes(const void *a, const void *b, void *bytes)
{
    const char *all = bytes;

    return strcmp(all + *(const uint32_t *)a, all + *(const uint32_t *)b);
}

static void names_sort(struct names *n)
{
    if (n->count > 1)
        qsort_r(n->at, n->count, sizeof(n->at[0]), by_bytes, n->bytes);
}

static const char *names_at(const struct names *n, size_t i) { return n->bytes + n->at[i]; }

/* ------------------------------------------------------------------------------- walking */

static int tell_of(struct walk *w, enum walk_kind kind, enum skip_reason skip, int dir,
                   const char *name, const struct stat *st, bool directory, int error,
                   struct err *err)
{
    const char *below = w->len > w->root_len ? w->path + w->root_len : "";
    struct walk_entry e = {
        .kind = kind,
        .path = w->path,
        .path_len = w->len,
        .below = below,
        .dir = dir,
        .name = name,
        .directory = directory,
        .included = !w->o.include || !*w->o.include || walk_fits_any(w->o.include, below, false),
        .st = st,
        .skip = skip,
        .error = error,
    };

    return w->o.entry(w->o.arg, &e, err);
}

static int report_entry(struct walk *w, enum walk_kind kind, int dir, const char *name,
                        const struct stat *st, bool directory, int error, struct err *err)
{
    return tell_of(w, kind, SKIP_NONE, dir, name, st, directory, error, err);
}

/* Makes w->path the entry `name` of the directory of which it is the path; false: too long. */
static bool path_push(struct walk *w, const char *name)
{
    size_t len = strlen(name);

    if (w->len > 1 || w->path[0] != '/')
        w->path[w->len++] = '/';
    if (len > 255)
        len = 255; /* more than any file system gives */
    memcpy(w->path + w->len, name, len);
    w->len += len;
    w->path[w->len] = 0;
    return w->len < PATH_CAP;
}

static void path_pop(struct walk *w, size_t len)
{
    w->len = len;
    w->path[len] = 0;
}

/* Examines `name`: adds it to dirs if it is to be entered, else passes it to the callback. */
static int look_at(struct walk *w, int dir, const char *name, struct names *dirs, struct err *err)
{
    struct stat st, target;
    enum skip_reason skip;
    bool link, directory;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        /* Gone since the directory was read: nobody's fault, and not there. */
        return errno == ENOENT
                   ? 0
                   : report_entry(w, WALK_UNREADABLE, dir, name, NULL, false, errno, err);
    link = S_ISLNK(st.st_mode);
    if (link) {
        if (fstatat(dir, name, &target, 0) != 0)
            return report_entry(w, WALK_LINK, dir, name, NULL, false, errno, err);
        if (!w->o.follow)
            return report_entry(w, WALK_LINK, dir, name, &st, S_ISDIR(target.st_mode), 0, err);
        st = target;
    }
    directory = S_ISDIR(st.st_mode);
    skip = skip_name(w->path + w->root_len, directory);
    if (skip != SKIP_NONE && !(skip == SKIP_HIDDEN && w->o.hidden))
        return tell_of(w, WALK_SKIPPED, skip, dir, name, &st, directory, 0, err);
    if (walk_fits_any(w->o.exclude, w->path + w->root_len, directory))
        return report_entry(w, WALK_EXCLUDED, dir, name, &st, directory, 0, err);
    if (directory && w->o.one_file_system && st.st_dev != w->root_dev)
        return report_entry(w, WALK_OTHER_DISK, dir, name, &st, true, 0, err);
    if (directory && link)
        return names_add(&w->links, w->path, w->len, err);
    if (directory)
        return names_add(dirs, name, strlen(name), err);
    return report_entry(w, S_ISREG(st.st_mode) ? WALK_FILE : WALK_SPECIAL, dir, name, &st, false, 0,
                        err);
}

static int read_names(DIR *d, struct names *ret, int *error, struct err *err)
{
    struct dirent *e;
    int rc = 0;

    *error = 0;
    while (rc == 0) {
        errno = 0;
        e = readdir(d);
        if (!e) {
            *error = errno;
            break;
        }
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = names_add(ret, e->d_name, strlen(e->d_name), err);
    }
    return rc;
}

/* The entries of the open directory fd (taken over); w->path is its path. */
static int walk_directory(struct walk *w, int fd, struct err *err)
{
    struct names all = {0}, dirs = {0};
    size_t here = w->len;
    DIR *d = fdopendir(fd);
    struct stat st;
    int rc, error = 0;

    if (!d) {
        error = errno;
        close(fd);
        return report_entry(w, WALK_UNREADABLE, -1, w->path, NULL, true, error, err);
    }
    if (fstat(fd, &st) == 0) {
        rc = pair_set_add(&w->seen, st.st_dev, st.st_ino, err);
        if (rc <= 0)
            goto out;
    }
    rc = read_names(d, &all, &error, err);
    if (rc == 0 && error != 0) /* what was read is looked at all the same */
        rc = report_entry(w, WALK_UNREADABLE, -1, w->path, NULL, true, error, err);
    names_sort(&all);
    for (size_t i = 0; rc == 0 && i < all.count; i++) {
        rc = path_push(w, names_at(&all, i))
                 ? look_at(w, fd, names_at(&all, i), &dirs, err)
                 : report_entry(w, WALK_UNREADABLE, fd, names_at(&all, i), NULL, false,
                                ENAMETOOLONG, err);
        path_pop(w, here);
    }
    names_free(&all);
    for (size_t i = 0; rc == 0 && i < dirs.count; i++) {
        const char *name = names_at(&dirs, i);
        int sub;

        path_push(w, name);
        sub = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (sub >= 0)
            rc = walk_directory(w, sub, err);
        else if (errno != ENOENT)
            rc = report_entry(w, WALK_UNREADABLE, fd, name, NULL, true, errno, err);
        path_pop(w, here);
    }
out:
    names_free(&all);
    names_free(&dirs);
    closedir(d);
    return rc;
}

/* Links to directories that were met on the way; entering one may meet more. */
static int walk_links(struct walk *w, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < w->links.count; i++) {
        const char *path = names_at(&w->links, i);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);

        w->len = strlen(path);
        memcpy(w->path, path, w->len + 1);
        if (fd >= 0)
            rc = walk_directory(w, fd, err);
        else if (errno != ENOENT)
            rc = report_entry(w, WALK_UNREADABLE, -1, w->path, NULL, true, errno, err);
    }
    names_free(&w->links);
    return rc;
}

int walk_root(struct walk *w, const char *root, struct err *err)
{
    const char *last = strrchr(root, '/');
    struct stat st;
    int fd, rc;

    w->len = strlen(root);
    if (w->len >= PATH_CAP)
        return err_sys(err, ENAMETOOLONG, "a path");
    memcpy(w->path, root, w->len + 1);
    w->root_len = last ? (size_t)(last - root) + 1 : 0;
    if (stat(root, &st) != 0) {
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
            return err_set(err, ERR_MISSING, "it is not there");
        return report_entry(w, WALK_UNREADABLE, -1, w->path, NULL, false, errno, err);
    }
    if (!S_ISDIR(st.st_mode))
        return report_entry(w, S_ISREG(st.st_mode) ? WALK_FILE : WALK_SPECIAL, -1, w->path, &st,
                            false, 0, err);
    w->root_dev = st.st_dev;
    w->root_len = w->len + (w->len > 1);
    fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return report_entry(w, WALK_UNREADABLE, -1, w->path, &st, true, errno, err);
    rc = walk_directory(w, fd, err);
    return rc != 0 ? rc : walk_links(w, err);
}

int walk_new(const struct walk_options *o, struct walk **ret, struct err *err)
{
    struct walk *w = calloc(1, sizeof(*w));

    if (!w)
        return err_set(err, ERR_NOMEM, "out of memory");
    w->o = *o;
    *ret = w;
    return 0;
}

void walk_free(struct walk *w)
{
    if (!w)
        return;
    pair_set_free(&w->seen);
    names_free(&w->links);
    free(w);
}
