/* workers/audio/steady.h - tells steady noise from speech, by how loud a channel is in five bands
 * of an octave each, 250 Hz to 8 kHz, in frames of 50 ms.
 *
 * A voice rises above its surroundings for 150 ms and longer, and its spectrum changes meanwhile.
 * Hum, hiss, tones, carriers and time code do not rise; clicks are shorter; switched or beating
 * sounds have one spectrum. In doubt the answer is STEADY_UNCLEAR: music, wind and a voice that
 * hardly rises out of noise are that, or STEADY_SPEECH.
 *
 * A chain of half-band filters parts each octave from what lies below it, at twice the rate that it
 * would need, so that a tone between two bands does not beat with its image. A frame's level in a
 * band is that of the second loudest of its five stretches of 10 ms: a click in one stretch does
 * not count, and the pulses of hum and buzz always do. Below 250 Hz nothing is measured: rumble
 * moves there, and no voice is there alone. Pure; one thread for each struct. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_STEADY_H
#define NIGHTSHIFT_WORKERS_AUDIO_STEADY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BANDS 5
#define BANDS_FRAME 800  /* samples at 16 kHz */
#define BANDS_HISTORY 28 /* samples that a filter looks back */
#define BANDS_SILENT 240

struct bands { /* zeroed: silence before */
    float history[BANDS][BANDS_HISTORY];
};

/* Half decibels below full scale, 0 to BANDS_SILENT; ret[0] is 4 to 8 kHz, the last 250 to 500 Hz.
 */
void bands_feed(struct bands *b, const int16_t *pcm, uint8_t ret[BANDS]);

#define STEADY_BLOCK 200 /* frames that are judged together: 10 s */
#define STEADY_LEAST 30  /* fewer are always unclear */

enum steady {
    STEADY_UNCLEAR,
    STEADY_NOISE, /* nobody speaks there */
    STEADY_SPEECH,
};

/* Can these n frames hold a voice? n: at most 2 * STEADY_BLOCK. */
enum steady steady_judge(const uint8_t (*level)[BANDS], size_t n);
/* Whether every block of n samples at 16 kHz in [-1, 1] is audible noise. A shorter rest at the end
 * is not judged. */
bool steady_noise(const float *pcm, size_t n);

#endif
