/* workers/audio/channels.h - do a recording's channels hold different speech, one microphone each,
 * or one sound? Then the voices are freed of each other (crosstalk), or the mix of its noises
 * (noise gate).
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
 * tests/unit/audio/test_channel_rooms.c, docs/measurements.md. Pure; one thread for each struct. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_CHANNELS_H
#define NIGHTSHIFT_WORKERS_AUDIO_CHANNELS_H

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
 * audio is not considered: the noise gate listens on. */
uint32_t channel_choice_noises(const struct channel_choice *c);
/* The 95th percentile of a channel's level: dB below full scale. */
uint8_t channel_choice_loud(const struct channel_choice *c, uint32_t channel);
/* The level of n samples: dB below full scale, 0 to 120. */
uint8_t channel_level(const int16_t *pcm, size_t n);
/* The same of a mean square, where full scale is 1. */
uint8_t channel_level_of(double mean_square);
#define CHANNEL_QUIET_DB 55 /* what is softer is silence */

/* ---- crosstalk: removes the voice of somebody who speaks into another microphone, or it would be
 * transcribed twice, as two people.
 *
 * In frames of 50 ms a channel is silenced where it is at least 12 dB further below its own
 * loudness (channel_choice_loud) than another channel of the same track, or more than 30 dB below
 * it; not within 100 ms of a frame where it is neither. People who speak at the same time are
 * heard: both are near their own loudness then. A frame's output depends on it and on two frames on
 * either side. */

#define CROSSTALK_AHEAD 2u /* frames behind the one that is given */

struct crosstalk { /* zeroed but for the first two */
    uint32_t channels;
    uint8_t loud[HEARING_SOURCES_MAX]; /* of each, as of channel_choice_loud */
    uint32_t seen, given;              /* frames */
    uint8_t open[2 * CROSSTALK_AHEAD + 1];
    uint8_t last; /* bit i: channel i was open in the frame that was given last */
};

/* The next frame, of n samples: all but a recording's last are whole. */
void crosstalk_look(struct crosstalk *c, const int16_t *const *pcm, size_t n);
/* The same frame, once CROSSTALK_AHEAD more were looked at, or no more come: silences in place. */
void crosstalk_take_out(struct crosstalk *c, int16_t *const *pcm, size_t n);

/* ---- noise gate: the mix of a track of which some channels are noise
 * (channel_choice_noises): without them, but where one turns out to have something else.
 *
 * The beginning of a recording decides whether a channel is noise, and somebody may come to its
 * microphone later. The gate therefore listens on: a noise is mixed in, as every other channel, in
 * blocks of 10 s that are no noise (steady.h) and in the blocks before and behind them. A frame's
 * output depends on it and on at most two blocks on either side. */

struct noise_gate;

/* noises: bit i: channel i is one; not all of them. */
int noise_gate_new(uint32_t channels, uint32_t noises, struct noise_gate **ret, struct err *err);
void noise_gate_free(struct noise_gate *g); /* NULL is fine */
/* The next frame: pcm[channel] points to CHANNEL_FRAME samples. */
void noise_gate_look(struct noise_gate *g, const int16_t *const *pcm);
/* No more frames come. */
void noise_gate_end(struct noise_gate *g);
/* Can the next frame be mixed? It was looked at, and enough behind it; after the end: always. */
bool noise_gate_ready(const struct noise_gate *g);
/* The next frame that is ready, of n samples: all but a recording's last are whole. */
void noise_gate_mix(struct noise_gate *g, const int16_t *const *pcm, size_t n, int16_t *ret);

#endif
