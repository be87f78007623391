/* workers/speakers/cluster/ahc.h - pyannote's agglomerative clustering of voices: centroid linkage
 * of unit vectors up to a distance; clusters that are too small join the large one that is most
 * like them; where another number of large clusters is wanted, the dendrogram is cut elsewhere, as
 * near to the distance as can be. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_AHC_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_AHC_H

#include <stdint.h>

#include "base/err.h"

struct ahc_params {
    double threshold;
    uint32_t min_size; /* never more than a tenth of the vectors, rounded, and never 0 */
    uint32_t min_clusters, max_clusters; /* 1 <= min <= max <= n */
    uint32_t threads;                    /* their number changes nothing */
};

/* Unit vectors; one of length 0 stays. */
void ahc_normalize(float *vectors, uint32_t n, uint32_t size);

/* unit: [n][size], of ahc_normalize. labels: [n], 0 .. *clusters - 1 by their first vector. */
int ahc_cluster(const float *unit, uint32_t n, uint32_t size, const struct ahc_params *p,
                uint32_t *labels, uint32_t *clusters, struct err *err);

/* The linkage alone, cut at a distance: the start of VBx. */
int ahc_cut(const float *unit, uint32_t n, uint32_t size, double threshold, uint32_t threads,
            uint32_t *labels, uint32_t *clusters, struct err *err);

#endif
