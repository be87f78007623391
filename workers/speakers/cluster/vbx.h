/* workers/speakers/cluster/vbx.h - variational Bayes clustering of voices: a Gaussian mixture in
 * which each speaker's mean is itself drawn from a Gaussian (the PLDA's), so that speakers that
 * explain little vanish (Landini et al., Bayesian HMM clustering of x-vector sequences (VBx), 2022;
 * without the hidden Markov model, as pyannote's community-1). Equation numbers in vbx.c are that
 * paper's.
 *
 * Memory is speakers x dim and nothing that grows with vectors x speakers. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_VBX_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_VBX_H

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

#endif
