/* tools/hub/hub_copy.h - a model's files from one folder to another, as from a disk that was
 * carried over: each is held against its hash, where one is known, and the copy against that of
 * what was copied. */
#ifndef NIGHTSHIFT_TOOLS_HUB_HUB_COPY_H
#define NIGHTSHIFT_TOOLS_HUB_HUB_COPY_H

#include "tools/hub/hub.h"

#define HUB_SUMS \
    "SHA256SUMS" /* beside them, as sha256sum has it; what is carried on has one, too */

/* Hashes are known from FROM/SHA256SUMS and, of a Hugging Face cache, from the blobs' names. TO is
 * made; what it has already and whole stays, and config.json comes last. Weights in a form that is
 * not read, and names that begin with a point, are left behind. *got_bytes grows by what was
 * copied. ERR_PROTOCOL: a file has another hash; ERR_MISSING: one that FROM/SHA256SUMS names is not
 * there; ERR_LIMIT: endless folders; else as of hub_pull. */
int hub_copy(const char *from, const char *to, const struct hub_watch *watch, uint64_t *got_bytes,
             struct err *err);
/* Bytes to copy from there; 0: there are none, or the folder cannot be read. */
uint64_t hub_copy_bytes(const char *from);

#endif
