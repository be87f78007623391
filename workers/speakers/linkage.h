/* workers/speakers/linkage.h - agglomerative clustering by centroid linkage: the two
 * clusters whose means are nearest to each other (Euclidean) become one, again and again.
 *
 * Equal to scipy's linkage(method="centroid") up to the order of equally distant pairs, without the
 * matrix of all pairs: memory is n times a constant. A mean of two can be nearer to a third than
 * either was, so distances may fall from one merge to the next (an inversion); algorithms that
 * follow chains of nearest neighbours are not exact here.
 *
 * Equally distant pairs are ordered by the id of the answering cluster, then by the other's id: of
 * two vectors the lower answers, else the cluster that was made later. If more clusters are equally
 * near to one than float32 can tell apart (some sixteen), any of them may come first.
 *
 * Cutting where distances exceed a threshold (scipy's fcluster(criterion="distance"), which takes a
 * merge only when none below it was farther) is the same as to stop at the first pair that is
 * farther: every later merge that is nearer stands on one that is not. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_LINKAGE_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_LINKAGE_H

#include <stdint.h>

#include "base/err.h"

#define LINKAGE_MAX 4000000u /* vectors */

/* Cluster ids: 0 .. n-1 are the vectors, n + i is the cluster of the i-th merge. a < b. */
struct merge {
    uint32_t a, b;
    uint32_t size; /* vectors in it */
    double distance;
};

/* vectors: [n][size], finite. Merges until the nearest two are farther apart than `stop` (INFINITY:
 * until one is left). ret: [n-1]; *count: how many merges there were. threads: their number changes
 * nothing.
 * ERR_INPUT, ERR_NOMEM. */
int linkage_centroid(const float *vectors, uint32_t n, uint32_t size, double stop, uint32_t threads,
                     struct merge *ret, uint32_t *count, struct err *err);

/* The clusters after the first `count` merges: labels[n] = 0, 1, ... by their first vector.
 * Returns how many there are. parent: [2n] to work in. */
uint32_t linkage_labels(const struct merge *merges, uint32_t count, uint32_t n, uint32_t *parent,
                        uint32_t *labels);

#endif
