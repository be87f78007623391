#include "tools/hub/hub_unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "base/replace.h"

int hub_map_file(const char *path, void **ret, size_t *len, struct err *err)
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

int hub_inflate(const uint8_t *from, size_t from_bytes, uint8_t *ret, size_t ret_bytes,
                struct err *err)
{
    z_stream z = {0};
    int rc;

    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return err_set(err, ERR_NOMEM, "out of memory");
    z.next_in = (uint8_t *)from;
    z.avail_in = (uInt)from_bytes;
    z.next_out = ret;
    z.avail_out = (uInt)ret_bytes;
    rc = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return rc == Z_STREAM_END && z.avail_out == 0
               ? 0
               : err_set(err, ERR_PROTOCOL, "the package cannot be unpacked");
}

int hub_put_file(const char *folder, const char *name, const void *data, size_t len,
                 struct err *err)
{
    char path[PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return replace_file(path, data, len, REPLACE_OURS, err);
}
