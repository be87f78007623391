/* tools/hub/packages/tensors.h - weights that came in another format, as safetensors. */
#ifndef NIGHTSHIFT_TOOLS_HUB_PACKAGES_TENSORS_H
#define NIGHTSHIFT_TOOLS_HUB_PACKAGES_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define HUB_RANK_MAX 4

struct hub_tensor {
    char name[40]; /* plain ASCII */
    uint32_t rank, dim[HUB_RANK_MAX];
    const void *data; /* float32, little-endian, row after row; borrowed */
};

/* A whole file, appended to out: tensors in the order given. out->failed: no memory. */
void hub_put_tensors(const struct hub_tensor *tensors, size_t n, struct buf *out);

#endif
