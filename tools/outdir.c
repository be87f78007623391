#include "tools/outdir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli.h"

struct outdir {
    int fd;
};

int outdir_open(const char *path, struct outdir **ret, struct err *err)
{
    struct outdir *d;
    int rc = cli_make_directories(path, err);

    if (rc != 0)
        return rc;
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    d->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0) {
        rc = err_sys(err, errno, "open the folder '%s'", path);
        free(d);
        return rc;
    }
    *ret = d;
    return 0;
}

void outdir_close(struct outdir *d)
{
    if (d == NULL)
        return;
    close(d->fd);
    free(d);
}

/* Opens the folder of name, making what is missing; *last is the name inside it. */
static int open_parent(struct outdir *d, const char *name, const char **last, int *ret,
                       struct err *err)
{
    int fd = fcntl(d->fd, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return err_sys(err, errno, "open the output folder");
    for (const char *slash; (slash = strchr(name, '/')) != NULL; name = slash + 1) {
        char part[256];
        int next;

        if ((size_t)(slash - name) >= sizeof(part)) {
            close(fd);
            return err_set(err, ERR_INPUT, "a folder's name is too long");
        }
        memcpy(part, name, (size_t)(slash - name));
        part[slash - name] = 0;
        if (mkdirat(fd, part, 0777) != 0 && errno != EEXIST) {
            int rc = err_sys(err, errno, "make the folder '%s'", part);

            close(fd);
            return rc;
        }
        next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0) {
            int rc = errno == ENOTDIR || errno == ELOOP
                         ? err_set(err, ERR_INPUT, "'%s' is there and is not a folder", part)
                         : err_sys(err, errno, "open the folder '%s'", part);

            close(fd);
            return rc;
        }
        close(fd);
        fd = next;
    }
    *last = name;
    *ret = fd;
    return 0;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

int outdir_write(struct outdir *d, const char *name, const void *data, size_t len, struct err *err)
{
    char temp[64];
    const char *last = NULL;
    int dir = -1, fd, rc, error = 0;

    rc = open_parent(d, name, &last, &dir, err);
    if (rc != 0)
        return rc;
    snprintf(temp, sizeof(temp), ".nightshift-%ld.tmp", (long)getpid());
    unlinkat(dir, temp, 0); /* of an export with our number that was killed */
    fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) {
        rc = err_sys(err, errno, "write '%s'", name);
        close(dir);
        return rc;
    }
    if (write_all(fd, data, len) != 0 || fsync(fd) != 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error == 0 && renameat(dir, temp, dir, last) != 0)
        error = errno;
    if (error == EISDIR)
        rc = err_set(err, ERR_INPUT, "'%s' is there and is a folder", last);
    else if (error != 0)
        rc = err_sys(err, error, "write '%s'", name);
    if (rc != 0)
        unlinkat(dir, temp, 0);
    close(dir);
    return rc;
}
