#include "store/register/likeness.h"

#include <math.h>
#include <string.h>

/* diarization-nano, on made voices of the development set: what the share is at most, with a
 * certainty of 95 % if pairs were independent (docs/measurements.md). Its encoder is the former's,
 * but whose voice that hears is the segmentation's business. */
static const struct likeness_step nano[] = {
    {0.70, 7.6e-3}, {0.75, 4.1e-3}, {0.80, 2.0e-3}, {0.85, 9.9e-4}, {0.90, 1.1e-4},
};
/* The weights before, whose voices lie in catalogs. */
static const struct likeness_step former_nano[] = {
    {0.70, 6.9e-3}, {0.75, 3.5e-3}, {0.80, 1.7e-3}, {0.85, 8.3e-4}, {0.90, 1.7e-4}, {0.95, 1.1e-4},
};

#define STEPS(list) list, sizeof(list) / sizeof((list)[0])
const struct likeness_measure likeness_measures[] = {
    {"4cbe1c743515dea213b75e5745a9ad46", STEPS(nano)},
    {"90185ddfb5f2738234c175335467a5c1", STEPS(former_nano)},
};
const size_t likeness_measures_count = sizeof(likeness_measures) / sizeof(likeness_measures[0]);

const struct likeness_measure *likeness_measure_of(const char *model_hash)
{
    for (size_t i = 0; i < likeness_measures_count; i++)
        if (strcmp(likeness_measures[i].model_hash, model_hash) == 0)
            return &likeness_measures[i];
    return NULL;
}

static double find_likeness_threshold(const struct likeness_measure *m, size_t among)
{
    for (size_t i = 0; i < m->count; i++)
        if ((double)among * m->steps[i].wrong <= LIKENESS_DOUBT)
            return m->steps[i].from;
    return INFINITY;
}

double likeness_name_from(const struct likeness_measure *m, size_t among)
{
    return m ? find_likeness_threshold(m, among) : LIKENESS_UNMEASURED;
}

double likeness_group_from(const struct likeness_measure *m, size_t among)
{
    return m ? find_likeness_threshold(m, among) : INFINITY;
}

/* In a fixed order, whatever the processor has: groups must not depend on it. Lanes of their own
 * let the compiler take several at once. */
#define LANES 16

double likeness_product(const float *a, const float *b, size_t n)
{
    float lanes[LANES] = {0};
    double sum = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum += (double)a[i] * b[i];
    for (size_t k = 0; k < LANES; k++)
        sum += (double)lanes[k];
    return sum;
}

int likeness_unit(float *vector, size_t n)
{
    double length = 0;

    for (size_t i = 0; i < n; i++)
        length += (double)vector[i] * vector[i];
    length = sqrt(length);
    if (!isfinite(length) || length < 1e-30)
        return -1;
    for (size_t i = 0; i < n; i++)
        vector[i] = (float)(vector[i] / length);
    return 0;
}
