/* workers/speakers/cluster/axes.h - the directions along which points differ most: the first
 * principal axes by subspace iteration. They need not have converged: they are orthonormal to
 * double precision in any case, and that is all that a bound made from them relies on.
 * Deterministic. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_AXES_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_AXES_H

#include <stdint.h>

#include "base/err.h"

/* points: [n][size]; origin: [size], their mean; ret: [count][size], count <= size. */
int axes_find(const float *points, uint32_t n, uint32_t size, const double *origin, uint32_t count,
              double *ret, struct err *err);

#endif
