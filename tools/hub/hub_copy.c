#include "tools/hub/hub_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/replace.h"
#include "tools/cli/cli.h"
#include "tools/hub/hub_file.h"
#include "workers/models/files/weight_layout.h"

#define DEPTH 2       /* folders below the model's: segmentation/, 1_Pooling/ */
#define FILES_MAX 200 /* a model of many shards has some 50 */
#define SUMS_MAX_BYTES (64u << 10)
#define SMALL_MAX_BYTES                                                      \
    (64u << 20) /* what is larger is weights: taken in the form that is read \
                 */

struct file {
    char *name; /* owned: below the folder */
    uint64_t size_bytes;
    struct hub_digest digest; /* SHA-256 */
};

struct carry {
    const char *from, *to;
    const struct hub_watch *watch;
    struct weight_layout weights; /* of FROM, as far as it says */
    struct buf sums;              /* FROM/SHA256SUMS, with a NUL; empty: there is none */
    struct file file[FILES_MAX];
    uint32_t count;
    uint64_t got_bytes;
};

static int path_of(const char *folder, const char *name, char out[PATH_MAX], struct err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX - 20)
        return err_set(err, ERR_USAGE, "the path of %.200s is too long", name);
    return 0;
}

/* ---- which files */

static bool is_wanted(const struct carry *c, const char *name, uint64_t size_bytes)
{
    if (strcmp(name, HUB_SUMS) == 0)
        return false;
    for (uint32_t i = 0; i < c->weights.file_count; i++)
        if (strcmp(c->weights.file[i], name) == 0)
            return true;
    return size_bytes <= SMALL_MAX_BYTES;
}

static int add_file(struct carry *c, const char *name, uint64_t size_bytes, struct err *err)
{
    struct file *f = &c->file[c->count];

    if (c->count == FILES_MAX)
        return err_set(err, ERR_LIMIT, "%.300s has too many files to be one model's", c->from);
    f->name = strdup(name);
    f->size_bytes = size_bytes;
    c->count++;
    return f->name ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int collect_source_files(struct carry *c, const char *below, int depth, struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX], name[NAME_MAX * 3];
    const struct dirent *e;
    int rc = path_of(c->from, below, dir, err);
    DIR *d = rc == 0 ? opendir(dir) : NULL;

    if (rc == 0 && !d)
        return err_sys(err, errno, "%.300s", dir);
    while (rc == 0 && (e = readdir(d))) {
        struct stat st;

        snprintf(name, sizeof(name), "%s%s%s", below, below[0] ? "/" : "", e->d_name);
        if (e->d_name[0] == '.' || strpbrk(e->d_name, "\r\n\\"))
            continue;
        rc = path_of(c->from, name, path, err);
        if (rc != 0 || stat(path, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode) && depth < DEPTH)
            rc = collect_source_files(c, name, depth + 1, err);
        else if (S_ISREG(st.st_mode) && is_wanted(c, name, (uint64_t)st.st_size))
            rc = add_file(c, name, (uint64_t)st.st_size, err);
    }
    if (d)
        closedir(d);
    return rc;
}

/* config.json last: with it a folder is a model. */
static int by_name(const void *a, const void *b)
{
    const struct file *x = a, *y = b;
    const bool last = strcmp(x->name, "config.json") == 0,
               other = strcmp(y->name, "config.json") == 0;

    return last != other ? (int)last - (int)other : strcmp(x->name, y->name);
}

/* ---- what is known of them */

/* FOLDER/SHA256SUMS; nothing: there is none. */
static int read_sums(const char *folder, struct buf *ret, struct err *err)
{
    char path[PATH_MAX];
    int rc = path_of(folder, HUB_SUMS, path, err), fd;
    uint8_t *scratch;
    ssize_t n;

    if (rc != 0)
        return rc;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "%.300s", path);
    scratch = buf_reserve(ret, SUMS_MAX_BYTES);
    n = scratch ? read(fd, scratch, SUMS_MAX_BYTES - 1) : 0;
    if (!scratch)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    else if (n < 0)
        rc = err_sys(err, errno, "%.300s", path);
    else if (n == SUMS_MAX_BYTES - 1)
        rc = err_set(err, ERR_LIMIT, "%.300s is too long", path);
    else
        ret->len = (size_t)n;
    close(fd);
    return rc;
}

/* "HASH  name" or "HASH *name". */
static bool take_line(const char *line, size_t len, struct hub_digest *digest, const char **name,
                      size_t *name_len)
{
    char hex[HUB_DIGEST_LEN];

    if (len < HUB_DIGEST_LEN + 2 || line[64] != ' ' || (line[65] != ' ' && line[65] != '*'))
        return false;
    memcpy(hex, line, 64);
    hex[64] = 0;
    *name = line + 66;
    *name_len = len - 66;
    return hub_digest_parse(hex, digest) && strlen(digest->hex) == 64;
}

