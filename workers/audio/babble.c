#include "workers/audio/babble.h"

#include <math.h>
#include <stdint.h>

#define RATE 16000.0
#define PI 3.14159265358979323846
#define VOICES 3
#define TURN_S 2.7 /* of which PAUSE_S at its end are silent */
#define PAUSE_S 0.3
#define SYLLABLE_S 0.19
#define HISS_S 0.05 /* at the beginning of every other syllable */
#define FORMANTS 3
#define LEVEL 0.006

static const double pitches_hz[VOICES] = {105.0, 150.0, 215.0};
static const double tracts[VOICES] = {1.0, 1.08, 1.18}; /* formants of shorter ones lie higher */
static const double widths_hz[FORMANTS] = {80.0, 100.0, 140.0};
static const double vowels_hz[][FORMANTS] = {
    {730, 1090, 2440}, {270, 2290, 3010}, {570, 840, 2410}, {530, 1840, 2480}, {300, 870, 2240},
};

struct resonator {
    double a, b, c; /* y = a x + b y' + c y'' */
    double y1, y2;
};

static void tune_resonator(struct resonator *r, double hz, double width_hz)
{
    double radius = exp(-PI * width_hz / RATE);

    r->c = -radius * radius;
    r->b = 2.0 * radius * cos(2.0 * PI * hz / RATE);
    r->a = 1.0 - r->b - r->c;
}

static double filter_resonator(struct resonator *r, double x)
{
    double y = r->a * x + r->b * r->y1 + r->c * r->y2;

    r->y2 = r->y1;
    r->y1 = y;
    return y;
}

static double draw_noise_sample(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (double)(*seed >> 8) / 8388608.0 - 1.0;
}

/* The sound at its source: a pulse each period, and breath. */
static double make_glottal_sample(double *phase, double hz, double breath)
{
    *phase += hz / RATE;
    if (*phase < 1.0)
        return breath;
    *phase -= 1.0;
    return RATE / hz + breath;
}

void babble_fill(float *out, size_t n)
{
    struct resonator tract[FORMANTS] = {0};
    double phase = 0.0;
    uint32_t seed = 1;

    for (size_t i = 0; i < n; i++) {
        double t = (double)i / RATE, turn = fmod(t, TURN_S), within = fmod(turn, SYLLABLE_S);
        unsigned voice = (unsigned)(t / TURN_S) % VOICES, syllable = (unsigned)(t / SYLLABLE_S);
        double loud = sin(PI * within / SYLLABLE_S), x = 0.05 * draw_noise_sample(&seed);

        if (i % 16 == 0)
            for (int f = 0; f < FORMANTS; f++)
                tune_resonator(&tract[f], vowels_hz[syllable % 5][f] * tracts[voice], widths_hz[f]);
        x = make_glottal_sample(&phase,
                                pitches_hz[voice] * (1.1 - 0.08 * turn + 0.04 * sin(4.0 * t)), x);
        for (int f = 0; f < FORMANTS; f++)
            x = filter_resonator(&tract[f], x);
        x = x * LEVEL * (0.3 + loud);
        if (syllable % 2 && within < HISS_S)
            x = 0.03 * draw_noise_sample(&seed);
        if (turn > TURN_S - PAUSE_S)
            x = 0.0005 * draw_noise_sample(&seed);
        out[i] = (float)fmax(-1.0, fmin(1.0, x));
    }
}
