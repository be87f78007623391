#include "workers/audio/bands.h"

#include <math.h>
#include <string.h>

#define STRETCHES 5

/* The nonzero taps on one side of a half-band filter of 15 taps (a sinc under a Hann window). */
static const float taps[] = {0.30527f, -0.07313f, 0.01959f, -0.00173f};

/* Splits x into the lower and upper half of its band. apart: samples from one tap to the next; 2 if
 * x has nothing above a quarter of its rate. */
static void split_half_bands(const float *x, int n, int apart, float *low, float *high)
{
    for (int i = 0; i < n; i++) {
        const float *mid = x + i + 7 * apart;
        float around = 0;

        for (int k = 0; k < 4; k++)
            around += taps[k] * (mid[(2 * k + 1) * apart] + mid[-(2 * k + 1) * apart]);
        low[i] = 0.5f * mid[0] + around;
        high[i] = 0.5f * mid[0] - around;
    }
}

static uint8_t level_of(const float *x, int n)
{
    const int each = n / STRETCHES;
    double first = 0, second = 0, db;

    for (int s = 0; s < STRETCHES; s++) {
        double sum = 0;

        for (int i = 0; i < each; i++)
            sum += (double)x[s * each + i] * x[s * each + i];
        if (sum > first) {
            second = first;
            first = sum;
        } else if (sum > second) {
            second = sum;
        }
    }
    db = second > 0 ? -10 * log10(second / each) : BANDS_SILENT;
    return db <= 0 ? 0 : db * 2 >= BANDS_SILENT ? BANDS_SILENT : (uint8_t)lround(db * 2);
}

void bands_feed(struct bands *b, const int16_t *pcm, uint8_t ret[BANDS])
{
    float x[BANDS_HISTORY + BANDS_FRAME], high[BANDS_FRAME], low[BANDS_FRAME];
    int n = BANDS_FRAME;

    for (int i = 0; i < n; i++)
        x[BANDS_HISTORY + i] = (float)pcm[i] / 32768.0f;
    for (int band = 0; band < BANDS; band++) {
        const int apart = band == 0 ? 1 : 2, every = band == 0 ? 1 : 2;

        memcpy(x, b->history[band], sizeof(b->history[band]));
        memcpy(b->history[band], x + n, sizeof(b->history[band]));
        split_half_bands(x + BANDS_HISTORY - 14 * apart, n, apart, low, high);
        ret[band] = level_of(high, n);
        n /= every;
        for (int i = 0; i < n; i++)
            x[BANDS_HISTORY + i] = low[i * every];
    }
}
