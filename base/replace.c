#include "base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK (1u << 20)
#define HOST_LEN 65

static const char database[] = "SQLite format 3"; /* and a 0: its first 16 bytes */

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Errno values. */
static int copy_all(int to, int from)
{
    char *block = malloc(BLOCK);
    int error = block ? 0 : ENOMEM;
    off_t at = 0;

    while (error == 0) {
        ssize_t n = pread(from, block, BLOCK, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            break;
        error = n < 0 ? errno : write_all(to, block, (size_t)n);
        at += n;
    }
    free(block);
    return error;
}

int replace_write(int dir, const char *name, const char *shown, const struct replace_content *c,
                  bool sync, struct err *err)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666), error;

    if (fd < 0)
        return err_sys(err, errno, "write '%.300s'", shown);
    error = c->fd > 0 ? copy_all(fd, c->fd) : write_all(fd, c->data, c->len);
    if (error == 0 && sync && fsync(fd) != 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error == 0)
        return 0;
    unlinkat(dir, name, 0);
    return err_sys(err, error, "write '%.300s'", shown);
}

static bool is_database(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char head[sizeof(database)] = "";
    bool is = fd >= 0 && read(fd, head, sizeof(head)) == (ssize_t)sizeof(head) &&
              memcmp(head, database, sizeof(head)) == 0;

    if (fd >= 0)
        close(fd);
    return is;
}

/* *mode: of what is there; 0: nothing is. */
static int look(const char *path, enum replace_whose whose, mode_t *mode, struct err *err)
{
    struct stat st;

    *mode = 0;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "write '%.300s'", path);
    if (S_ISREG(st.st_mode))
        *mode = st.st_mode & 0777;
    if (whose == REPLACE_OURS)
        return 0;
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_USAGE,
                       "'%.300s' is there and is not a plain file: it stays as it is; give another "
                       "name",
                       path);
    if (is_database(path))
        return err_set(err, ERR_USAGE,
                       "'%.300s' is an SQLite database, a catalog perhaps: it stays as it is; give "
                       "another name",
                       path);
    return 0;
}

/* That a name is another file's now must outlive a power cut, too. A folder that may not be read,
 * and some file systems, cannot be synced. */
static int sync_folder_of(const char *path, struct err *err)
{
    char *copy = strdup(path);
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, rc = 0;

    if (!copy)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (fd < 0 ? errno != EACCES : fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        rc = err_sys(err, errno, "the folder of '%.300s'", path);
    if (fd >= 0)
        close(fd);
    free(copy);
    return rc;
}

int replace_file(const char *path, const struct replace_content *c, enum replace_whose whose,
                 struct err *err)
{
    char host[HOST_LEN] = "", *beside = NULL;
    mode_t mode;
    int rc = look(path, whose, &mode, err);

    if (rc < 0)
        return rc;
    gethostname(host, sizeof(host) - 1);
    if (asprintf(&beside, "%s" REPLACE_BESIDE "%s-%ld", path, host, (long)getpid()) < 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    unlink(beside); /* of a process with our number that was killed */
    rc = replace_write(AT_FDCWD, beside, path, c, true, err);
    if (rc == 0 && ((mode && chmod(beside, mode) != 0) || rename(beside, path) != 0)) {
        rc = err_sys(err, errno, "write '%.300s'", path);
        unlink(beside);
    }
    free(beside);
    return rc == 0 ? sync_folder_of(path, err) : rc;
}
