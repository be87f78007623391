#include "tools/hub/packages/zip_part.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/err.h"
#include "base/replace.h"
#include "tools/hub/hub_file.h"

/* ---- what lies in a package becomes a file of a model's folder */

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

/* ---- single members of a package (a zip) on a server, of which the hashes and the places are
 * known */

int hub_is_whole(const char *folder, const char *name, const struct hub_digest *digest,
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

static void piece_path(const struct hub_member *m, const char *folder, char ret[PATH_MAX + 64])
{
    snprintf(ret, PATH_MAX + 64, "%s/%s.deflated", folder, m->name);
}

static int inflate_member(const struct hub_member *m, const char *piece, uint8_t **ret,
                          struct err *err)
{
    uint8_t *data = malloc(m->bytes);
    void *deflated = NULL;
    size_t len = 0;
    int rc =
        data ? hub_map_file(piece, &deflated, &len, err) : err_set(err, ERR_NOMEM, "out of memory");

    if (rc == 0 && len != m->deflated_bytes)
        rc = err_set(err, ERR_PROTOCOL, "what was fetched has changed under our hands");
    if (rc == 0)
        rc = hub_inflate(deflated, len, data, m->bytes, err);
    if (deflated)
        munmap(deflated, len);
    if (rc == 0)
        *ret = data;
    else
        free(data);
    return rc;
}

/* "segmentation/LICENSE": with the last folder, for people. */
static void shown_name(const struct hub_member *m, const char *folder, char ret[128])
{
    const char *slash = strrchr(folder, '/');

    snprintf(ret, 128, "%.60s/%.60s", slash ? slash + 1 : folder, m->name);
}

int hub_member_read(const struct hub_settings *s, const struct hub_watch *watch,
                    const struct hub_package *package, const struct hub_member *m,
                    const char *folder, uint8_t **ret, uint64_t *got_bytes, struct err *err)
{
    char name[128], path[PATH_MAX + 64], url[1200];
    const struct hub_file f = {.name = name,
                               .url = url,
                               .path = path,
                               .digest = m->deflated,
                               .size_bytes = m->deflated_bytes,
                               .at = m->at};
    struct hub_http *http = NULL;
    int rc;

    shown_name(m, folder, name);
    piece_path(m, folder, path);
    snprintf(url, sizeof(url), "%s/%s", package->server.base, package->name);
    rc = hub_http_open(s, watch, &package->server, &http, err);
    if (rc == 0)
        rc = hub_file_fetch(http, watch, &f, got_bytes, err);
    hub_http_close(http);
    return rc == 0 ? inflate_member(m, path, ret, err) : rc;
}

void hub_member_done(const struct hub_member *m, const char *folder)
{
    char path[PATH_MAX + 64];

    piece_path(m, folder, path);
    unlink(path);
}

static int fetch_member(const struct hub_settings *s, const struct hub_watch *watch,
                        const struct hub_package *package, const struct hub_member *m,
                        const char *folder, uint64_t *got_bytes, struct err *err)
{
    uint8_t *data = NULL;
    int rc = hub_member_read(s, watch, package, m, folder, &data, got_bytes, err);

    if (rc == 0)
        rc = hub_put_file(folder, m->name, data, m->bytes, err);
    if (rc == 0)
        hub_member_done(m, folder);
    free(data);
    return rc;
}

int hub_members_fetch(const struct hub_settings *s, const struct hub_watch *watch,
                      const struct hub_package *package, const struct hub_member *members, size_t n,
                      const char *folder, uint64_t *got_bytes, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        bool whole = false;

        rc = hub_is_whole(folder, members[i].name, &members[i].digest, watch, &whole, err);
        if (rc == 0 && !whole)
            rc = fetch_member(s, watch, package, &members[i], folder, got_bytes, err);
    }
    return rc;
}
