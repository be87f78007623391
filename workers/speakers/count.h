/* workers/speakers/count.h - how many speak in each frame of a recording: the mean over the windows
 * that hear the frame, rounded (a half to the even number, as pyannote does). */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_COUNT_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_COUNT_H

#include "workers/speakers/grid.h"

/* active: [windows][frames], bits. ret: [g->total]. most: no frame has more; 0: no bound. */
int count_speakers(const struct grid *g, const uint8_t *active, uint32_t most, uint8_t *ret,
                   struct err *err);

#endif
