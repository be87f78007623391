#include "tools/hub/packages/own_models.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/cli/cli.h"
#include "tools/hub/hub_file.h"
#include "workers/models/files/model_dir.h"

static int make_folder(const char *name, char folder[PATH_MAX], struct err *err)
{
    char *own = NULL, *whole = NULL;
    int rc = model_dir_own(&own, err);

    if (rc == 0)
        rc = cli_absolute(own, &whole, err);
    if (rc == 0 && snprintf(folder, PATH_MAX, "%s/%s", whole, name) >= PATH_MAX - 100)
        rc = err_set(err, ERR_USAGE, "its path is too long. Try another NIGHTSHIFT_MODELS");
    if (rc == 0)
        rc = cli_make_directories(folder, err);
    free(whole);
    free(own);
    return rc;
}

int hub_pull_own(const char *name, hub_own_fetch fetch, const struct hub_settings *s,
                 const struct hub_watch *watch, struct hub_pulled *ret, struct err *err)
{
    char folder[PATH_MAX], lock_path[PATH_MAX + 32];
    int lock = -1, rc = make_folder(name, folder, err);

    if (rc == 0) {
        snprintf(lock_path, sizeof(lock_path), "%s/.lock", folder);
        rc = hub_lock(lock_path, &lock, err);
    }
    if (rc == 0)
        rc = fetch(s, watch, folder, ret, err);
    if (lock >= 0)
        close(lock);
    return rc;
}
