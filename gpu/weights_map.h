/* gpu/weights_map.h - a file of weights, mapped into memory read-only. Any thread. */
#ifndef NIGHTSHIFT_GPU_WEIGHTS_MAP_H
#define NIGHTSHIFT_GPU_WEIGHTS_MAP_H

#include <stddef.h>

#include "base/err.h"

struct weights_map {
    void *data; /* NULL: none */
    size_t len;
};

/* A regular file of `least` bytes or more. ERR_MODEL: it is none of this kind ("safetensors file");
 * another code where the system says no. The caller closes *ret. */
int weights_map_open(const char *path, size_t least, const char *kind, struct weights_map *ret,
                     struct err *err);
/* Once the file has been parsed: its map goes to *owner. NULL: it could not be parsed; the map is
 * closed, and err, which says why, names the file. Returns 0 or err's code. */
int weights_map_give(struct weights_map *m, const char *path, struct weights_map *owner,
                     struct err *err);
void weights_map_close(struct weights_map *m); /* of none: nothing happens */

#endif
