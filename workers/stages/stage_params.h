/* workers/stages/stage_params.h - the parameters of a stage which the finalizer reads beside it.
 * Read and written by the stage's table (stage_kind.h). */
#ifndef NIGHTSHIFT_WORKERS_STAGES_STAGE_PARAMS_H
#define NIGHTSHIFT_WORKERS_STAGES_STAGE_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "workers/audio/hearing.h"
#include "workers/speakers/diarize.h"

/* "diarize": clustering ("ahc", "vbx"), threshold, min_cluster_size, fa, fb, min_duration_off,
 * num_speakers, min_speakers, max_speakers, vad_model, vad_hash, channels, tracks. Those that are
 * not said come from the model's config. */
struct diarize_stage_params {
    bool clustering_said, threshold_said, min_cluster_size_said, fa_said, fb_said;
    struct diarize_params p;
    /* Voice activity, with transcribe_params' fields: where it detects no speech, nobody speaks.
     * vad_model "": none. */
    char vad_model[512];
    char vad_hash[33];
    struct hearing_words hearing;
};

#endif
