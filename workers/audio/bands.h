/* workers/audio/bands.h - how loud a channel is in five bands of an octave each, 250 Hz to 8 kHz,
 * in frames of 50 ms, to tell steady noise from speech (steady.h).
 *
 * A chain of half-band filters parts each octave from what lies below it, at twice the rate that it
 * would need, so that a tone between two bands does not beat with its image. A frame's level in a
 * band is that of the second loudest of its five stretches of 10 ms: a click in one stretch does
 * not count, and the pulses of hum and buzz always do. Below 250 Hz nothing is measured: rumble
 * moves there, and no voice is there alone. Pure; one thread for each. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_BANDS_H
#define NIGHTSHIFT_WORKERS_AUDIO_BANDS_H

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

#endif
