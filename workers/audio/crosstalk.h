/* workers/audio/crosstalk.h - removes the voice of somebody who speaks into another microphone:
 * else it would be transcribed twice, as two people.
 *
 * In frames of 50 ms a channel is silenced where it is at least 12 dB further below its own
 * loudness (channel_choice.h) than another channel of the same track, or more than 30 dB below it;
 * not within 100 ms of a frame where it is neither. People who speak at the same time are heard:
 * both are near their own loudness then. A frame's output depends on it and on two frames on either
 * side. Pure; one thread for each. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_CROSSTALK_H
#define NIGHTSHIFT_WORKERS_AUDIO_CROSSTALK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/audio/channel_choice.h"

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

#endif
