#include "tools/hub/hub_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/replace.h"
#include "tools/cli/cli.h"
#include "tools/hub/hub_file.h"
#include "workers/models/files/model_dir.h"

static int make(const char *dir, const char *below, struct err *err)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", dir, below);
    return cli_make_directories(path, err);
}

int hub_cache_open(const char *id, struct hub_cache *ret, struct err *err)
{
    const char *slash = strchr(id, '/');
    struct hub_cache c = {.lock = -1};
    char *hub = NULL, *whole = NULL, path[PATH_MAX];
    int rc = model_dir_cache(&hub, err);

    if (rc == 0)
        rc = cli_absolute(hub, &whole, err);
    if (rc == 0 && (snprintf(c.repo, sizeof(c.repo), "%s/models--%.*s--%s", whole,
                             (int)(slash - id), id, slash + 1) >= (int)sizeof(c.repo) ||
                    snprintf(c.locks, sizeof(c.locks), "%s/.locks/models--%.*s--%s", whole,
                             (int)(slash - id), id, slash + 1) >= (int)sizeof(c.locks)))
        rc = err_set(err, ERR_USAGE, "the path of the cache is too long. Try another HF_HOME");
    if (rc == 0)
        rc = make(c.repo, "blobs", err);
    if (rc == 0)
        rc = make(c.repo, "snapshots", err);
    if (rc == 0)
        rc = make(c.repo, "refs", err);
    if (rc == 0)
        rc = cli_make_directories(c.locks, err);
    if (rc == 0) {
        snprintf(path, sizeof(path), "%s/nightshift.lock", c.locks);
        rc = hub_lock(path, &c.lock, err);
    }
    if (rc == 0)
        *ret = c;
    free(whole);
    free(hub);
    return rc;
}

void hub_cache_close(struct hub_cache *c)
{
    if (c->lock >= 0)
        close(c->lock);
    c->lock = -1;
}

void hub_cache_blob(const struct hub_cache *c, const struct hub_digest *digest, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/blobs/%s", c->repo, digest->hex);
}

int hub_cache_lock_blob(const struct hub_cache *c, const struct hub_digest *digest, int *ret,
                        struct err *err)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s.lock", c->locks, digest->hex);
    return hub_lock(path, ret, err);
}

int hub_cache_link(const struct hub_cache *c, const char *commit, const char *file,
                   const struct hub_digest *digest, struct err *err)
{
    char dir[160], path[PATH_MAX], fresh[PATH_MAX + 8], target[96];
    const char *slash = strrchr(file, '/');
    int rc;

    snprintf(dir, sizeof(dir), "snapshots/%.40s/%.*s", commit, slash ? (int)(slash - file) : 0,
             file);
    rc = make(c->repo, dir, err);
    if (rc != 0)
        return rc;
    snprintf(path, sizeof(path), "%s/snapshots/%.40s/%s", c->repo, commit, file);
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    snprintf(target, sizeof(target), "%s../../blobs/%s", slash ? "../" : "", digest->hex);
    unlink(fresh); /* of a pull that was killed; the lock is ours */
    if (symlink(target, fresh) != 0 || rename(fresh, path) != 0)
        return err_sys(err, errno, "make the link %.200s", path);
    return 0;
}

int hub_cache_ref(const struct hub_cache *c, const char *revision, const char *commit,
                  struct err *err)
{
    char path[PATH_MAX], *cut;
    int rc;

    snprintf(path, sizeof(path), "%s/refs/%s", c->repo, revision);
    cut = strrchr(path, '/');
    *cut = 0;
    rc = cli_make_directories(path, err);
    *cut = '/';
    return rc == 0 ? replace_file(path, commit, strlen(commit), REPLACE_OURS, err) : rc;
}
