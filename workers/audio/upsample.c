/* A filter that cuts at half of the old rate is zero at every third tap but the middle one: samples
 * pass as they are, and the two phases between them mirror each other. */
#include "workers/audio/upsample.h"

#include <math.h>
#include <stdlib.h>

#define SIDE 64 /* samples of the old rate to each side */
#define BETA 12.0
#define PI 3.14159265358979323846
#define BLOCK 512 /* samples whose sums stay in the nearest cache */

struct upsampler {
    float tap[2 * SIDE]; /* of a third of a sample after a sample: x[i - SIDE + 1 ..] */
};

/* The modified Bessel function of order 0, by its series. */
static double bessel(double x)
{
    double sum = 1.0, term = 1.0;

    for (int k = 1; term > 1e-17 * sum; k++) {
        term *= (x / (2.0 * k)) * (x / (2.0 * k));
        sum += term;
    }
    return sum;
}

/* The filter `at` samples from its middle. */
static double evaluate_sinc_filter(double at)
{
    double edge = at / SIDE;

    if (edge <= -1.0 || edge >= 1.0)
        return 0.0;
    return sin(PI * at) / (PI * at) * bessel(BETA * sqrt(1.0 - edge * edge)) / bessel(BETA);
}

int upsampler_new(struct upsampler **ret, struct err *err)
{
    struct upsampler *u = calloc(1, sizeof(*u));
    double tap[2 * SIDE], sum = 0.0;

    if (!u)
        return err_set(err, ERR_NOMEM, "no memory for a resampler");
    for (int k = 0; k < 2 * SIDE; k++)
        sum += tap[k] = evaluate_sinc_filter(k - (SIDE - 1) - 1.0 / UPSAMPLE_BY);
    for (int k = 0; k < 2 * SIDE; k++)
        u->tap[k] = (float)(tap[k] / sum); /* a constant stays one */
    *ret = u;
    return 0;
}

void upsampler_free(struct upsampler *u) { free(u); }

/* x[i] for i < n; 0 beyond it and before 0. */
static float sample_or_zero(const float *x, size_t n, ptrdiff_t i)
{
    return i >= 0 && (size_t)i < n ? x[i] : 0.0f;
}

/* The samples between [from, from + count) and their next ones. near: [2 SIDE + BLOCK], zeros where
 * there is no sample. */
static void interpolate_thirds(const struct upsampler *u, const float *near, size_t count,
                               float *third, float *two_thirds)
{
    for (size_t i = 0; i < count; i++)
        third[i] = two_thirds[i] = 0.0f;
    for (size_t k = 0; k < 2 * SIDE; k++) {
        const float a = u->tap[k], b = u->tap[2 * SIDE - 1 - k], *x = near + k;

        for (size_t i = 0; i < count; i++) {
            third[i] += a * x[i];
            two_thirds[i] += b * x[i];
        }
    }
}

void upsample(const struct upsampler *u, const float *pcm, size_t n, float *ret)
{
    float near[2 * SIDE + BLOCK], third[BLOCK], two_thirds[BLOCK];

    for (size_t from = 0; from < n; from += BLOCK) {
        size_t count = n - from < BLOCK ? n - from : BLOCK;

        for (size_t i = 0; i < 2 * SIDE + count; i++)
            near[i] = sample_or_zero(pcm, n, (ptrdiff_t)(from + i) - (SIDE - 1));
        interpolate_thirds(u, near, count, third, two_thirds);
        for (size_t i = 0; i < count; i++) {
            ret[3 * (from + i)] = pcm[from + i];
            ret[3 * (from + i) + 1] = third[i];
            ret[3 * (from + i) + 2] = two_thirds[i];
        }
    }
}
