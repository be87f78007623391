/* tools/hub/hub_hash.h - the hash that names a file on the hub, and whether a file has it. */
#ifndef NIGHTSHIFT_TOOLS_HUB_HUB_HASH_H
#define NIGHTSHIFT_TOOLS_HUB_HUB_HASH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define HUB_DIGEST_LEN 65

/* 64 hex digits: SHA-256 of the bytes (large files). 40: SHA-1 of "blob SIZE", a NUL and the bytes,
 * as git names files. Lower case. */
struct hub_digest {
    char hex[HUB_DIGEST_LEN];
};
/* From an ETag, with or without quotes and W/. false: it is no hash. */
bool hub_digest_parse(const char *etag, struct hub_digest *ret);

/* Hashes all bytes of fd from its beginning; moves its offset. git: SHA-1 as above, else SHA-256.
 * stop as of hub_watch; NULL is fine. */
int hub_hash_of(int fd, bool git, const volatile sig_atomic_t *stop, struct hub_digest *ret,
                struct err *err);
/* Whether all bytes of fd, from its beginning, have that digest; as above. */
int hub_hash_same(int fd, const struct hub_digest *digest, const volatile sig_atomic_t *stop,
                  bool *ret, struct err *err);

#endif
