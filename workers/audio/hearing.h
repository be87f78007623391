/* workers/audio/hearing.h - which of a recording's audio tracks and channels are heard, in words
 * ("mix", "2") and as a value. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_HEARING_H
#define NIGHTSHIFT_WORKERS_AUDIO_HEARING_H

#include <stdint.h>

#include "base/err.h"

#define HEARING_CHANNELS_MAX 64u
#define HEARING_TRACKS_MAX 32u

/* As they are said, and kept in a stage's parameters. */
struct hearing_words {
    char channels[8]; /* "mix", or a channel's number */
    char tracks[8];   /* "best", or an audio track's number */
};
#define HEARING_USUAL \
    {                 \
        "mix", "best" \
    }

/* Numbers begin with 1. All zeros are the usual one: the best track, mixed. */
struct hearing {
    uint32_t channel; /* 0: all, mixed to one */
    uint32_t track;   /* among the audio tracks, in the file's order; 0: the best */
};

/* ERR_USAGE, in words that name the option, unless they are written in their one way: a number
 * without leading zeros. */
int hearing_read(const struct hearing_words *w, struct hearing *ret, struct err *err);

#endif
