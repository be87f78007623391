/* workers/speakers/cluster.h - from the clean vectors of a recording to one centroid per speaker,
 * by either of pyannote's ways: agglomerative clustering, or VBx from where that ends. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/speakers/diarization.h"

struct clusters {     /* owned: clusters_free */
    float *centroids; /* [count][size] */
    uint32_t count;
    bool constrained; /* the local speakers of a window get different ones (assign_clusters) */
};

void clusters_free(struct clusters *c); /* back to {0} */

/* vectors: [n][size], finite, n >= 0 (none: one cluster, whose centroid is 0). The bounds on the
 * number of speakers are p's, as far as n allows. */
int cluster_ahc(const float *vectors, uint32_t n, uint32_t size, const struct diarize_params *p,
                struct clusters *ret, struct err *err);
/* features: [n][dim] and phi: [dim], of vbx.h. If VBx finds a number of speakers that is not
 * wanted, k-means makes the wanted number, without constraints. */
int cluster_vbx(const float *vectors, uint32_t n, uint32_t size, const double *features,
                uint32_t dim, const double *phi, const struct diarize_params *p,
                struct clusters *ret, struct err *err);

/* ---- pyannote's agglomerative clustering of voices
 *
 * Centroid linkage of unit vectors up to a distance. Clusters that are too small join the large one
 * that is most like them. Where another number of large clusters is wanted, the dendrogram is cut
 * elsewhere, as near to the distance as can be. */

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
