/* workers/stages/stage.h - one interface for all stages of a worker's engine, so that leases, audio
 * and reports need not know the stages.
 *
 * "transcribe" is stages/transcribe.h behind this interface. "diarize", "sounds" and "embed-audio"
 * hear windows of a fixed length on a grid that begins with the recording (stages/windowed.h), so
 * that a window's result depends on neither shards nor batches. "embed-text" hears nothing: its
 * lanes are passages of text.
 *
 * One thread calls everything of a stage: it belongs to one engine thread. Several stages may have
 * several threads, since they share nothing (gpu/backend.h: each has a backend of its own then).
 * Audio comes from the caller through a callback that never blocks. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_STAGE_H
#define NIGHTSHIFT_WORKERS_STAGES_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/precision.h"
#include "workers/audio/hearing.h"
#include "workers/results.h"
#include "workers/stages/transcribe/transcribe.h" /* lane_source, transcribe_segment */

struct backend;
struct stage;

/* A stage, as SETUP says it. Borrowed. */
struct stage_setup {
    const char *name;   /* "transcribe" ... */
    const char *dir;    /* of the model; its hash has been compared */
    const char *params; /* JSON; checked by stage_open */
    enum precision precision;
    enum cache_precision cache; /* of transcriptions */
    uint32_t slots, windows;    /* at once; 0: chosen */
    /* Transcription: asked when the models are loaded, before room is made: slots and windows, to
     * be chosen instead of those above. synthetic_load: these models at made-up work
     * (stages/synthetic_load.h), for this call. NULL: nobody measures. */
    int (*tune)(void *arg, struct stage *synthetic_load, uint32_t *slots, uint32_t *windows,
                struct err *err);
    void *tune_arg;
};

/* A lane's result, borrowed during the call. Fields that its stage does not make are 0, except
 * `account`. */
struct stage_result {
    const char *language;
    float language_prob;
    int64_t end_sample;
    uint32_t windows;
    uint32_t segment_count;
    const struct result_segment *segments;
    struct result_account account; /* of stages other than transcription: speech_ms -1 */
    uint32_t sound_count;
    const struct result_sound *sounds;
    uint32_t vector_count, vector_size;
    const struct result_vector *vectors;
    struct result_voices voices;
};

typedef void (*stage_done)(void *arg, const struct stage_result *result, const struct err *err);

/* The input of one lane. */
struct stage_work {
    int64_t start_sample; /* of the shard */
    /* The shard's end, once it is known, else -1 (asked again and again): windows that begin before
     * it are this lane's, and may hear up to stage_tail() samples after it. */
    int64_t (*end)(void *arg);
    void *end_arg;
    struct lane_source source; /* reads on to the shard's end and stage_tail() beyond, but not
                                  beyond the recording's end */
    const char *language;      /* hint; "" none */
    uint64_t seed;
    const struct result_passage *passages; /* embed-text; borrowed until the lane ends */
    uint32_t passage_count;
    /* transcribe: the shard's known text, without times of words; NULL: the shard is decoded.
     * Borrowed until the lane ends. known_text_source: the source of this lane's segments. The
     * first source's lane yields the rest of the known text. */
    const struct result_known_text *known_text;
    uint32_t known_text_source;
    struct stage_synthetic { /* synthetic loads (stages/synthetic_load.h), which ask for nothing
                                of the above */
        uint32_t prompt;     /* positions of the decoder that are only fed, */
        uint32_t tokens; /*   and behind them those from which a token is chosen; 0 of both: none */
        bool apart;      /* the encoder's parts are timed one by one, which holds a device up */
        bool words;      /* a window that ends is aligned, in a session that has room for that */
        bool beside;     /* windows are replaced one batch after the other, each encoded while the
                            other slots are stepped, as a run does */
    } synthetic_load;
};

struct stage_lane;

/* Loads the models and makes room. be is borrowed. ERR_USAGE: the parameters; ERR_MODEL. */
int stage_open(const struct stage_setup *setup, struct backend *be, struct stage **ret,
               struct err *err);
void stage_close(struct stage *s); /* NULL is fine; drops lanes without calling them */
/* Samples after a shard's end that its windows may hear. Pure, by name. */
int64_t stage_tail(const char *name);
/* Bytes of SHARD_DONE that a second of audio gives at most, with networks as published; 0: few
 * enough for a day. Pure; parameters that cannot be read give 0. */
uint32_t stage_bytes_per_s(const char *name, const char *params);
/* The parts of a recording that it decodes; the usual ones if its parameters cannot be read.
 * Pure. */
struct hearing stage_hearing(const char *name, const char *params);
/* Does it hear each source by itself, where there are several? */
bool stage_hears_apart(const char *name, const char *params);
struct hearing_words stage_hearing_words(const char *name, const char *params);
bool stage_hears(const char *name);     /* false: works on passages, nothing is decoded */
bool stage_finalizes(const char *name); /* its recordings are finalized as a whole in the end */
/* The stage of a folder's model, by its config.json or pyannote's layout; "transcribe" if they name
 * no other. */
const char *stage_of_model(const char *dir);
/* The stage of models with this `model_type`; NULL: none. */
const char *stage_of_type(const char *model_type);
/* Which model a folder holds for the stage: XXH3-128 of the files that decide its results, hex
 * (workers/models/files/model_dir.h). ERR_MODEL says what is missing; ERR_USAGE: no such stage. */
int stage_model_hash(const char *name, const char *dir, char ret[33], struct err *err);

uint32_t stage_slots(const struct stage *s); /* as transcriber_slots; of others: windows */
uint32_t stage_windows(const struct stage *s);
const struct err *stage_lack(const struct stage *s);
enum precision stage_precision(const struct stage *s);   /* what AUTO became */
enum cache_precision stage_cache(const struct stage *s); /* likewise; AUTO: it keeps none */
/* Bytes of device memory for its present setup, by the same rule as the prediction before
 * loading. */
uint64_t stage_footprint(const struct stage *s, const struct backend *be);
/* Prediction for planning, before anything is loaded: weights and scratch, and on a GPU what its
 * backend takes beside them. dir: the model's. ERR_MODEL. */
int stage_predict_bytes(const struct stage_setup *setup, bool gpu, uint64_t *ret, struct err *err);

int stage_add(struct stage *s, const struct stage_work *work, stage_done done, void *done_arg,
              struct stage_lane **ret, struct err *err);
/* Removes a lane that has not ended; done is not called. */
void stage_remove(struct stage *s, struct stage_lane *lane);
int stage_step(struct stage *s, bool *progress, struct err *err); /* as transcriber_step */
void stage_on_beat(struct stage *s, void (*beat)(void *arg), void *arg);
void stage_stats(const struct stage *s, uint32_t *lanes, uint32_t *windows, int64_t *samples_done);

#endif
