#include "workers/speakers/cluster/eigen.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SWEEPS 60
#define NOTHING 1e-28 /* of the squares' sum: what is off the diagonal is rounding */

static double off_diagonal(const double *a, uint32_t n)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            sum += i == k ? 0.0 : a[(size_t)i * n + k] * a[(size_t)i * n + k];
    return sum;
}

static void turn_rows(double *a, uint32_t n, uint32_t p, uint32_t q, double c, double s)
{
    double *x = a + (size_t)p * n, *y = a + (size_t)q * n;

    for (uint32_t k = 0; k < n; k++) {
        double u = x[k], v = y[k];

        x[k] = c * u - s * v;
        y[k] = s * u + c * v;
    }
}

static void turn_columns(double *a, uint32_t n, uint32_t p, uint32_t q, double c, double s)
{
    for (uint32_t k = 0; k < n; k++) {
        double u = a[(size_t)k * n + p], v = a[(size_t)k * n + q];

        a[(size_t)k * n + p] = c * u - s * v;
        a[(size_t)k * n + q] = s * u + c * v;
    }
}

/* Makes a[p][q] nothing. */
static void rotate_to_zero(double *a, double *vectors, uint32_t n, uint32_t p, uint32_t q)
{
    double apq = a[(size_t)p * n + q], theta, t, c;

    if (apq == 0.0)
        return;
    theta = (a[(size_t)q * n + q] - a[(size_t)p * n + p]) / (2.0 * apq);
    t = (theta >= 0.0 ? 1.0 : -1.0) / (fabs(theta) + hypot(theta, 1.0));
    c = 1.0 / hypot(t, 1.0);
    turn_rows(a, n, p, q, c, t * c);
    turn_columns(a, n, p, q, c, t * c);
    turn_rows(vectors, n, p, q, c, t * c);
}

static void sort_eigenpairs(double *values, double *vectors, uint32_t n)
{
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t best = i;
        double value;

        for (uint32_t k = i + 1; k < n; k++)
            if (values[k] > values[best])
                best = k;
        value = values[i];
        values[i] = values[best];
        values[best] = value;
        for (uint32_t k = 0; best != i && k < n; k++) {
            double v = vectors[(size_t)i * n + k];

            vectors[(size_t)i * n + k] = vectors[(size_t)best * n + k];
            vectors[(size_t)best * n + k] = v;
        }
    }
}

int eigen_symmetric(double *a, uint32_t n, double *values, double *vectors, struct err *err)
{
    double size = 0.0, off, before = INFINITY;

    for (size_t i = 0; i < (size_t)n * n; i++)
        size += a[i] * a[i];
    if (!isfinite(size))
        return err_set(err, ERR_INPUT, "the matrix of a transform is not finite");
    memset(vectors, 0, (size_t)n * n * sizeof(*vectors));
    for (uint32_t i = 0; i < n; i++)
        vectors[(size_t)i * n + i] = 1.0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        off = off_diagonal(a, n);
        /* Each sweep has less to do, and far less at the end, until rounding is all: of a large
         * matrix that is more than NOTHING. */
        if (off <= NOTHING * size || !(off < before))
            break;
        before = off;
        for (uint32_t p = 0; p + 1 < n; p++)
            for (uint32_t q = p + 1; q < n; q++)
                rotate_to_zero(a, vectors, n, p, q);
    }
    for (uint32_t i = 0; i < n; i++)
        values[i] = a[(size_t)i * n + i];
    sort_eigenpairs(values, vectors, n);
    return 0;
}

static void swap_rows(double *a, double *b, uint32_t n)
{
    for (uint32_t k = 0; a != b && k < n; k++) {
        double v = a[k];

        a[k] = b[k];
        b[k] = v;
    }
}

/* One column of a becomes the unit's, and the same is done to b. */
static bool eliminate_column(double *a, double *b, uint32_t n, uint32_t column)
{
    uint32_t pivot = column;
    double scale;

    for (uint32_t r = column + 1; r < n; r++)
        if (fabs(a[(size_t)r * n + column]) > fabs(a[(size_t)pivot * n + column]))
            pivot = r;
    swap_rows(a + (size_t)pivot * n, a + (size_t)column * n, n);
    swap_rows(b + (size_t)pivot * n, b + (size_t)column * n, n);
    scale = a[(size_t)column * n + column];
    if (!isfinite(scale) || fabs(scale) < 1e-300)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        a[(size_t)column * n + k] /= scale;
        b[(size_t)column * n + k] /= scale;
    }
    for (uint32_t r = 0; r < n; r++) {
        double factor = a[(size_t)r * n + column];

        for (uint32_t k = 0; r != column && k < n; k++) {
            a[(size_t)r * n + k] -= factor * a[(size_t)column * n + k];
            b[(size_t)r * n + k] -= factor * b[(size_t)column * n + k];
        }
    }
    return true;
}

int eigen_invert(double *a, uint32_t n, struct err *err)
{
    double *b = calloc((size_t)n * n, sizeof(*b));
    bool fine = true;

    if (!b)
        return err_set(err, ERR_NOMEM, "no memory to invert a matrix of %u rows", n);
    for (uint32_t i = 0; i < n; i++)
        b[(size_t)i * n + i] = 1.0;
    for (uint32_t i = 0; fine && i < n; i++)
        fine = eliminate_column(a, b, n, i);
    if (fine)
        memcpy(a, b, (size_t)n * n * sizeof(*a));
    free(b);
    return fine ? 0 : err_set(err, ERR_INPUT, "the matrix of a transform has no inverse");
}
