/* workers/audio/steady.h - can a stretch of a channel hold a voice, by its levels in bands
 * (bands.h)?
 *
 * A voice rises above its surroundings for 150 ms and longer, and its spectrum changes meanwhile.
 * Hum, hiss, tones, carriers and time code do not rise; clicks are shorter; switched or beating
 * sounds have one spectrum. In doubt the answer is STEADY_UNCLEAR: music, wind and a voice that
 * hardly rises out of noise are that, or STEADY_SPEECH. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_STEADY_H
#define NIGHTSHIFT_WORKERS_AUDIO_STEADY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workers/audio/bands.h"

#define STEADY_BLOCK 200 /* frames that are judged together: 10 s */
#define STEADY_LEAST 30  /* fewer are always unclear */

enum steady {
    STEADY_UNCLEAR,
    STEADY_NOISE, /* nobody speaks there */
    STEADY_SPEECH,
};

/* n: at most 2 * STEADY_BLOCK. */
enum steady steady_judge(const uint8_t (*level)[BANDS], size_t n);
/* Whether every block of n samples at 16 kHz in [-1, 1] is audible noise. A shorter rest at the end
 * is not judged. */
bool steady_noise(const float *pcm, size_t n);

#endif
