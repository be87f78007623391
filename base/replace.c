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

int replace_put(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        ssize_t n = write(fd, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int create_new_file(const char *path, mode_t mode)
{
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
}

/* Syncs and closes the new file, or removes it after an error, which *err already holds. */
static int finish_file_write(int fd, const char *made, const char *shown, int rc, struct err *err)
{
    if (rc == 0 && fsync(fd) != 0)
        rc = err_sys(err, errno, "write '%.300s'", shown);
    if (close(fd) != 0 && rc == 0)
        rc = err_sys(err, errno, "write '%.300s'", shown);
    if (rc < 0)
        unlink(made);
    return rc;
}

static int write_data(int fd, const void *data, size_t len, const char *shown, struct err *err)
{
    int error = replace_put(fd, data, len);

    return error ? err_sys(err, error, "write '%.300s'", shown) : 0;
}

static int copy_bytes(int in, int out, const char *from, const char *to, struct err *err)
{
    char *block = malloc(BLOCK);
    int rc = block ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    while (rc == 0) {
        ssize_t n = read(in, block, BLOCK);

        if (n == 0)
            break;
        if (n > 0)
            rc = write_data(out, block, (size_t)n, to, err);
        else if (errno != EINTR)
            rc = err_sys(err, errno, "read '%.300s'", from);
    }
    free(block);
    return rc;
}

int replace_copy(const char *from, const char *to, struct err *err)
{
    int in = open(from, O_RDONLY | O_CLOEXEC), out, rc;

    if (in < 0)
        return err_sys(err, errno, "read '%.300s'", from);
    out = create_new_file(to, 0666);
    rc = out < 0 ? err_sys(err, errno, "write '%.300s'", to)
                 : finish_file_write(out, to, to, copy_bytes(in, out, from, to, err), err);
    close(in);
    return rc;
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
static int check_replace_target(const char *path, enum replace_owner whose, mode_t *mode,
                                struct err *err)
{
    struct stat st;

    *mode = 0;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "write '%.300s'", path);
    if (S_ISREG(st.st_mode))
        *mode = st.st_mode & 0777;
    if (whose != REPLACE_THEIRS)
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

/* A folder that may not be read, and some file systems, cannot be synced. */
int replace_sync_folder(const char *path, struct err *err)
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

int replace_beside(const char *path, char **ret, struct err *err)
{
    char host[HOST_LEN] = "", *beside = NULL;

    gethostname(host, sizeof(host) - 1);
    if (asprintf(&beside, "%s" REPLACE_BESIDE "%s-%ld", path, host, (long)getpid()) < 0)
        return err_set(err, ERR_NOMEM, "out of memory");
    unlink(beside);
    *ret = beside;
    return 0;
}

int replace_with(char *beside, const char *path, struct err *err)
{
    int rc = 0;

    if (rename(beside, path) != 0) {
        rc = err_sys(err, errno, "write '%.300s'", path);
        unlink(beside);
    }
    free(beside);
    return rc == 0 ? replace_sync_folder(path, err) : rc;
}

/* mode: as what is there has it; 0: nothing is. */
static int write_beside(const char *beside, const char *path, const void *data, size_t len,
                        mode_t mode, bool secret, struct err *err)
{
    int fd = create_new_file(beside, secret ? 0600 : 0666), rc;

    if (fd < 0)
        return err_sys(err, errno, "write '%.300s'", path);
    rc = write_data(fd, data, len, path, err);
    if (rc == 0 && mode && fchmod(fd, mode) != 0)
        rc = err_sys(err, errno, "write '%.300s'", path);
    return finish_file_write(fd, beside, path, rc, err);
}

int replace_file(const char *path, const void *data, size_t len, enum replace_owner whose,
                 struct err *err)
{
    char *beside = NULL;
    mode_t mode;
    int rc = check_replace_target(path, whose, &mode, err);

    if (rc == 0)
        rc = replace_beside(path, &beside, err);
    if (rc < 0)
        return rc;
    rc = write_beside(beside, path, data, len, mode, whose == REPLACE_PRIVATE, err);
    if (rc == 0)
        return replace_with(beside, path, err);
    free(beside);
    return rc;
}