static const struct file *find_file(const struct carry *c, const char *name, size_t len)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (strlen(c->file[i].name) == len && memcmp(c->file[i].name, name, len) == 0)
            return &c->file[i];
    return NULL;
}

/* One that is left behind, then. */
static bool is_there(const struct carry *c, const char *name, size_t len)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s/%.*s", c->from, (int)len, name) < PATH_MAX &&
           access(path, F_OK) == 0;
}

/* Checks that each file in the sums is there, and sets its expected digest. */
static int take_sums(struct carry *c, struct err *err)
{
    const char *at = (const char *)c->sums.data, *end = at + c->sums.len;

    while (at < end) {
        const char *eol = memchr(at, '\n', (size_t)(end - at)), *name;
        size_t len = (size_t)((eol ? eol : end) - at), name_len;
        struct hub_digest digest;

        if (take_line(at, len, &digest, &name, &name_len)) {
            const struct file *f = find_file(c, name, name_len);

            if (f)
                c->file[f - c->file].digest = digest;
            else if (!is_there(c, name, name_len))
                return err_set(err, ERR_MISSING, "%.300s lacks %.*s. Copy it anew", c->from,
                               (int)(name_len < 100 ? name_len : 100), name);
        }
        at += len + 1;
    }
    return 0;
}

static int report_damaged_file(const struct carry *c, const struct file *f, struct err *err)
{
    return err_set(err, ERR_PROTOCOL, "%s is damaged: it has another hash. Copy %.300s anew",
                   f->name, c->from);
}

/* A cache's file is a link to a blob that is named after its hash. */
static int check_blob(const struct carry *c, const struct file *f, const char *path, int fd,
                      struct err *err)
{
    char target[PATH_MAX];
    struct hub_digest blob;
    const char *slash;
    bool same = true;
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    int rc = 0;

    if (n <= 0)
        return 0;
    target[n] = 0;
    slash = strrchr(target, '/');
    if (!hub_digest_parse(slash ? slash + 1 : target, &blob))
        return 0;
    if (strlen(blob.hex) == 64)
        same = strcmp(blob.hex, f->digest.hex) == 0;
    else
        rc = hub_hash_same(fd, &blob, c->watch->stop, &same, err);
    return rc == 0 && !same ? report_damaged_file(c, f, err) : rc;
}

static int check_file(const struct carry *c, struct file *f, struct err *err)
{
    const struct hub_digest known = f->digest;
    char path[PATH_MAX];
    int rc = path_of(c->from, f->name, path, err), fd;

    if (rc != 0)
        return rc;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_sys(err, errno, "%.300s", path);
    rc = hub_hash_of(fd, false, c->watch->stop, &f->digest, err);
    if (rc == 0 && known.hex[0] && strcmp(known.hex, f->digest.hex) != 0)
        rc = report_damaged_file(c, f, err);
    if (rc == 0)
        rc = check_blob(c, f, path, fd, err);
    close(fd);
    return rc;
}

/* ---- the copies */

static int make_folder(const char *path, struct err *err)
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = 0;
    return cli_make_directories(folder, err);
}

static int check_disk_space(struct carry *c, struct err *err)
{
    char path[PATH_MAX];
    uint64_t need = 0;

    for (uint32_t i = 0; i < c->count; i++) {
        int rc = path_of(c->to, c->file[i].name, path, err);

        if (rc != 0)
            return rc;
        need +=
            hub_file_missing(&(struct hub_file){.path = path, .size_bytes = c->file[i].size_bytes});
    }
    return hub_room(c->to, need, err);
}

/* Whether sums of an earlier copy name the file: then it is ours. */
static bool is_named(const struct buf *sums, const char *wanted)
{
    const char *at = (const char *)sums->data, *end = at + sums->len;

    while (at < end) {
        const char *eol = memchr(at, '\n', (size_t)(end - at)), *name;
        size_t len = (size_t)((eol ? eol : end) - at), name_len;
        struct hub_digest digest;

        if (take_line(at, len, &digest, &name, &name_len) && strlen(wanted) == name_len &&
            memcmp(name, wanted, name_len) == 0)
            return true;
        at += len + 1;
    }
    return false;
}

static int check_place(const struct carry *c, const struct file *f, const struct buf *ours,
                       struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    bool same = false;
    int rc = path_of(c->to, f->name, path, err), fd;

    if (rc != 0 || lstat(path, &st) != 0 || is_named(ours, f->name))
        return rc;
    if (S_ISREG(st.st_mode) && (uint64_t)st.st_size == f->size_bytes) {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
        if (fd < 0)
            return err_sys(err, errno, "%.300s", path);
        rc = hub_hash_same(fd, &f->digest, c->watch->stop, &same, err);
        close(fd);
    }
    return rc != 0 || same ? rc
                           : err_set(err, ERR_DENIED,
                                     "%.300s has another %.100s, which is not replaced. Move that "
                                     "folder elsewhere",
                                     c->to, f->name);
}

