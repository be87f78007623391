/* workers/speakers/cluster/cluster.h - from the clean vectors of a recording to one centroid per
 * speaker, by either of pyannote's ways. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_CLUSTER_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/speakers/diarization.h"

struct clusters {     /* owned: clusters_free */
    float *centroids; /* [count][size] */
    uint32_t count;
    bool constrained; /* the local speakers of a window get different ones (assign.h) */
};

void clusters_free(struct clusters *c); /* back to {0} */

/* vectors: [n][size], finite, n >= 0 (none: one cluster, whose centroid is 0). The bounds on the
 * number of speakers are p's, as far as n allows. */
int cluster_ahc(const float *vectors, uint32_t n, uint32_t size, const struct diarize_params *p,
                struct clusters *ret, struct err *err);
/* features: [n][dim] and phi: [dim], of plda.h. If VBx finds a number of speakers that is not
 * wanted, k-means makes the wanted number, without constraints. */
int cluster_vbx(const float *vectors, uint32_t n, uint32_t size, const double *features,
                uint32_t dim, const double *phi, const struct diarize_params *p,
                struct clusters *ret, struct err *err);

#endif
