#include "workers/models/pyannote/sinc.h"

#include <math.h>
#include <stddef.h>

#define HALF (SINC_WIDTH / 2)
#define LEAST_HZ 50.0f
#define PI 3.14159265358979323846

/* The edges of one band times a time are rounded to float32, as they were when the network was
 * trained: some 390 radians, so that the filters it learned with differ from exact ones by 1e-5. */
static void one_band(float low, float high, float *even, float *odd)
{
    double scale = 2.0 * (double)(high - low);

    for (int i = 0; i < HALF; i++) {
        float t = (float)(2.0 * PI) * ((float)(i - HALF) / (float)SINC_RATE_HZ);
        double from = (double)(low * t), to = (double)(high * t);
        double window = 0.54 - 0.46 * cos(2.0 * PI * i / (SINC_WIDTH - 1));
        double by = window / ((double)t / 2.0) / scale;
        float c = (float)((sin(to) - sin(from)) * by), s = (float)((cos(from) - cos(to)) * by);

        even[i] = even[SINC_WIDTH - 1 - i] = c;
        odd[i] = s;
        odd[SINC_WIDTH - 1 - i] = -s;
    }
    even[HALF] = 1.0f;
    odd[HALF] = 0.0f;
}

void sinc_filters(const float *low, const float *band, uint32_t n, float *ret)
{
    for (uint32_t i = 0; i < n; i++) {
        float from = LEAST_HZ + fabsf(low[i]), to = from + LEAST_HZ + fabsf(band[i]);

        if (to > SINC_RATE_HZ / 2.0f)
            to = SINC_RATE_HZ / 2.0f;
        one_band(from, to, ret + (size_t)i * SINC_WIDTH, ret + (size_t)(n + i) * SINC_WIDTH);
    }
}
