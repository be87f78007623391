/* workers/stages/stage_params.h - the parameters of the stages beside transcription: their
 * defaults, ranges and JSON. As transcribe_params: canonical, values that are the default's are
 * left out, so that a new parameter makes no new stage of an old one; unknown keys are refused. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_STAGE_PARAMS_H
#define NIGHTSHIFT_WORKERS_STAGES_STAGE_PARAMS_H

#include <stdint.h>

#include "base/err.h"
#include "workers/speakers/diarize.h"

/* "diarize": clustering ("ahc", "vbx"), threshold, min_cluster_size, fa, fb, min_duration_off,
 * num_speakers, min_speakers, max_speakers. Those that are not said come from the model's config.
 */
struct diarize_stage_params {
    bool clustering_said, threshold_said, min_cluster_size_said, fa_said, fb_said;
    struct diarize_params p;
};

struct sounds_params {
    float threshold;     /* 0.3: a class is heard where its score reaches it */
    uint32_t max_gap_ms; /* 960: shorter gaps of one class are closed */
    uint32_t min_ms;     /* 0: shorter sounds are left out */
    bool vectors;        /* false: keep YAMNet's own vectors, one for each 0.48 s, too */
};

struct embed_text_params {
    uint32_t chars;  /* 400: of a passage, about */
    char source[80]; /* the transcription: "<model hash>/<hash of its parameters>" */
};

struct embed_audio_params {
    uint32_t
        hop_ms; /* 10000: from one window of 10 s to the next; not more, or it would skip sound */
};

void diarize_stage_params_default(struct diarize_stage_params *p);
int diarize_stage_params_check(const struct diarize_stage_params *p, struct err *err);
int diarize_stage_params_to_json(const struct diarize_stage_params *p, char **ret, struct err *err);
int diarize_stage_params_from_json(const char *json, struct diarize_stage_params *ret,
                                   struct err *err);
void sounds_params_default(struct sounds_params *p);
int sounds_params_check(const struct sounds_params *p, struct err *err);
int sounds_params_to_json(const struct sounds_params *p, char **ret, struct err *err);
int sounds_params_from_json(const char *json, struct sounds_params *ret, struct err *err);
void embed_text_params_default(struct embed_text_params *p);
int embed_text_params_check(const struct embed_text_params *p, struct err *err);
int embed_text_params_to_json(const struct embed_text_params *p, char **ret, struct err *err);
int embed_text_params_from_json(const char *json, struct embed_text_params *ret, struct err *err);
void embed_audio_params_default(struct embed_audio_params *p);
int embed_audio_params_check(const struct embed_audio_params *p, struct err *err);
int embed_audio_params_to_json(const struct embed_audio_params *p, char **ret, struct err *err);
int embed_audio_params_from_json(const char *json, struct embed_audio_params *ret, struct err *err);

#endif
