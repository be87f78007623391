/* workers/stages/windowed.h - lanes of windows of a fixed length on a fixed grid: what diarization,
 * sounds and sound embeddings share.
 *
 * The grid begins with the recording: window k hears [k * hop, k * hop + window). Window 0 always
 * exists; window k > 0 exists exactly when the recording is longer than (k - 1) * hop + window, so
 * that every sample is heard and no window hears nothing new. The last one may be longer than what
 * is left: zeros follow. A window belongs to the lane whose shard holds its first sample, and may
 * hear audio of the next shard. So what a window yields depends on neither shards nor lanes nor
 * batches, and the shards of a recording have each window exactly once.
 *
 *   waiting for audio --> taken into a call of `run` --> given to the lane's state, in order
 *          ^                        | ERR_VRAM: half as many at once, heard again
 *          '------------------------'
 *
 * Engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_WINDOWED_H
#define NIGHTSHIFT_WORKERS_STAGES_WINDOWED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/stages/stage.h"

/* A window, or in a joined plan a stretch of consecutive ones. */
struct windowed_item {
    void *state;      /* of its lane */
    int64_t first;    /* k of the first window */
    uint32_t windows; /* 1, or more in a joined plan */
    int64_t samples;  /* of real audio; */
    const float *pcm; /*   zeros follow it up to (windows - 1) * hop + window; borrowed */
};

/* How the windows of a stage lie, and what is done with them. Copied by windowed_new. */
struct windowed_plan {
    const char *what;    /* "voices": for people */
    int64_t window, hop; /* samples; 0 < hop <= window */
    /* Consecutive windows of a lane are one stretch of audio, and a call takes one stretch: for
     * models that cut it themselves. Else a call takes windows of many lanes, in one piece of
     * memory from items[0].pcm on: those of one lane as they lie in the recording, each `hop`
     * behind the one before it, and of the next lane behind the end of them. */
    bool joined;
    size_t state_bytes; /* of a lane's own state, zeroed at first */
    /* Computes `n` items and adds what they yield to their states. ERR_VRAM: nothing was added, and
     * it is called again with less. ERR_INPUT, ERR_LIMIT: nothing was added; of several items each
     * is tried alone, and the lane of one alone is told so. Any other error ends the stage. */
    int (*run)(void *arg, const struct windowed_item *items, uint32_t n, struct err *err);
    /* The lane's windows are all there: fills in what its stage makes (ret->windows and the end are
     * filled in already). `end`: of the last window's audio. */
    int (*finish)(void *arg, void *state, struct stage_result *ret, struct err *err);
    void (*drop)(void *arg, void *state); /* what a state owns */
    void *arg;
};

struct windowed;

/* batch: windows that a call takes at most, 1 or more. */
int windowed_new(const struct windowed_plan *plan, uint32_t batch, struct windowed **ret,
                 struct err *err);
void windowed_free(struct windowed *w); /* NULL is fine; drops lanes without calling them */

/* Like stage.h's functions of these names. */
uint32_t windowed_batch(const struct windowed *w);
const struct err *windowed_lack(const struct windowed *w);
int windowed_add(struct windowed *w, const struct stage_work *work, stage_done done, void *done_arg,
                 struct stage_lane **ret, struct err *err);
void windowed_remove(struct windowed *w, struct stage_lane *lane);
int windowed_step(struct windowed *w, bool *progress, struct err *err);
void windowed_on_beat(struct windowed *w, void (*beat)(void *arg), void *arg);
void windowed_stats(const struct windowed *w, uint32_t *lanes, uint32_t *windows,
                    int64_t *samples_done);

/* The first window that begins at or after a sample. */
int64_t windowed_first(const struct windowed_plan *plan, int64_t sample);

/* The functions of stage_kind.h that all stages of windows share. self: a structure whose first
 * member is its `struct windowed *`. */
uint32_t windowed_stage_slots(const void *self);
const struct err *windowed_stage_lack(const void *self);
enum precision windowed_stage_f32(const void *self);
int windowed_stage_add(void *self, const struct stage_work *work, stage_done done, void *done_arg,
                       struct stage_lane **ret, struct err *err);
void windowed_stage_remove(void *self, struct stage_lane *lane);
int windowed_stage_step(void *self, bool *progress, struct err *err);
void windowed_stage_on_beat(void *self, void (*beat)(void *arg), void *arg);
void windowed_stage_stats(const void *self, uint32_t *lanes, uint32_t *windows,
                          int64_t *samples_done);
#define WINDOWED_STAGE                                                                           \
    .slots = windowed_stage_slots, .windows = windowed_stage_slots, .lack = windowed_stage_lack, \
    .add = windowed_stage_add, .remove = windowed_stage_remove, .step = windowed_stage_step,     \
    .on_beat = windowed_stage_on_beat, .stats = windowed_stage_stats

#endif
