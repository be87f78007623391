/* workers/speakers/cluster/eigen.h - small dense linear algebra in float64 for the transforms of
 * voices. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_EIGEN_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_EIGEN_H

#include <stdint.h>

#include "base/err.h"

/* The symmetric matrix a ([n][n], overwritten): values[n] descending, vectors[n][n] a row each,
 * orthonormal, of either sign. Jacobi's rotations, cyclic (Golub and Van Loan, 8.5). ERR_INPUT: a
 * is not finite. */
int eigen_symmetric(double *a, uint32_t n, double *values, double *vectors, struct err *err);

/* a ([n][n]) becomes its inverse, by Gauss and Jordan with row pivots. ERR_INPUT: singular. */
int eigen_invert(double *a, uint32_t n, struct err *err);

#endif
