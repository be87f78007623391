/* workers/speakers/cluster/plda.h - the two transforms that VBx compares voices in, as pyannote's
 * community-1 has them (xvec_transform.npz and plda.npz):
 *
 *   y = sqrt(lda) * unit(LDA^T (sqrt(size) * unit(x - mean1)) - mean2)
 *   z = T (y - mu)
 *
 * T makes voices of one speaker differ by the unit matrix and speakers by a diagonal one, phi: the
 * generalised eigenvectors of the between-speaker covariance B = (tr^T diag(1/psi) tr)^-1 and the
 * within-speaker one W = (tr^T tr)^-1, largest value first. Their signs are arbitrary, and nothing
 * that VBx finds depends on them. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_PLDA_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_PLDA_H

#include <stdint.h>

#include "base/err.h"

#define PLDA_MAX 512u /* values of a vector: VOICEPRINT_MAX_SIZE; time grows with its cube */

struct plda; /* owned: plda_free; read by any number of threads */

struct plda_arrays {      /* as the files have them; borrowed during plda_new */
    uint32_t size, lda;   /* values of a vector, and after the first transform: 256, 128 */
    const double *mean1;  /* [size] */
    const double *mean2;  /* [lda] */
    const double *matrix; /* [size][lda] */
    const double *mu;     /* [lda] */
    const double *tr;     /* [lda][lda] */
    const double *psi;    /* [lda], above 0 */
};

/* dim: how many of the transformed values are kept; 0 or more than there are: all.
 * ERR_MODEL: sizes or values that are impossible. */
int plda_new(const struct plda_arrays *a, uint32_t dim, struct plda **ret, struct err *err);
void plda_free(struct plda *p); /* NULL is fine */

uint32_t plda_size(const struct plda *p);
uint32_t plda_dim(const struct plda *p);
const double *plda_phi(const struct plda *p); /* [plda_dim], descending */
/* vectors: [n][plda_size]. ret: [n][plda_dim]. threads: their number changes nothing. */
int plda_apply(const struct plda *p, const float *vectors, uint32_t n, uint32_t threads,
               double *ret, struct err *err);

#endif
