#include "tools/hub/hub_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/replace.h"
#include "tools/cli/text.h"

static bool part_path(const struct hub_file *f, char out[PATH_MAX])
{
    return snprintf(out, PATH_MAX, "%s.incomplete", f->path) < PATH_MAX;
}

static uint64_t size_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

uint64_t hub_file_missing(const struct hub_file *f)
{
    char part[PATH_MAX];
    uint64_t have = 0;
    struct stat st;

    if (stat(f->path, &st) == 0)
        return 0;
    if (part_path(f, part))
        have = size_of(part);
    return have < f->size_bytes ? f->size_bytes - have : 0;
}

/* Whether the file is at its place, and whole. One that is not is taken away. */
static int check_local_file(const struct hub_watch *watch, const struct hub_file *f, bool *here,
                            struct err *err)
{
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW), rc;

    *here = false;
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "%.200s", f->path);
    rc = hub_hash_same(fd, &f->digest, watch->stop, here, err);
    close(fd);
    if (rc == 0 && !*here && unlink(f->path) != 0)
        rc = err_sys(err, errno, "remove %.200s, which is damaged", f->path);
    return rc;
}

static int open_part(const char *path, struct hub_part *p, struct err *err)
{
    struct stat st;

    p->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666);
    if (p->fd < 0 || fstat(p->fd, &st) != 0)
        return err_sys(err, errno, "%.200s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_DENIED, "%.200s is not a file. Try again without it", path);
    p->have_bytes = (uint64_t)st.st_size;
    if (p->have_bytes > p->size_bytes) {
        p->have_bytes = 0;
        if (ftruncate(p->fd, 0) != 0)
            return err_sys(err, errno, "%.200s", path);
    }
    return 0;
}

#define COPY_BYTES (1u << 20)

