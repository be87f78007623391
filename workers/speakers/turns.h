/* workers/speakers/turns.h - turns from the speakers of each frame. A turn lasts from the middle of
 * its first frame to the middle of the first frame in which the speaker is silent again. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_TURNS_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_TURNS_H

#include "base/err.h"
#include "workers/speakers/diarization.h"
#include "workers/speakers/grid.h"

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
