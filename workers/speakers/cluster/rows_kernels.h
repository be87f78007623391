/* workers/speakers/cluster/rows_kernels.h - what a search among points computes with. Internal to
 * rows.c.
 *
 * The heads of points stand in panels of 16, [axis][16], so that one vector holds an axis of 16
 * points and no sum is taken across a vector. The kernels are written once over vectors of the
 * compiler's and compiled for three sets of instructions; what they give differs in rounding. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_ROWS_KERNELS_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_ROWS_KERNELS_H

#include <stdint.h>

#define LANES 16u
#define HEAD 32u /* axes of a head */
#define DOTS 6u  /* products that are made at once */

/* A point along the first axes. */
struct head {
    float at[HEAD];
    float norm, tail; /* squared length of `at`; length of the rest */
};

struct panel {
    float at[HEAD][LANES];
    float norm[LANES], tail[LANES]; /* as of struct head; norm INFINITY: nobody */
};

/* What some heads lie in. */
struct box {
    float low[HEAD], high[HEAD];
};

struct rows_kernels {
    /* Which points of a panel may be no farther than the root of a limit: bit q of hits[i]: point i
     * from query q. head, limits: [n]; n: 1 or DOTS. */
    void (*bounds)(const struct panel *p, const struct head *const head[], const float limits[],
                   uint32_t n, uint8_t hits[LANES]);
    /* The squared distance of two boxes. */
    float (*apart)(const struct box *a, const struct box *b);
    /* ret[k]: the product of x and y[k], all of `stride` values (a multiple of LANES). */
    void (*dots)(const float *x, const float *const y[DOTS], uint32_t stride, float ret[DOTS]);
    /* ret[k]: x along axis k. axes: [HEAD][stride]. */
    void (*along)(const double *axes, const float *x, uint32_t stride, double ret[HEAD]);
};

/* The best that this processor has; NIGHTSHIFT_CPU=avx512, avx2 or plain asks for less. */
const struct rows_kernels *rows_kernels(void);

#endif
