/* workers/stages/stage_kind.h - what a stage is, in one descriptor: what is known of it without a
 * model, for the command line, the scheduler's helpers and the finalizer; how people ask for it;
 * and its functions behind stage.h. A stage is its stage_*.c and its row in STAGE_KINDS. Constant;
 * any thread. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_STAGE_KIND_H
#define NIGHTSHIFT_WORKERS_STAGES_STAGE_KIND_H

#include "workers/models/files/model_dir.h"
#include "workers/stages/param_table.h"
#include "workers/stages/stage.h"

/* All stages; the first is the one of a model that names no other. */
#define STAGE_KINDS(row) row(transcribe) row(diarize) row(sounds) row(embed_text) row(embed_audio)

struct stage_kind {
    const char *name;
    const struct param_table *params;
    bool hears; /* false: works on the passages of a transcription, which its parameter "source"
                   names; nothing is decoded */
    bool apart; /* hears each source of a recording by itself; else their mix */
    bool few_windows; /* in a shard, each in a slot of its own; else hundreds, and a few lanes fill
                         every call */
    bool finalizes;   /* its recordings are finalized as a whole in the end */
    int64_t tail;     /* samples after a shard's end that its windows may hear */
    int64_t hop;      /* samples: a measurement hears a multiple of it; 0: ten seconds */
    struct stage_cost {  /* for plans: seconds for an hour of sound, with a model of published size
                          */
        double h200_s;   /* of that card; a transcription's and */
        double core_s;   /*   of a core that computes it are reckoned by its model: 0 */
        double thread_s; /* of the processor, in its thread beside a GPU */
    } cost;
    uint32_t (*bytes_per_s)(const char *params);   /* as stage_bytes_per_s; NULL: 0 */
    uint32_t (*passage_chars)(const char *params); /* where it does not hear: of a passage, about */

    /* Its models. */
    const char *const *model_types;    /* in their config.json; NULL-terminated */
    bool (*is_model)(const char *dir); /* a folder that says it otherwise; NULL: there are none */
    const struct model_file *files;    /* NULL: model_dir_hash's */
    size_t file_count;
    bool weights; /* beside the files those of weight_layout.h */
    /* Whether its weights are there and as long as they claim to be, by their headers. ERR_MODEL.
       NULL: those of weight_layout.h are all. */
    int (*whole)(const char *dir, struct err *err);

    /* The stage in commands and messages. */
    const char *option;   /* "diarize": --diarize[=MODEL] */
    const char *help;     /* of that option; NULL: it is done unless it is left out */
    const char *manual;   /* as a parameter's */
    const char *doing;    /* "to diarize" */
    const char *model;    /* the user's own where none is named: a name, or a Hub id */
    const char *hub;      /* what `model pull` brings, taken where that one is not; NULL: it is no
                             option that may go without a name */
    const char *embedded; /* comes with the program, for the demo; taken when it is named alone */
    const char *told_by;  /* "the catalog's speakers were found by": an earlier model */
    const char *no_model; /* "it has neither ...": why a folder of the user's own is none; NULL: it
                             has no config.json */

    /* Each takes what its `open` has made; the meaning is that of stage.h's function of the name.
     */
    int (*open)(const struct stage_setup *setup, struct backend *be, void **ret, struct err *err);
    /* A synthetic load of its networks, for measurements (stages/synthetic_load.h); NULL: the stage
     * itself is measured, on made-up sound and text. */
    int (*synthetic_load)(const struct stage_setup *setup, struct backend *be, struct stage **ret,
                          struct err *err);
    void (*close)(void *self);
    uint32_t (*slots)(const void *self);
    uint32_t (*windows)(const void *self);
    const struct err *(*lack)(const void *self);
    enum precision (*precision)(const void *self);
    enum cache_precision (*cache)(const void *self); /* NULL: keeps no windows' keys and values */
    uint64_t (*footprint)(const void *self, const struct backend *be);
    int (*predict)(const struct stage_setup *setup, bool gpu, uint64_t *ret, struct err *err);
    int (*add)(void *self, const struct stage_work *work, stage_done done, void *done_arg,
               struct stage_lane **ret, struct err *err);
    void (*remove)(void *self, struct stage_lane *lane);
    int (*step)(void *self, bool *progress, struct err *err);
    void (*on_beat)(void *self, void (*beat)(void *arg), void *arg);
    void (*stats)(const void *self, uint32_t *lanes, uint32_t *windows, int64_t *samples_done);
};

#define STAGE_FILES(list) .files = (list), .file_count = sizeof(list) / sizeof((list)[0])
#define STAGE_VECTOR_BYTES(values) (16u + 4u * (values)) /* with its times */

#define STAGE_DECLARE(of) extern const struct stage_kind stage_##of;
STAGE_KINDS(STAGE_DECLARE)
#undef STAGE_DECLARE
#define STAGE_ONE(of) +1
enum { STAGE_COUNT = 0 STAGE_KINDS(STAGE_ONE) };
#undef STAGE_ONE

extern const struct stage_kind *const stage_kinds[STAGE_COUNT];
/* NULL: there is no such stage. */
const struct stage_kind *stage_kind_find(const char *name);
/* Makes a stage of a kind that is no row of STAGE_KINDS; the kind's functions get self. Owns self,
 * even when there is no memory for the stage. */
int stage_new(const struct stage_kind *kind, void *self, struct stage **ret, struct err *err);
/* The `self` of a stage of this kind; NULL: the stage is of another kind. */
void *stage_self(const struct stage *s, const struct stage_kind *kind);
/* The kind whose model a folder holds, by its config.json or its files; NULL: they do not say. */
const struct stage_kind *stage_kind_of_model(const char *dir);
/* Which stage takes a model of this name where none is named, or falls back to it as what comes
 * with the program: those that have such a one; NULL: none. */
const struct stage_kind *stage_kind_taking(const char *name);

#endif
