/* workers/models/yamnet/yamnet_net.h - into YAMNet, for tests: what it hears, and what lies between
 * its convolutions. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_YAMNET_YAMNET_NET_H
#define NIGHTSHIFT_WORKERS_MODELS_YAMNET_YAMNET_NET_H

#include <stdint.h>

#include "workers/models/yamnet/yamnet.h"

/* The log-mel of n samples' patches, [patches][96][64] to ret; as yamnet_run otherwise. */
int yamnet_listen(struct yamnet *y, const float *pcm, size_t n, float *ret, struct err *err);

/* One patch's log-mel image ([96][64]) after the first `convolutions` (1 .. YAMNET_CONVOLUTIONS):
 * [height][width][channels] to ret, at most 98304 values. */
int yamnet_look(struct yamnet *y, const float *image, uint32_t convolutions, float *ret,
                struct err *err);

#endif
