/* workers/speakers/grid.h - the frames of a whole recording, and where a window's frames lie among
 * them: each begins at the frame nearest to its beginning. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_GRID_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_GRID_H

#include <stdint.h>

#include "base/err.h"
#include "workers/speakers/diarization.h"

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

#endif
