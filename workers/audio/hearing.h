/* workers/audio/hearing.h - which of a recording's audio tracks and channels are heard, in words
 * ("mix", "2") and as a value. Pure; any thread.
 *
 * A *source* is heard apart from the rest: a channel of a track, or a track whose channels are
 * mixed. If there are several, they are numbered from 1 on, and source 0 is their mix. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_HEARING_H
#define NIGHTSHIFT_WORKERS_AUDIO_HEARING_H

#include <stdint.h>

#include "base/err.h"

#define HEARING_CHANNELS_MAX 64u
#define HEARING_TRACKS_MAX 32u
#define HEARING_SOURCES_MAX 8u /* apart from the mix */
#define HEARING_ALL UINT32_MAX /* tracks */

/* The words of the options, as a stage's parameters keep them. */
struct hearing_words {
    char channels[8]; /* "mix", "split", "auto", or a channel's number */
    char tracks[96];  /* "best", "all", or audio tracks' numbers, ascending: "1,3" */
};
#define HEARING_USUAL \
    {                 \
        "mix", "best" \
    }
#define HEARING_ASKED  \
    {                  \
        "auto", "best" \
    }

enum hearing_channels {
    HEARING_MIX,   /* to one */
    HEARING_SPLIT, /* each is a source */
    HEARING_AUTO,  /* those are in which different people speak (channels.h), or it is mixed */
};

/* All zeros are the usual one: the best track, mixed. */
struct hearing {
    uint8_t channels; /* enum hearing_channels */
    uint32_t channel; /* the only one that is heard, from 1 on, whatever `channels`; 0: all */
    uint32_t tracks;  /* bit k: the audio track k + 1, in the file's order; 0: the best */
};

/* ERR_USAGE, in words that name the option, unless they are written in their one way: numbers
 * without leading zeros, ascending. */
int hearing_read(const struct hearing_words *w, struct hearing *ret, struct err *err);

#endif
