/* tests/common/distance.h - the largest of many distances, for bounds that a value that is no
 * number must not pass: fmax() drops a NaN, and so does `d <= worst ? worst : d` with the next d.
 */
#ifndef NIGHTSHIFT_TESTS_COMMON_DISTANCE_H
#define NIGHTSHIFT_TESTS_COMMON_DISTANCE_H

#include <math.h>

/* The larger one; a NaN stays, whatever follows, and is below no bound. */
static inline double distance_larger(double worst, double d)
{
    return isnan(worst) || d <= worst ? worst : d;
}

#endif
