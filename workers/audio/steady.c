#include "workers/audio/steady.h"

#include <math.h>
#include <stdbool.h>
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

/* ---- noise or speech, by the levels */

/* In half decibels, as the levels. */
#define QUIETEST (2 * 84) /* below full scale: what is quieter is silence */
#define FLOOR_SHARE 0.2   /* of a band's frames are no louder than its floor */
#define STANDS_OUT (2 * 6)
#define MASKED (2 * 30)
#define ONE_SPECTRUM (2 * 4)
#define MANY_SPECTRA (2 * 8)

#define RISEN_FRAMES 6    /* fewer are nobody: a cough, a knock */
#define SPEECH_FRAMES 20  /* a second */
#define SPEECH_PAIRS 3    /* of bands whose difference changes */
#define LASTS 0.22        /* correlation of a frame's level with the next one's, of a whole block */
#define LASTS_MOST 0.35   /* of fewer frames, which correlate by chance */
#define LEAST_TOGETHER 12 /* frames in which both of a pair stand out */

/* How far steady noise comes out of its own floor, by band: the narrower, the further. */
static const int rises[BANDS] = {2 * 3, 2 * 3, 2 * 4, 2 * 4, 2 * 8};

struct counts {
    uint32_t of[2 * BANDS_SILENT + 1], all;
};

static int share_of(const struct counts *c, double share)
{
    uint32_t seen = 0;
    int i = 0;

    while (i < 2 * BANDS_SILENT && (seen += c->of[i]) < share * c->all)
        i++;
    return i;
}

/* Half decibels above QUIETEST. */
static int measure_band_loudness(const uint8_t (*level)[BANDS], size_t f, int band)
{
    return level[f][band] < QUIETEST ? QUIETEST - level[f][band] : 0;
}

/* The least loudness of three frames. */
static int find_lasting_loudness(const uint8_t (*level)[BANDS], size_t f, int band)
{
    const int a = measure_band_loudness(level, f - 1, band),
              b = measure_band_loudness(level, f, band),
              c = measure_band_loudness(level, f + 1, band);
    const int ab = a < b ? a : b;

    return ab < c ? ab : c;
}

static int floor_of(const uint8_t (*level)[BANDS], size_t n, int band)
{
    struct counts c = {.all = (uint32_t)n - 2};

    for (size_t f = 1; f + 1 < n; f++)
        c.of[find_lasting_loudness(level, f, band)]++;
    return share_of(&c, FLOOR_SHARE);
}

/* Far below the loudest band's floor nobody would be heard. */
static uint32_t risen_frames(const uint8_t (*level)[BANDS], size_t n, const int *floors)
{
    uint32_t risen = 0;
    int loudest = 0;

    for (int b = 0; b < BANDS; b++)
        loudest = floors[b] > loudest ? floors[b] : loudest;

    for (size_t f = 1; f + 1 < n; f++) {
        bool any = false;

        for (int b = 0; b < BANDS; b++)
            any |= find_lasting_loudness(level, f, b) > floors[b] + rises[b] &&
                   find_lasting_loudness(level, f, b) > loudest - MASKED;
        risen += any;
    }
    return risen;
}

/* How much the difference of two bands changes while both stand out: half decibels between its 10th
 * and 90th percentile. -1: they hardly ever do. */
static int measure_band_change(const uint8_t (*level)[BANDS], size_t n, const int *floors, int a,
                               int b)
{
    struct counts c = {.all = 0};

    for (size_t f = 0; f < n; f++) {
        const int x = measure_band_loudness(level, f, a), y = measure_band_loudness(level, f, b);

        if (x > floors[a] + STANDS_OUT && y > floors[b] + STANDS_OUT) {
            c.of[x - y + BANDS_SILENT]++;
            c.all++;
        }
    }
    return c.all < LEAST_TOGETHER ? -1 : share_of(&c, 0.9) - share_of(&c, 0.1);
}

/* In crackle a frame says nothing of the next one. */
static bool has_lasting_levels(const uint8_t (*level)[BANDS], size_t n)
{
    const double least = fmin(LASTS_MOST, LASTS * sqrt(STEADY_BLOCK / (double)n));
    bool ret = false;

    for (int b = 0; b < BANDS; b++) {
        double mean = 0, all = 0, next = 0;

        for (size_t f = 0; f < n; f++)
            mean += measure_band_loudness(level, f, b) / (double)n;
        for (size_t f = 0; f < n; f++) {
            const double x = measure_band_loudness(level, f, b) - mean;

            all += x * x;
            if (f + 1 < n)
                next += x * (measure_band_loudness(level, f + 1, b) - mean);
        }
        ret |= next > least * all;
    }
    return ret;
}

enum steady steady_judge(const uint8_t (*level)[BANDS], size_t n)
{
    int floors[BANDS], pairs = 0, many = 0, most = 0;
    uint32_t risen;

    if (n < STEADY_LEAST)
        return STEADY_UNCLEAR;
    for (int b = 0; b < BANDS; b++)
        floors[b] = floor_of(level, n, b);
    risen = risen_frames(level, n, floors);
    for (int a = 0; a < BANDS; a++)
        for (int b = 0; b < a; b++) {
            const int by = measure_band_change(level, n, floors, a, b);

            pairs += by >= 0;
            many += by >= MANY_SPECTRA;
            most = by > most ? by : most;
        }
    if (risen < RISEN_FRAMES || (pairs > 0 && most < ONE_SPECTRUM) || !has_lasting_levels(level, n))
        return STEADY_NOISE;
    return risen >= SPEECH_FRAMES && many >= SPEECH_PAIRS ? STEADY_SPEECH : STEADY_UNCLEAR;
}

/* The frame's samples as they were before somebody made them floating point. */
static void to_16_bits(const float *pcm, int16_t *ret)
{
    for (int i = 0; i < BANDS_FRAME; i++)
        ret[i] = (int16_t)lrintf(fmaxf(-1, fminf(1, pcm[i])) * 32767);
}

/* Is anything to be heard in half of its frames? */
static bool is_audible(const uint8_t (*level)[BANDS], size_t n)
{
    size_t frames = 0;

    for (size_t f = 0; f < n; f++) {
        bool any = false;

        for (int b = 0; b < BANDS; b++)
            any |= level[f][b] < QUIETEST;
        frames += any;
    }
    return 2 * frames >= n;
}

bool steady_noise(const float *pcm, size_t n)
{
    struct bands bands = {0};
    uint8_t level[STEADY_BLOCK][BANDS];
    int16_t frame[BANDS_FRAME];
    size_t count = 0, blocks = 0;

    for (size_t at = 0; at + BANDS_FRAME <= n; at += BANDS_FRAME) {
        to_16_bits(pcm + at, frame);
        bands_feed(&bands, frame, level[count++]);
        if (count < STEADY_BLOCK && at + 2 * BANDS_FRAME <= n)
            continue;
        if (count >= STEADY_LEAST &&
            (!is_audible((const uint8_t(*)[BANDS])level, count) ||
             steady_judge((const uint8_t(*)[BANDS])level, count) != STEADY_NOISE))
            return false;
        blocks += count >= STEADY_LEAST;
        count = 0;
    }
    return blocks > 0;
}
