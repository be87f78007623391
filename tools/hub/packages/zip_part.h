/* tools/hub/packages/zip_part.h - single members of a package (a zip) on a server, of which the
 * hashes and the places are known: only their bytes are fetched, however large the package is. */
#ifndef NIGHTSHIFT_TOOLS_HUB_PACKAGES_ZIP_PART_H
#define NIGHTSHIFT_TOOLS_HUB_PACKAGES_ZIP_PART_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tools/hub/hub.h"
#include "tools/hub/hub_hash.h"
#include "tools/hub/hub_http.h"

/* ---- what lies in a package becomes a file of a model's folder */

/* The bytes of a file that is not empty, to be read. *ret is to be unmapped. */
int hub_map_file(const char *path, void **ret, size_t *len, struct err *err);
/* A zip's deflated member of which both lengths are known. ERR_PROTOCOL when it has others. */
int hub_inflate(const uint8_t *from, size_t from_bytes, uint8_t *ret, size_t ret_bytes,
                struct err *err);
/* Works like replace_file, with FOLDER/name. */
int hub_put_file(const char *folder, const char *name, const void *data, size_t len,
                 struct err *err);

struct hub_package {
    const char *name; /* of its file */
    struct hub_server server;
};

struct hub_member {
    const char *name; /* of the file that it becomes */
    uint64_t at;      /* of its deflated bytes in the package */
    uint32_t deflated_bytes, bytes;
    struct hub_digest deflated, digest; /* SHA-256 */
};

/* Is FOLDER/name whole? A file that is missing or has another hash is not. */
int hub_is_whole(const char *folder, const char *name, const struct hub_digest *digest,
                 const struct hub_watch *watch, bool *ret, struct err *err);
/* The member's bytes; *ret is to be freed. The download stays as FOLDER/name.deflated, so that an
 * interrupted pull can resume; hub_member_done removes it when the bytes are in their place.
 * *got_bytes grows by the bytes fetched. Errors as in hub_pull; ERR_PROTOCOL also if the server
 * sends no parts of files. */
int hub_member_read(const struct hub_settings *s, const struct hub_watch *watch,
                    const struct hub_package *package, const struct hub_member *m,
                    const char *folder, uint8_t **ret, uint64_t *got_bytes, struct err *err);
void hub_member_done(const struct hub_member *m, const char *folder);
/* Makes FOLDER/name of each; leaves alone what is there and whole. */
int hub_members_fetch(const struct hub_settings *s, const struct hub_watch *watch,
                      const struct hub_package *package, const struct hub_member *members, size_t n,
                      const char *folder, uint64_t *got_bytes, struct err *err);

#endif
