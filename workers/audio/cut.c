#include "workers/audio/cut.h"

/* One LSB of mean square: below it a frame is silent, and digital silence must not make a threshold
 * of zero that a single flipped bit would break. */
#define FLOOR_ENERGY ((uint64_t)CUT_FRAME_SAMPLES)

/* At most 320 * 2^30, so 39 bits. */
static uint64_t frame_energy(const int16_t *frame)
{
    uint64_t sum = 0;

    for (int i = 0; i < CUT_FRAME_SAMPLES; i++)
        sum += (uint64_t)((int64_t)frame[i] * frame[i]);
    return sum;
}

/* The smallest energy that at least `rank` frames do not exceed, found bit by bit: 40 passes over
 * half a minute of audio cost some milliseconds, and need neither memory nor a bound on n. */
static uint64_t energy_of_rank(const int16_t *pcm, size_t frames, size_t rank)
{
    uint64_t value = 0;

    for (int bit = 39; bit >= 0; bit--) {
        uint64_t candidate = value | (((uint64_t)1 << bit) - 1);
        size_t below = 0;

        for (size_t i = 0; i < frames && below < rank; i++)
            below += frame_energy(pcm + i * CUT_FRAME_SAMPLES) <= candidate;
        if (below < rank)
            value |= (uint64_t)1 << bit;
    }
    return value;
}

int64_t cut_find(const int16_t *pcm, size_t n, int64_t first_sample)
{
    int64_t misaligned = first_sample % CUT_FRAME_SAMPLES;
    size_t lead, frames, best = 0, best_len = 0, run = 0;
    uint64_t quiet;

    if (misaligned < 0)
        misaligned += CUT_FRAME_SAMPLES;
    lead = misaligned ? (size_t)(CUT_FRAME_SAMPLES - misaligned) : 0;
    if (n < lead)
        return first_sample; /* not one multiple of a frame inside */
    frames = (n - lead) / CUT_FRAME_SAMPLES;
    pcm = frames ? pcm + lead : NULL;
    if (frames == 0)
        return first_sample + (int64_t)lead;
    quiet = energy_of_rank(pcm, frames, (frames + 9) / 10);
    quiet = (quiet > FLOOR_ENERGY ? quiet : FLOOR_ENERGY) * 10;
    for (size_t i = 0; i <= frames; i++) {
        if (i < frames && frame_energy(pcm + i * CUT_FRAME_SAMPLES) <= quiet) {
            run++;
            continue;
        }
        if (run > best_len) {
            best_len = run;
            best = i - run;
        }
        run = 0;
    }
    return first_sample + (int64_t)(lead + (best + best_len / 2) * CUT_FRAME_SAMPLES);
}
