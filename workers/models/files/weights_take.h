/* workers/models/files/weights_take.h - a network's tensors as arrays, their sizes found in the
 * file.
 *
 * Used for networks without a config file. The arrays live until the pool is freed. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHTS_TAKE_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHTS_TAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct weights;
struct weights_block;

struct weights_pool { /* zeroed: empty */
    struct weights_block *first;
};

bool weights_has(const struct weights *w, const char *name);
/* Whether any of n tensors is there whose names are the formats, each with the number `layer` for
 * its one %u: of a layer of which a part is missing, that part is to be missed. */
bool weights_has_layer(const struct weights *w, const char *const *formats, size_t n,
                       uint32_t layer);
/* All values of a tensor of `rank` dimensions as float32, finite ones alone. dim[i] > 0: it must be
 * that; 0: found, set, and 1 .. most. ERR_MODEL names the tensor and what is wrong with it. */
int weights_take(const struct weights *w, struct weights_pool *pool, const char *name,
                 uint32_t rank, uint32_t *dim, uint32_t most, float **ret, struct err *err);
/* An array of `count` values for something computed from them. NULL: no memory. */
float *weights_pool_array(struct weights_pool *pool, uint64_t count);
void weights_pool_free(struct weights_pool *pool);

#endif
