/* workers/speakers/cluster/kmeans.h - a wanted number of clusters, as pyannote's call of
 * scikit-learn makes them: Lloyd's algorithm from greedy k-means++ starts (Arthur and Vassilvitskii
 * 2007), the best of three, with the draws of RandomState(42). The same vectors give the same
 * clusters, and scikit-learn's but where its float32 sums round otherwise: of two equally good
 * starts, or for a vector half way between two means. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_KMEANS_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_KMEANS_H

#include <stdint.h>

#include "base/err.h"

/* vectors: [n][size]; 1 <= clusters <= n. labels: [n]; every cluster has one at least. threads:
 * their number changes nothing. */
int kmeans(const float *vectors, uint32_t n, uint32_t size, uint32_t clusters, uint32_t threads,
           uint32_t *labels, struct err *err);

#endif