/* Works like hub_http_download, with a file on this machine. */
static int copy_into_part(const struct hub_watch *watch, const struct hub_file *f,
                          struct hub_part *p, struct err *err)
{
    int fd = open(f->from, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
    uint8_t *chunk = malloc(COPY_BYTES);
    ssize_t n = 1;

    if (fd < 0)
        rc = err_sys(err, errno, "%.200s", f->from);
    else if (!chunk)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    else if (lseek(p->fd, (off_t)p->have_bytes, SEEK_SET) < 0)
        rc = err_sys(err, errno, "write %s", f->name);
    while (rc == 0 && n > 0 && p->have_bytes < p->size_bytes) {
        const uint64_t left = p->size_bytes - p->have_bytes;
        int failed;

        if (watch->stop && *watch->stop) {
            rc = err_set(err, ERR_CANCELLED, "interrupted");
            break;
        }
        n = pread(fd, chunk, left < COPY_BYTES ? left : COPY_BYTES, (off_t)p->have_bytes);
        if (n < 0) {
            rc = err_sys(err, errno, "read %.200s", f->from);
            break;
        }
        failed = replace_put(p->fd, chunk, (size_t)n);
        if (failed) {
            rc = err_sys(err, failed, "write %s", f->name);
            break;
        }
        p->have_bytes += (uint64_t)n;
        p->got_bytes += (uint64_t)n;
        watch->on_file(watch->arg, HUB_STEP, f->name, p->have_bytes, p->size_bytes);
    }
    free(chunk);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int report_wrong_hash(const struct hub_http *h, const struct hub_file *f, struct err *err)
{
    if (f->from)
        return err_set(err, ERR_PROTOCOL,
                       "%s has another hash than it should have (%.12s...). Copy %.200s anew",
                       f->name, f->digest.hex, f->from);
    return err_set(err, ERR_PROTOCOL,
                   "%s came with another hash than the server promised (%.12s...), and was "
                   "removed. Try again later, or another %s",
                   f->name, f->digest.hex, hub_http_server(h)->variable);
}

/* Downloads into the part and compares. A wrong hash may come from the part that an earlier pull
 * left: then all of it is fetched, once. */
static int download_into_part(struct hub_http *h, const struct hub_watch *watch,
                              const struct hub_file *f, struct hub_part *p, struct err *err)
{
    bool resumed = p->have_bytes > 0, same = false;
    int rc;

    for (;;) {
        watch->on_file(watch->arg, HUB_BEGIN, f->name, p->have_bytes, f->size_bytes);
        rc = f->from ? copy_into_part(watch, f, p, err) : hub_http_download(h, f->url, p, err);
        if (rc == 0)
            rc = hub_hash_same(p->fd, &f->digest, watch->stop, &same, err);
        if (rc != 0 || same)
            return rc;
        p->have_bytes = 0;
        if (ftruncate(p->fd, 0) != 0)
            return err_sys(err, errno, "write %s", f->name);
        if (!resumed)
            return report_wrong_hash(h, f, err);
        resumed = false;
    }
}

int hub_file_fetch(struct hub_http *h, const struct hub_watch *watch, const struct hub_file *f,
                   uint64_t *got_bytes, struct err *err)
{
    struct hub_part p = {.name = f->name, .fd = -1, .size_bytes = f->size_bytes, .at = f->at};
    char part[PATH_MAX];
    bool here = false;
    int rc = check_local_file(watch, f, &here, err);

    if (rc == 0 && here) {
        watch->on_file(watch->arg, HUB_HERE, f->name, f->size_bytes, f->size_bytes);
        return 0;
    }
    if (rc == 0 && !part_path(f, part))
        rc = err_set(err, ERR_USAGE, "the path of the cache is too long. Try another HF_HOME");
    if (rc != 0)
        return rc;
    rc = open_part(part, &p, err);
    if (rc == 0)
        rc = download_into_part(h, watch, f, &p, err);
    *got_bytes += p.got_bytes;
    /* If the rename fails, the whole part stays for the next pull. */
    if (rc == 0 && (fsync(p.fd) != 0 || rename(part, f->path) != 0))
        rc = err_sys(err, errno, "write %.200s", f->path);
    if (rc == 0)
        rc = replace_sync_folder(f->path, err);
    if (rc == 0)
        watch->on_file(watch->arg, HUB_DONE, f->name, f->size_bytes, f->size_bytes);
    else if (p.fd >= 0 && p.have_bytes == 0)
        unlink(part); /* nothing worth going on from */
    if (p.fd >= 0)
        close(p.fd);
    return rc;
}

int hub_lock(const char *path, int *ret, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666), rc = 0;

    if (fd < 0)
        return err_sys(err, errno, "%.200s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *ret = fd;
        return 0;
    }
    if (errno == EWOULDBLOCK)
        rc = err_set(err, ERR_LOCKED, "another program is fetching it now");
    else
        rc = err_sys(err, errno, "lock %.200s", path);
    close(fd);
    return rc;
}

int hub_room(const char *dir, uint64_t need_bytes, struct err *err)
{
    char need[TEXT_LEN], capacity[TEXT_LEN];
    struct statvfs fs;

    if (statvfs(dir, &fs) != 0)
        return err_sys(err, errno, "%.200s", dir);
    if (need_bytes / fs.f_frsize < fs.f_bavail)
        return 0;
    return err_set(err, ERR_FULL,
                   "it takes %s more, and the disk of %.200s has %s free. Try again with more room "
                   "there, or on another disk (HF_HOME, NIGHTSHIFT_MODELS)",
                   text_bytes(need_bytes, need), dir,
                   text_bytes((uint64_t)fs.f_bavail * fs.f_frsize, capacity));
}

/* ---- files of a model's folder */

int hub_file_map(const char *path, void **ret, size_t *len, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *data = MAP_FAILED;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0)
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        err_sys(err, errno, "read %.200s", path);
    if (fd >= 0)
        close(fd);
    if (data == MAP_FAILED)
        return err->code;
    *ret = data;
    *len = (size_t)st.st_size;
    return 0;
}

int hub_file_put(const char *folder, const char *name, const void *data, size_t len,
                 struct err *err)
{
    char path[PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return replace_file(path, data, len, REPLACE_OURS, err);
}

int hub_file_is_whole(const char *folder, const char *name, const struct hub_digest *digest,
                      const struct hub_watch *watch, bool *ret, struct err *err)
{
    char path[PATH_MAX + 64];
    int fd, rc;

    *ret = false;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "%.200s", path);
    rc = hub_hash_same(fd, digest, watch->stop, ret, err);
    close(fd);
    return rc;
}
