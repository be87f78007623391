/* workers/audio/channel_choice.h - do a recording's channels hold different speech, one microphone
 * each, or one sound?
 *
 * Looked at are the levels of all channels in frames of 50 ms. A channel is a *voice* when
 *  - it is loud enough: its 95th percentile is above -55 dBFS, and at most 35 dB below the loudest
 *    channel's; and its level moves as speech does, and hum does not: 12 dB between its 10th and
 * 95th percentile;
 *  - it leads: for 3 s and for 2 % of the time in which there is sound, its level is at least 12 dB
 *    above that of every other such channel, each measured by its own 95th percentile, so that a
 *    microphone which was turned down is none the less one.
 *  - or it never leads, but has speech (steady.h), is loud for 3 s, and has nothing of any other
 *    voice by the signs below: somebody speaks over it all the time.
 * A channel of noise beside one with speech is no voice. Channels hold different speech when two of
 * them at least are voices, and no two of these are one sound, by any of three signs:
 *  - they correlate by 0.6 or more at lag 0, all in all: dual mono, a panned voice;
 *  - in 6 % of the frames with sound they correlate by 0.8, each within 15 dB of its 95th
 * percentile and within 12 dB of the other: somebody stands in the middle, whatever plays to the
 * sides;
 *  - their levels correlate by 0.75, the one up to half a second later: one sound that is delayed,
 * and a room before a pair of microphones. In a room, and beside a silent channel, nobody leads, or
 * one alone. Made recordings of many shapes, and how often each is taken for another:
 * tests/unit/audio/test_channel_rooms.c, docs/measurements.md. Pure; one thread for each. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_CHANNEL_CHOICE_H
#define NIGHTSHIFT_WORKERS_AUDIO_CHANNEL_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/audio/hearing.h"

#define CHANNEL_FRAME 800 /* samples at 16 kHz */

/* Looked at is the beginning: until there were two minutes of sound, at most ten minutes. */
#define CHANNEL_SOUND_FRAMES (120 * 20)
#define CHANNEL_FRAMES_MAX (600 * 20)

struct channel_choice;

/* channels: 2 to HEARING_SOURCES_MAX. */
int channel_choice_new(uint32_t channels, struct channel_choice **ret, struct err *err);
void channel_choice_free(struct channel_choice *c); /* NULL is fine */
/* The next frame: pcm[channel] points to CHANNEL_FRAME samples. Ignored once enough was seen. */
void channel_choice_feed(struct channel_choice *c, const int16_t *const *pcm);
bool channel_choice_has_enough(const struct channel_choice *c);
/* Bit i: channel i is a voice of its own; 0: they are to be mixed. Never one bit alone. */
uint32_t channel_choice_voices(const struct channel_choice *c);
/* Bit i: channel i is to be left out of the mix, for it is noise, hum, tones, clicks or time code
 * while somebody speaks in another; never all of them, and none that would do no harm there. Later
 * audio is not considered: noise_gate.h listens on. */
uint32_t channel_choice_noises(const struct channel_choice *c);
/* The 95th percentile of a channel's level: dB below full scale. */
uint8_t channel_choice_loud(const struct channel_choice *c, uint32_t channel);
/* The level of n samples: dB below full scale, 0 to 120. */
uint8_t channel_level(const int16_t *pcm, size_t n);
/* The same of a mean square, where full scale is 1. */
uint8_t channel_level_of(double mean_square);
#define CHANNEL_QUIET_DB 55 /* what is softer is silence */

#endif
