/* workers/speakers/cluster/kmeans.h - a wanted number of clusters: Lloyd's algorithm from k-means++
 * starts (Arthur and Vassilvitskii 2007), the best of three. The draws are fixed: the same vectors
 * give the same clusters. (pyannote calls scikit-learn's, whose draws differ.) */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_KMEANS_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_KMEANS_H

#include <stdint.h>

#include "base/err.h"

/* vectors: [n][size]; 1 <= clusters <= n. labels: [n]; every cluster has one at least. threads:
 * their number changes nothing. */
int kmeans(const float *vectors, uint32_t n, uint32_t size, uint32_t clusters, uint32_t threads,
           uint32_t *labels, struct err *err);

#endif
