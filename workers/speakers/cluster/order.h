/* workers/speakers/cluster/order.h - points in an order in which those near to each other stand
 * together.
 *
 * As the leaves of a k-d tree do: halves along the dimension in which the points spread most, again
 * and again, until `together` or fewer are left. For searches, whose blocks are then near or far as
 * a whole; nothing depends on it but time. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_ORDER_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_CLUSTER_ORDER_H

#include <stdint.h>

/* points: n of them, `stride` values apart, of which the first `dims` count; finite. together: 1
 * ..; cuts lie at its multiples. ret: [n]: the points' numbers. */
void order_near(const float *points, uint32_t n, uint32_t stride, uint32_t dims, uint32_t together,
                uint32_t *ret);

#endif
