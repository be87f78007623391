/* Silero's model of voice activity: two members of its project's package on PyPI, of which the
 * hashes and the places are known here. The package has 11 MB; only the members are fetched. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/hub/hub.h"
#include "tools/hub/hub_file.h"
#include "tools/hub/packages/own_models.h"
#include "tools/hub/packages/zip_part.h"
#include "workers/models/silero/silero.h"

#define PACKAGE "silero_vad-6.2.3-py3-none-any.whl"
#define PACKAGE_PAGE "https://pypi.org/project/silero-vad"

/* The licence first: the weights are never there without it. */
static const struct zip_part members[] = {
    {"LICENSE", /* silero_vad-6.2.3.dist-info/licenses/LICENSE */
     11314499,
     632,
     1075,
     {"8312e411bdfe87de9f51366d15f323ea98b0c117117ee3eb509ac41ab59539ca"},
     {"2e63e9a38b6e8fc0c7bc37ce174caca1862870856c6daf5697cfb785e925520b"}},
    {SILERO_FILE, /* silero_vad/data/silero_vad_16k.safetensors */
     3944829,
     1078909,
     1239748,
     {"f6c295c78e0ce6ca14b9c1ce01361ff1708f653be52cb4f7ba8018e417fe2b26"},
     {"c59271c284ae9c8335d795d60e0bfdb71aaaceec578d9bd9ffc1b8153c319ea1"}},
};
#define MEMBERS (sizeof(members) / sizeof(members[0]))

/* A file with another hash is not kept, also where the network is forbidden: it is small, and what
 * it hears decides what is transcribed. */
static int drop_damaged(const struct hub_watch *watch, const char *folder, struct err *err)
{
    char path[PATH_MAX + 64];
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < MEMBERS; i++) {
        bool whole = false;

        rc = hub_file_is_whole(folder, members[i].name, &members[i].digest, watch, &whole, err);
        snprintf(path, sizeof(path), "%s/%s", folder, members[i].name);
        if (rc == 0 && !whole && unlink(path) != 0 && errno != ENOENT)
            rc = err_sys(err, errno, "remove %.200s", path);
    }
    return rc;
}

static int fetch_silero(const struct hub_settings *s, const struct hub_watch *watch,
                        const char *folder, struct hub_pulled *ret, struct err *err)
{
    const struct zip_package package = {
        .name = PACKAGE,
        .server = {.base = s->silero, .variable = "NIGHTSHIFT_SILERO_URL", .page = PACKAGE_PAGE}};
    char path[PATH_MAX + 64];
    uint64_t got = 0;
    int rc = drop_damaged(watch, folder, err);

    if (rc == 0)
        rc = zip_part_fetch_all(s, watch, &package, members, MEMBERS, folder, &got, err);
    if (rc != 0)
        return rc;
    snprintf(path, sizeof(path), "%s/" SILERO_FILE, folder);
    *ret = (struct hub_pulled){.path = strdup(path), .files = MEMBERS, .fetched_bytes = got};
    return ret->path ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int hub_pull_silero(const struct hub_settings *s, const struct hub_watch *watch,
                    struct hub_pulled *ret, struct err *err)
{
    return hub_pull_own(SILERO_NAME, fetch_silero, s, watch, ret, err);
}
