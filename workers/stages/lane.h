/* workers/stages/lane.h - one shard on its way: where its next window begins, and what it has
 * yielded. Part of transcribe.c; engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_LANE_H
#define NIGHTSHIFT_WORKERS_STAGES_LANE_H

#include <stdbool.h>

#include "workers/stages/transcribe.h"
#include "workers/stages/window.h"

enum lane_state {
    LANE_WAITING, /* for audio or a free slot */
    LANE_FLYING,  /* its window is in a slot */
    LANE_ENDED,   /* to be told to the caller */
};

struct lane {
    struct lane *next; /* in the transcriber's list, oldest first */
    enum lane_state state;
    struct lane_source source;
    lane_done done;
    void *done_arg;
    uint64_t seed;
    int64_t begin, seek;  /* samples in the recording */
    int64_t window;       /* samples of the window in flight */
    uint32_t short_moves; /* windows in a row that moved on by less than a second */
    int32_t language;     /* id, -1 unknown */
    float language_prob;
    bool language_given;
    bool spoke; /* some window held speech */
    uint32_t windows;
    struct transcribe_segment *segments; /* owned, texts too */
    uint32_t segment_count, segment_cap;
    int failed; /* 0, or the code in err */
    struct err err;
};

void lane_free(struct lane *l); /* NULL is fine */

/* Reads the window at seek into pcm (room for a whole window). 1: it is there (l->window samples);
 * 0: not decoded yet; the lane may also have ended (state). Windows of digital silence are passed
 * over here, without the model; *passed counts their samples. */
int lane_read(struct lane *l, float *pcm, int64_t *passed);

/* Takes a finished window's result: segments, language, where to go on. */
int lane_take(struct lane *l, const struct window *w, struct err *err);

/* Calls done with the result or the error. */
void lane_tell(struct lane *l, const struct vocabulary *v);

#endif
