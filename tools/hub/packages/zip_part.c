#include "tools/hub/packages/zip_part.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/err.h"
#include "tools/hub/hub_file.h"

int zip_part_inflate(const uint8_t *from, size_t from_bytes, uint8_t *ret, size_t ret_bytes,
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

static void piece_path(const struct zip_part *m, const char *folder, char ret[PATH_MAX + 64])
{
    snprintf(ret, PATH_MAX + 64, "%s/%s.deflated", folder, m->name);
}

static int inflate_member(const struct zip_part *m, const char *piece, uint8_t **ret,
                          struct err *err)
{
    uint8_t *data = malloc(m->bytes);
    void *deflated = NULL;
    size_t len = 0;
    int rc =
        data ? hub_file_map(piece, &deflated, &len, err) : err_set(err, ERR_NOMEM, "out of memory");

    if (rc == 0 && len != m->deflated_bytes)
        rc = err_set(err, ERR_PROTOCOL, "what was fetched has changed under our hands");
    if (rc == 0)
        rc = zip_part_inflate(deflated, len, data, m->bytes, err);
    if (deflated)
        munmap(deflated, len);
    if (rc == 0)
        *ret = data;
    else
        free(data);
    return rc;
}

/* "segmentation/LICENSE": with the last folder, for people. */
static void shown_name(const struct zip_part *m, const char *folder, char ret[128])
{
    const char *slash = strrchr(folder, '/');

    snprintf(ret, 128, "%.60s/%.60s", slash ? slash + 1 : folder, m->name);
}

int zip_part_read(const struct hub_settings *s, const struct hub_watch *watch,
                  const struct zip_package *package, const struct zip_part *m, const char *folder,
                  uint8_t **ret, uint64_t *got_bytes, struct err *err)
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

void zip_part_done(const struct zip_part *m, const char *folder)
{
    char path[PATH_MAX + 64];

    piece_path(m, folder, path);
    unlink(path);
}

static int fetch_member(const struct hub_settings *s, const struct hub_watch *watch,
                        const struct zip_package *package, const struct zip_part *m,
                        const char *folder, uint64_t *got_bytes, struct err *err)
{
    uint8_t *data = NULL;
    int rc = zip_part_read(s, watch, package, m, folder, &data, got_bytes, err);

    if (rc == 0)
        rc = hub_file_put(folder, m->name, data, m->bytes, err);
    if (rc == 0)
        zip_part_done(m, folder);
    free(data);
    return rc;
}

int zip_part_fetch_all(const struct hub_settings *s, const struct hub_watch *watch,
                       const struct zip_package *package, const struct zip_part *members, size_t n,
                       const char *folder, uint64_t *got_bytes, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        bool whole = false;

        rc = hub_file_is_whole(folder, members[i].name, &members[i].digest, watch, &whole, err);
        if (rc == 0 && !whole)
            rc = fetch_member(s, watch, package, &members[i], folder, got_bytes, err);
    }
    return rc;
}
