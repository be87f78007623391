/* workers/speakers/points_kernels.h - the products that a search among points is made of.
 * Internal to points.c.
 *
 * Points stand in panels of 16, [value][16], so that one vector holds a value of 16 points and no
 * sum is taken across a vector. The kernels are written once over vectors of the compiler's and
 * compiled for three sets of instructions; their results differ in rounding. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_POINTS_KERNELS_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_POINTS_KERNELS_H

#include <stdint.h>

#define LANES 16u
#define QUERIES 6u /* that share one reading of a panel */

/* Queries, and what becomes of them with one panel. */
struct products {
    const float *query[QUERIES]; /* one: its values; QUERIES: a lane of a panel each */
    float limits[QUERIES];
    float dots[QUERIES][LANES];
    uint8_t hits[LANES]; /* bit q of hits[i]: norms[i] - 2 dots[q][i] <= limits[q] */
};

/* panel: [stride][LANES], stride a multiple of 4; norms: [LANES]; both at multiples of 64 bytes. */
typedef void points_kernel(const float *panel, const float *norms, uint32_t stride,
                           struct products *p);

struct points_kernels {
    points_kernel *one, *some;
};

/* Those of cpu_isa(). */
const struct points_kernels *points_kernels(void);

#endif
