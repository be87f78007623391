/* workers/media/track/sources.h - the tracks and channels of one recording that are heard apart,
 * put side by side: sample by sample the mix of all, and then each source
 * (workers/audio/hearing.h).
 *
 * A channel of noise is left out of its track's mix (channels.h), which comes up to 20 s later for
 * it. A track's audio is kept until its sources are chosen (at most ten minutes, and a minute more
 * for a track that has stopped), and until the other tracks have come as far. All tracks begin at
 * the same instant; the caller reports where a track is silent (sources_silence). A track that ends
 * early is followed by silence. One that lags by more than a minute in the file gets silence at
 * once, in place of the silence that is reported for it later. All of that depends on the file
 * alone. One thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_TRACK_SOURCES_H
#define NIGHTSHIFT_WORKERS_MEDIA_TRACK_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/audio/hearing.h"

#define SOURCES_TRACKS_MAX HEARING_SOURCES_MAX

struct sources;

/* n frames of sources_stride() samples; valid during the call. */
typedef int (*sources_sink)(void *arg, const int16_t *pcm, size_t n, struct err *err);

struct sources_one {
    uint32_t track;   /* 0 ... */
    uint32_t channel; /* from 1 on; 0: the track's channels are mixed */
};

/* how: HEARING_MIX, HEARING_SPLIT or HEARING_AUTO. */
int sources_new(uint32_t tracks, uint8_t how, sources_sink sink, void *arg, struct sources **ret,
                struct err *err);
void sources_free(struct sources *s); /* NULL is fine */

/* Before a track's first samples. channels: that may be heard apart, at most HEARING_SOURCES_MAX;
 * 0: it is mixed in any case. scene: its channels are mixed, but for those that are noise. */
int sources_begin(struct sources *s, uint32_t track, uint32_t channels, bool scene,
                  struct err *err);
/* Does it still want the track's channels? */
bool sources_wants_channels(const struct sources *s, uint32_t track);
/* Its channels mixed; its channels interleaved. Both of the same stretches, in any order. */
int sources_mix(struct sources *s, uint32_t track, const int16_t *pcm, size_t n, struct err *err);
int sources_channels(struct sources *s, uint32_t track, const int16_t *pcm, size_t n,
                     struct err *err);
/* Adds n samples of silence, of any length, to a track: to its channels and their mix. */
int sources_silence(struct sources *s, uint32_t track, int64_t n, struct err *err);
/* The file has ended: gives the rest. */
int sources_end(struct sources *s, struct err *err);

/* The number of sources, known once anything was given, or after the end: 0 if only the mix is
 * heard. */
uint32_t sources_count(const struct sources *s, const struct sources_one **ret);
/* Bit i: channel i + 1 of a track is in its mix: all of them, but for noises. */
uint64_t sources_mixed(const struct sources *s, uint32_t track);
uint32_t sources_stride(const struct sources *s); /* 1, or one more than there are sources */

#endif
