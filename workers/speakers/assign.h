/* workers/speakers/assign.h - every local speaker of a window gets a cluster: that whose centroid
 * is most like its vector (cosine). */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_ASSIGN_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_ASSIGN_H

#include "base/err.h"
#include "workers/speakers/diarization.h"

#define ASSIGN_NONE (-1) /* silent, or no cluster was left */

/* speaks: [windows], bit s: local speaker s is heard in the window; the others get none.
 * centroids: [clusters][size]. constrained: those of one window get different clusters, so that the
 * sum of the likenesses is the largest, and those without a vector take what is left; not
 * constrained: each the nearest, those without a vector none. One cluster alone that is not
 * constrained is everybody's, vector or not. ret: [windows][speakers]. */
int assign_clusters(const struct diarize_input *in, const uint8_t *speaks, const float *centroids,
                    uint32_t clusters, bool constrained, int32_t *ret, struct err *err);

#endif
