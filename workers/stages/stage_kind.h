/* workers/stages/stage_kind.h - one stage behind stage.h: its functions, and the table's entries.
 * Internal to stage.c and stage_*.c. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_STAGE_KIND_H
#define NIGHTSHIFT_WORKERS_STAGES_STAGE_KIND_H

#include "workers/stages/stage.h"

/* Each takes what its `open` has made; the meaning is that of stage.h's function of the name. */
struct stage_kind {
    const char *name;
    int (*open)(const struct stage_setup *setup, struct backend *be, void **ret, struct err *err);
    void (*close)(void *self);
    uint32_t (*slots)(const void *self);
    uint32_t (*windows)(const void *self);
    const struct err *(*lack)(const void *self);
    enum precision (*precision)(const void *self);
    uint64_t (*footprint)(const void *self, const struct backend *be);
    int (*predict)(const struct stage_setup *setup, bool gpu, uint64_t *ret, struct err *err);
    int (*add)(void *self, const struct stage_work *work, stage_done done, void *done_arg,
               struct stage_lane **ret, struct err *err);
    void (*remove)(void *self, struct stage_lane *lane);
    int (*step)(void *self, bool *progress, struct err *err);
    void (*on_beat)(void *self, void (*beat)(void *arg), void *arg);
    void (*stats)(const void *self, uint32_t *lanes, uint32_t *windows, int64_t *samples_done);
};

extern const struct stage_kind stage_transcribe, stage_diarize, stage_sounds, stage_embed_audio,
    stage_embed_text;

#endif
