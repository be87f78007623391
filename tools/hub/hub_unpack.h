/* tools/hub/hub_unpack.h - what lies in a package becomes a file of a model's folder. */
#ifndef NIGHTSHIFT_TOOLS_HUB_HUB_UNPACK_H
#define NIGHTSHIFT_TOOLS_HUB_HUB_UNPACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The bytes of a file that is not empty, to be read. *ret is to be unmapped. */
int hub_map_file(const char *path, void **ret, size_t *len, struct err *err);
/* A zip's deflated member of which both lengths are known. ERR_PROTOCOL when it has others. */
int hub_inflate(const uint8_t *from, size_t from_bytes, uint8_t *ret, size_t ret_bytes,
                struct err *err);
/* As replace_file, to FOLDER/name. */
int hub_put_file(const char *folder, const char *name, const void *data, size_t len,
                 struct err *err);

#endif
