#include "workers/audio/crosstalk.h"

#include <stdbool.h>

#define APART_DB 12
#define FAINT_DB 30      /* below its own loudness: nobody speaks into it */
#define RAMP_SAMPLES 80u /* 5 ms */
#define KEPT (2 * CROSSTALK_AHEAD + 1)

void crosstalk_look(struct crosstalk *c, const int16_t *const *pcm, size_t n)
{
    int below[HEARING_SOURCES_MAX], least = 255;
    uint8_t open = 0;

    for (uint32_t i = 0; i < c->channels; i++) {
        below[i] = (int)channel_level(pcm[i], n) - c->loud[i];
        least = below[i] < least ? below[i] : least;
    }
    for (uint32_t i = 0; i < c->channels; i++)
        if (below[i] <= FAINT_DB && below[i] - least < APART_DB)
            open |= (uint8_t)(1u << i);
    c->open[c->seen++ % KEPT] = open;
}

/* Bits of the channels that are open in the next frame. */
static uint8_t open_now(const struct crosstalk *c)
{
    uint32_t from = c->given < CROSSTALK_AHEAD ? 0 : c->given - CROSSTALK_AHEAD;
    uint32_t to = c->given + CROSSTALK_AHEAD + 1;
    uint8_t open = 0;

    for (uint32_t f = from; f < to && f < c->seen; f++)
        open |= c->open[f % KEPT];
    return open;
}

static void fade_samples(int16_t *pcm, size_t n, bool was, bool is)
{
    for (size_t i = 0; i < n && (!is || i < RAMP_SAMPLES); i++) {
        int32_t gain = i >= RAMP_SAMPLES ? 0 : (int32_t)(is ? i : RAMP_SAMPLES - i);

        pcm[i] = was || is ? (int16_t)(pcm[i] * gain / (int32_t)RAMP_SAMPLES) : 0;
    }
}

void crosstalk_take_out(struct crosstalk *c, int16_t *const *pcm, size_t n)
{
    const uint8_t open = open_now(c), last = c->given ? c->last : open;

    for (uint32_t i = 0; i < c->channels; i++) {
        bool was = last >> i & 1, is = open >> i & 1;

        if (!was || !is)
            fade_samples(pcm[i], n, was, is);
    }
    c->last = open;
    c->given++;
}
