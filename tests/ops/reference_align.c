#include "tests/ops/reference_align.h"

#include <math.h>
#include <stdlib.h>

static int compare_floats(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *row, size_t frames, size_t at)
{
    double seven[7];

    if (frames <= 3)
        return row[at];
    for (long i = 0; i < 7; i++) {
        long k = (long)at + i - 3;

        k = k < 0 ? -k : k >= (long)frames ? 2 * ((long)frames - 1) - k : k;
        seven[i] = row[k];
    }
    qsort(seven, 7, sizeof(*seven), compare_floats);
    return seven[3];
}

static void softmax(const float *x, size_t n, double *ret)
{
    double high = -INFINITY, sum = 0.0;

    for (size_t i = 0; i < n; i++)
        high = fmax(high, (double)x[i]);
    for (size_t i = 0; i < n; i++)
        sum += ret[i] = exp((double)x[i] - high);
    for (size_t i = 0; i < n; i++)
        ret[i] /= sum;
}

static void standardise(double *w, size_t n, size_t frames, size_t column, double equal)
{
    double mean = 0.0, variance = 0.0;

    for (size_t r = 0; r < n; r++)
        mean += w[r * frames + column] / (double)n;
    for (size_t r = 0; r < n; r++)
        variance += pow(w[r * frames + column] - mean, 2.0) / (double)n;
    for (size_t r = 0; r < n; r++)
        w[r * frames + column] =
            sqrt(variance) <= equal * mean ? 0.0 : (w[r * frames + column] - mean) / sqrt(variance);
}

void reference_align(const float *scores, size_t heads, size_t n, size_t frames, double equal,
                     double *out)
{
    double *w = malloc(n * frames * sizeof(*w));

    for (size_t i = 0; i < n * frames; i++)
        out[i] = 0.0;
    for (size_t h = 0; w && h < heads; h++) {
        for (size_t r = 0; r < n; r++)
            softmax(scores + (h * n + r) * frames, frames, w + r * frames);
        for (size_t c = 0; c < frames; c++)
            standardise(w, n, frames, c, equal);
        for (size_t i = 0; i < n * frames; i++)
            out[i] += median(w + i / frames * frames, frames, i % frames) / (double)heads;
    }
    free(w);
}