/* A copy replaces what an earlier one brought, and nothing that is somebody's own. */
static int check_places(const struct carry *c, struct err *err)
{
    struct buf ours = BUF_INIT;
    char path[PATH_MAX];
    int rc = read_sums(c->to, &ours, err);

    for (uint32_t i = 0; rc == 0 && i < c->count; i++)
        rc = check_place(c, &c->file[i], &ours, err);
    if (rc == 0)
        rc = path_of(c->to, HUB_SUMS, path, err);
    if (rc == 0 && access(path, F_OK) == 0 && !is_named(&ours, c->file[0].name))
        rc = err_set(err, ERR_DENIED, "%.300s is of other files. Move that folder elsewhere", path);
    buf_free(&ours);
    return rc;
}

static int put_sums(const struct carry *c, struct err *err)
{
    struct buf text = BUF_INIT;
    char path[PATH_MAX];
    int rc = path_of(c->to, HUB_SUMS, path, err);

    for (uint32_t i = 0; i < c->count; i++)
        buf_printf(&text, "%s  %s\n", c->file[i].digest.hex, c->file[i].name);
    if (rc == 0 && text.failed)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = replace_file(path, text.data, text.len, REPLACE_OURS, err);
    buf_free(&text);
    return rc;
}

static int copy_file(struct carry *c, const struct file *f, struct err *err)
{
    char from[PATH_MAX], to[PATH_MAX];
    const struct hub_file copy = {.name = f->name,
                                  .from = from,
                                  .path = to,
                                  .digest = f->digest,
                                  .size_bytes = f->size_bytes};
    int rc = path_of(c->from, f->name, from, err);

    if (rc == 0)
        rc = path_of(c->to, f->name, to, err);
    if (rc == 0)
        rc = make_folder(to, err);
    return rc == 0 ? hub_file_fetch(NULL, c->watch, &copy, &c->got_bytes, err) : rc;
}

static int copy_model_folder(struct carry *c, struct err *err)
{
    char lock_path[PATH_MAX];
    int lock = -1, rc = collect_source_files(c, "", 1, err);

    if (rc == 0 && c->count == 0)
        rc = err_set(err, ERR_MISSING, "%.300s has no files", c->from);
    qsort(c->file, c->count, sizeof(c->file[0]), by_name);
    if (rc == 0)
        rc = read_sums(c->from, &c->sums, err);
    if (rc == 0)
        rc = take_sums(c, err);
    for (uint32_t i = 0; rc == 0 && i < c->count; i++)
        rc = check_file(c, &c->file[i], err);
    if (rc == 0)
        rc = cli_make_directories(c->to, err);
    if (rc == 0)
        rc = path_of(c->to, ".lock", lock_path, err);
    if (rc == 0)
        rc = hub_lock(lock_path, &lock, err);
    if (rc == 0)
        rc = check_places(c, err);
    if (rc == 0)
        rc = check_disk_space(c, err);
    if (rc == 0)
        rc = put_sums(c, err);
    for (uint32_t i = 0; rc == 0 && i < c->count; i++)
        rc = copy_file(c, &c->file[i], err);
    if (lock >= 0)
        close(lock);
    return rc;
}

static struct carry *carry_new(const char *from)
{
    struct carry *c = calloc(1, sizeof(*c));
    struct err none = {0};

    if (!c)
        return NULL;
    c->from = from;
    (void)weight_layout_find(from, &c->weights, &none); /* some have none of these layouts */
    return c;
}

static void carry_free(struct carry *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->count; i++)
        free(c->file[i].name);
    weight_layout_free(&c->weights);
    buf_free(&c->sums);
    free(c);
}

int hub_copy(const char *from, const char *to, const struct hub_watch *watch, uint64_t *got_bytes,
             struct err *err)
{
    struct carry *c = carry_new(from);
    int rc;

    if (!c)
        return err_set(err, ERR_NOMEM, "out of memory");
    c->to = to;
    c->watch = watch;
    rc = copy_model_folder(c, err);
    *got_bytes += c->got_bytes;
    carry_free(c);
    return rc;
}

uint64_t hub_copy_bytes(const char *from)
{
    struct carry *c = carry_new(from);
    struct err none = {0};
    uint64_t sum = 0;

    if (c && collect_source_files(c, "", 1, &none) == 0)
        for (uint32_t i = 0; i < c->count; i++)
            sum += c->file[i].size_bytes;
    carry_free(c);
    return sum;
}
