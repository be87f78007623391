/* workers/speakers/vbx.h - variational Bayes clustering of voices: a Gaussian mixture in which
 * each speaker's mean is itself drawn from a Gaussian (the PLDA's), so that speakers that explain
 * little vanish (Landini et al., Bayesian HMM clustering of x-vector sequences (VBx), 2022; without
 * the hidden Markov model, as pyannote's community-1); and the PLDA's transforms. Equation numbers
 * in vbx.c are that paper's.
 *
 * Memory is speakers x dim and nothing that grows with vectors x speakers. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_VBX_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_VBX_H

#include <stdint.h>

#include "base/err.h"

#define VBX_UNLABELLED UINT32_MAX
#define VBX_MAX_SPEAKERS 1000u
#define VBX_ALIVE 1e-7 /* a speaker with a smaller share is none */

struct vbx; /* owned: vbx_free */

struct vbx_params {
    double fa, fb;       /* 0.07, 0.8 */
    double smoothing;    /* 7: weight e^7 of the label it begins with against 1 of each other */
    uint32_t max_rounds; /* 20; it ends when a round gains less than 1e-4 */
    uint32_t threads;    /* their number changes nothing */
};

/* features: [n][dim], of plda_apply; phi: [dim]. labels: [n], below `speakers`, or
 * VBX_UNLABELLED: begins as everybody's. ERR_INPUT: sizes, or numbers that are none. */
int vbx_run(const double *features, uint32_t n, uint32_t dim, const double *phi,
            const uint32_t *labels, uint32_t speakers, const struct vbx_params *p, struct vbx **ret,
            struct err *err);
void vbx_free(struct vbx *v); /* NULL is fine */

const double *vbx_shares(const struct vbx *v); /* [speakers], sum 1: pi */
/* How far the vectors with these features belong to each speaker: ret [n][speakers], rows of sum 1:
 * gamma. */
void vbx_responsibilities(const struct vbx *v, const double *features, uint32_t n, double *ret);

/* ---- the two transforms that VBx compares voices in
 *
 * pyannote's community-1 has them in xvec_transform.npz and plda.npz:
 *
 *   y = sqrt(lda) * unit(LDA^T (sqrt(size) * unit(x - mean1)) - mean2)
 *   z = T (y - mu)
 *
 * T makes voices of one speaker differ by the unit matrix and speakers by a diagonal one, phi: the
 * generalised eigenvectors of the between-speaker covariance B = (tr^T diag(1/psi) tr)^-1 and the
 * within-speaker one W = (tr^T tr)^-1, largest value first. Their signs are arbitrary, and nothing
 * that VBx finds depends on them. */

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

/* ---- small dense linear algebra in float64, for the transforms of voices */

/* The symmetric matrix a ([n][n], overwritten): values[n] descending, vectors[n][n] a row each,
 * orthonormal, of either sign. Jacobi's rotations, cyclic (Golub and Van Loan, 8.5). ERR_INPUT: a
 * is not finite. */
int eigen_symmetric(double *a, uint32_t n, double *values, double *vectors, struct err *err);

/* a ([n][n]) becomes its inverse, by Gauss and Jordan with row pivots. ERR_INPUT: singular. */
int eigen_invert(double *a, uint32_t n, struct err *err);

#endif
