/* workers/media/track/track_choice.h - which audio track of a file is heard where nobody asked for
 * one.
 *
 * The container's own choice is heard, unless it has nothing to hear: silence, noise or a tone, or
 * music without speech, while somebody speaks on another track (workers/audio/steady.h, blocks of
 * 10 s). All tracks are decoded for that until somebody speaks on the container's choice, ten
 * minutes at most. The choice depends on the file alone. Inside the decoder process; one thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_TRACK_TRACK_CHOICE_H
#define NIGHTSHIFT_WORKERS_MEDIA_TRACK_TRACK_CHOICE_H

#include "workers/media/open_media.h"

/* in (borrowed) is at its beginning, and is there again afterwards. best: the container's choice
 * among the audio tracks, from 1 on. *ret: the track to hear. A damaged file is no error, and
 * leaves the container's choice; a failure of the machine is one. */
int track_choice(struct stream *in, uint32_t best, struct stream_pulse pulse, uint32_t *ret,
                 struct err *err);

#endif
