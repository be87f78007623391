/* workers/speakers/frames.h - who speaks in each frame of a recording, one frame after the other.
 *
 * A cluster's score in a frame is the number of windows that hear one of its local speakers there;
 * the clusters with the highest scores speak, and the lower of equal ones. If more speakers are
 * counted than clusters are heard, the lowest other clusters are taken, too (pyannote also trusts
 * the count). */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_FRAMES_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_FRAMES_H

#include "base/err.h"
#include "workers/speakers/diarization.h"
#include "workers/speakers/grid.h"

struct frames; /* owned: frames_free; borrows what it was made from */

/* clusters: [windows][speakers], negative for none, below `most`. */
int frames_new(const struct diarize_input *in, const struct grid *g, const int32_t *clusters,
               uint32_t most, struct frames **ret, struct err *err);
void frames_free(struct frames *f); /* NULL is fine */

/* The `count` (at most `most`) clusters that speak in the next frame, ascending; valid until the
 * next call. Called once for each frame. */
const uint32_t *frames_next(struct frames *f, uint32_t count);

#endif
