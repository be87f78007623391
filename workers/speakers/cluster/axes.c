#include "workers/speakers/cluster/axes.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE 4096u /* points that they are found from */
#define ROUNDS 8

/* ret: [size][size], of every n/SAMPLE-th point; x: [size] for it to work in. */
static void covariance(const float *points, uint32_t n, uint32_t size, const double *origin,
                       double *x, double *ret)
{
    uint32_t step = n / SAMPLE + 1;

    for (uint32_t i = 0; i < n; i += step) {
        for (uint32_t k = 0; k < size; k++)
            x[k] = (double)points[(size_t)i * size + k] - origin[k];
        for (uint32_t a = 0; a < size; a++)
            for (uint32_t b = 0; b < size; b++)
                ret[(size_t)a * size + b] += x[a] * x[b];
    }
}

static double dot(const double *a, const double *b, uint32_t size)
{
    double sum = 0.0;

    for (uint32_t k = 0; k < size; k++)
        sum += a[k] * b[k];
    return sum;
}

/* Gram and Schmidt's, twice, so that the second pass takes what rounding left of the first. */
static void orthonormalize(double *axes, uint32_t count, uint32_t size)
{
    for (uint32_t i = 0; i < count; i++) {
        double *axis = axes + (size_t)i * size, length;

        for (int pass = 0; pass < 2; pass++)
            for (uint32_t j = 0; j < i; j++) {
                const double *other = axes + (size_t)j * size;
                double along = dot(axis, other, size);

                for (uint32_t k = 0; k < size; k++)
                    axis[k] -= along * other[k];
            }
        length = sqrt(dot(axis, axis, size));
        for (uint32_t k = 0; k < size; k++)
            axis[k] /= length;
    }
}

/* Fixed values that look like noise, so that no axis is missed for being orthogonal to the start.
 */
static void begin(double *axes, size_t n)
{
    uint64_t state = 0x9E3779B97F4A7C15u;

    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        axes[i] = (double)(state >> 40) / 16777216.0 - 0.5;
    }
}

int axes_find(const float *points, uint32_t n, uint32_t size, const double *origin, uint32_t count,
              double *ret, struct err *err)
{
    size_t square = (size_t)size * size, all = (size_t)count * size;
    double *work = calloc(square + all + size, sizeof(*work)), *next = work + square, trace = 0.0;

    if (work == NULL)
        return err_set(err, ERR_NOMEM, "no memory for the axes of %u values", size);
    covariance(points, n, size, origin, next + all, work);
    for (uint32_t k = 0; k < size; k++)
        trace += work[(size_t)k * size + k];
    /* Full rank, so that no axis vanishes where the points lie in fewer dimensions. */
    for (uint32_t k = 0; k < size; k++)
        work[(size_t)k * size + k] += trace > 0.0 ? trace * 1e-6 : 1.0;
    begin(ret, all);
    orthonormalize(ret, count, size);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < size; k++)
                next[(size_t)i * size + k] =
                    dot(work + (size_t)k * size, ret + (size_t)i * size, size);
        memcpy(ret, next, all * sizeof(*ret));
        orthonormalize(ret, count, size);
    }
    free(work);
    return 0;
}
