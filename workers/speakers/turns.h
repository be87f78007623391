/* workers/speakers/turns.h - turns from the clusters of local speakers: the frames of the whole
 * recording, who speaks in each of them, and turns. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_TURNS_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_TURNS_H

#include "base/err.h"
#include "workers/speakers/diarization.h"

/* ---- the frames of a whole recording
 *
 * A window's frames begin at the frame nearest to the window's beginning. */

#define GRID_MAX_FRAMES 1000000000u /* half a year */

struct grid {
    uint32_t total; /* frames of the recording; the last windows may end after it does */
    uint32_t window_frames;
    uint32_t windows;
    double frames_per_step;
};

/* ERR_INPUT: sizes or times that are impossible (all of diarize_input's numbers are looked at). */
int grid_of(const struct diarize_input *in, struct grid *ret, struct err *err);

uint32_t grid_start(const struct grid *g, uint32_t window); /* its first frame */
/* Frames [start, end) of a window, those that the recording has. */
uint32_t grid_end(const struct grid *g, uint32_t window);

/* ---- who speaks in each frame of a recording, one frame after the other.
 *
 * A cluster's score in a frame is the number of windows that hear one of its local speakers there;
 * the clusters with the highest scores speak, and the lower of equal ones. If more speakers are
 * counted than clusters are heard, the lowest other clusters are taken, too (pyannote also trusts
 * the count). */

struct frames; /* owned: frames_free; borrows what it was made from */

/* clusters: [windows][speakers], negative for none, below `most`. */
int frames_new(const struct diarize_input *in, const struct grid *g, const int32_t *clusters,
               uint32_t most, struct frames **ret, struct err *err);
void frames_free(struct frames *f); /* NULL is fine */

/* The `count` (at most `most`) clusters that speak in the next frame, ascending; valid until the
 * next call. Called once for each frame. */
const uint32_t *frames_next(struct frames *f, uint32_t count);

/* ---- turns
 *
 * A turn lasts from the middle of its first frame to the middle of the first frame in which the
 * speaker is silent again. */

struct turns {                 /* owned: turns_free */
    struct diarize_turn *list; /* by start, then speaker: the cluster */
    uint32_t count, capacity;
};

/* clusters: [windows][speakers], negative for none, below `most`. count: [g->total], none above
 * `most`. min_off_s: shorter gaps in a speaker's turns are closed. Nothing is later than the
 * recording's end. */
int turns_find(const struct diarize_input *in, const struct grid *g, const int32_t *clusters,
               const uint8_t *count, uint32_t most, double min_off_s, struct turns *ret,
               struct err *err);
void turns_free(struct turns *t); /* back to {0} */

#endif
