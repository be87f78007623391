/* workers/models/pyannote/voiceprint_weights.h - the values of speaker encoders, from their files.
 */
#ifndef NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_VOICEPRINT_WEIGHTS_H
#define NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_VOICEPRINT_WEIGHTS_H

#include <stdint.h>

#include "base/err.h"
#include "workers/models/files/weights_take.h"

#define RESNET_LAYERS 4
#define RESNET_MAX_BLOCKS 64 /* of a layer */

struct weights;

/* A convolution with the batch norm behind it. */
struct resnet_conv {
    uint32_t in, out, kernel, stride;
    float *w;    /* [out][in][frames][frequencies] */
    float *bias; /* [out] */
};

struct resnet_block {
    struct resnet_conv first, second, shortcut; /* shortcut.w NULL: there is none */
};

struct resnet_weights {
    struct resnet_conv begin;
    uint32_t block_count;
    struct resnet_block block[RESNET_LAYERS * RESNET_MAX_BLOCKS];
    uint32_t size;   /* of a vector */
    uint32_t pooled; /* of a frame behind the last block: frequencies x channels */
    float *last;     /* [size][2 pooled]: means, then deviations, frequency by channel */
    float *last_bias;
    struct weights_pool pool;
};

/* ERR_MODEL when a tensor is missing, of a shape that cannot be, or holds a value that is not
 * finite. */
int resnet_weights_read(const struct weights *file, struct resnet_weights **ret, struct err *err);
void resnet_weights_free(struct resnet_weights *w); /* NULL is fine */

#endif
