#include "gpu/weights_map.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int weights_map_open(const char *path, size_t least, const char *kind, struct weights_map *ret,
                     struct err *err)
{
    int rc = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO is reported below */
    struct stat info;
    void *data;

    if (fd < 0)
        return err_sys(err, errno, "cannot open the weights '%.300s'", path);
    if (fstat(fd, &info) != 0) {
        rc = err_sys(err, errno, "cannot read the weights '%.300s'", path);
        goto out;
    }
    if (!S_ISREG(info.st_mode) || (size_t)info.st_size < least) {
        rc = err_set(err, ERR_MODEL, "'%.300s' is no %s: fetch it again", path, kind);
        goto out;
    }
    data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        rc = err_sys(err, errno, "cannot map the weights '%.300s'", path);
        goto out;
    }
    *ret = (struct weights_map){data, (size_t)info.st_size};
out:
    close(fd);
    return rc;
}

int weights_map_give(struct weights_map *m, const char *path, struct weights_map *owner,
                     struct err *err)
{
    if (owner) {
        *owner = *m;
        return 0;
    }
    weights_map_close(m);
    err_prefix(err, "'%.200s'", path);
    return err->code;
}

void weights_map_close(struct weights_map *m)
{
    if (m->data)
        munmap(m->data, m->len);
    *m = (struct weights_map){0};
}
