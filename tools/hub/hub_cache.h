/* tools/hub/hub_cache.h - one model in the layout of the Hugging Face cache:
 *
 *   HUB/models--org--name/blobs/HASH                     the bytes, each once
 *                        /blobs/HASH.incomplete          on their way
 *                        /snapshots/COMMIT/config.json   a relative link to its blob
 *                        /refs/main                      the commit that this revision means
 *   HUB/.locks/models--org--name/HASH.lock               held by whoever fetches that blob
 *
 * Links are made when all blobs are there, config.json's last, and the ref after them: a name never
 * leads to half a model. */
#ifndef NIGHTSHIFT_TOOLS_HUB_HUB_CACHE_H
#define NIGHTSHIFT_TOOLS_HUB_HUB_CACHE_H

#include <limits.h>

#include "tools/hub/hub_hash.h"

struct hub_cache {
    char repo[PATH_MAX - 300]; /* room behind it for what lies there */
    char locks[PATH_MAX - 300];
    int lock; /* against a second pull of the model; -1: none */
};
/* Makes the folders and takes the lock. ERR_LOCKED. */
int hub_cache_open(const char *id, struct hub_cache *ret, struct err *err);
void hub_cache_close(struct hub_cache *c);

void hub_cache_blob(const struct hub_cache *c, const struct hub_digest *digest, char out[PATH_MAX]);
/* Against other programs that fetch the same blob; *ret is to be closed. ERR_LOCKED. */
int hub_cache_lock_blob(const struct hub_cache *c, const struct hub_digest *digest, int *ret,
                        struct err *err);
/* snapshots/COMMIT/FILE; file is a plain name. */
int hub_cache_link(const struct hub_cache *c, const char *commit, const char *file,
                   const struct hub_digest *digest, struct err *err);
/* refs/REVISION, which hub_revision_check has let pass. */
int hub_cache_ref(const struct hub_cache *c, const char *revision, const char *commit,
                  struct err *err);

#endif
