/* tools/hub/hub_file.h - one file from the network, or from another disk, to its place on this one,
 * whole or not at all; and the files of a model's folder, read and written. */
#ifndef NIGHTSHIFT_TOOLS_HUB_HUB_FILE_H
#define NIGHTSHIFT_TOOLS_HUB_HUB_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tools/hub/hub_hash.h"
#include "tools/hub/hub_http.h"

struct hub_file {
    const char *name; /* for people */
    const char *url;
    const char *from; /* the file on this machine that is taken in place of url; NULL: none */
    const char *path; /* where it goes; until it is whole, PATH.incomplete */
    struct hub_digest digest;
    uint64_t size_bytes;
    uint64_t at; /* of a piece of what is at url: where it begins there; 0: all of that */
};
/* Leaves a file alone that has the digest, and fetches it otherwise: on from what an earlier pull
 * left (the name of a blob is its hash, so that what is there is of the same file; should it not
 * be, it is fetched once more from its beginning). ERR_PROTOCOL when what the server sends has
 * another digest: nothing of it stays. *got_bytes grows by what was fetched. h: NULL with `from`.
 */
int hub_file_fetch(struct hub_http *h, const struct hub_watch *watch, const struct hub_file *f,
                   uint64_t *got_bytes, struct err *err);
/* Bytes that would have to be fetched, judged by the size alone. */
uint64_t hub_file_missing(const struct hub_file *f);

/* One program at a time: flock on a file that is made for it and stays. *ret is to be closed.
 * ERR_LOCKED. */
int hub_lock(const char *path, int *ret, struct err *err);
/* ERR_FULL when the disk of dir has less than need_bytes free. */
int hub_room(const char *dir, uint64_t need_bytes, struct err *err);

/* ---- files of a model's folder */

/* The bytes of a file that is not empty, to be read. *ret is to be unmapped. */
int hub_file_map(const char *path, void **ret, size_t *len, struct err *err);
/* Works like replace_file, with FOLDER/name. */
int hub_file_put(const char *folder, const char *name, const void *data, size_t len,
                 struct err *err);
/* Is FOLDER/name whole? A file that is missing or has another hash is not. */
int hub_file_is_whole(const char *folder, const char *name, const struct hub_digest *digest,
                      const struct hub_watch *watch, bool *ret, struct err *err);

#endif
