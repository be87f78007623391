#include "workers/stages/stage_params.h"

#include <string.h>

#include "workers/stages/param_table.h"

#define HOUR_MS 3600000

/* The functions of one stage, all alike. */
#define PARAMS(name, table)                                                   \
    void name##_default(struct name *p) { param_table_default(&(table), p); } \
    int name##_check(const struct name *p, struct err *err)                   \
    {                                                                         \
        return param_table_check(&(table), p, err);                           \
    }                                                                         \
    int name##_to_json(const struct name *p, char **ret, struct err *err)     \
    {                                                                         \
        return param_table_to_json(&(table), p, ret, err);                    \
    }                                                                         \
    int name##_from_json(const char *json, struct name *ret, struct err *err) \
    {                                                                         \
        return param_table_from_json(&(table), json, ret, err);               \
    }

/* ---- diarize */

#define FIELD(key, of) .name = #key, .kind = PARAM_##of, PARAM_AT(diarize_stage_params, p.key)
#define SAID(key, of) \
    FIELD(key, of), .said = true, .flag = offsetof(struct diarize_stage_params, key##_said)

static const char *const clusterings[] = {"ahc", "vbx", NULL};

static const struct param_field diarize_fields[] = {
    {FIELD(num_speakers, U32), .high = DIARIZE_MAX_SPEAKERS},
    {FIELD(min_speakers, U32), .high = DIARIZE_MAX_SPEAKERS},
    {FIELD(max_speakers, U32), .high = DIARIZE_MAX_SPEAKERS},
    {SAID(clustering, CHOICE), .choices = clusterings},
    {SAID(threshold, FLOAT), .high = 2},
    {SAID(min_cluster_size, U32), .low = 1, .high = 1000000},
    {SAID(fa, FLOAT), .high = 1000},
    {SAID(fb, FLOAT), .high = 1000},
    {FIELD(min_duration_off, FLOAT), .high = 3600},
};

/* Values that nobody said are those of the published pipeline (3.1's) until the model's own are
 * known. */
static const struct diarize_stage_params diarize_usual = {.p = DIARIZE_AHC_PARAMS};

static int check_speakers(const void *params, struct err *err)
{
    const struct diarize_params *p = &((const struct diarize_stage_params *)params)->p;

    if (p->num_speakers && (p->min_speakers || p->max_speakers))
        return err_set(err, ERR_USAGE,
                       "num_speakers says how many speakers there are, and min_speakers and "
                       "max_speakers say between which numbers: one of the two must go");
    if (p->max_speakers && p->min_speakers > p->max_speakers)
        return err_set(err, ERR_USAGE, "min_speakers is %u, above max_speakers, %u",
                       p->min_speakers, p->max_speakers);
    if (!(p->fa > 0) || !(p->fb > 0))
        return err_set(err, ERR_USAGE, "fa and fb must be above 0");
    return 0;
}

static const struct param_table diarize_table = {
    .what = "diarization",
    PARAM_TABLE(diarize_stage_params, diarize_fields, &diarize_usual),
    .check = check_speakers};

PARAMS(diarize_stage_params, diarize_table)

/* ---- sounds */

#undef FIELD
#define FIELD(key, of) .name = #key, .kind = PARAM_##of, PARAM_AT(sounds_params, key)

static const struct param_field sounds_fields[] = {
    {FIELD(threshold, FLOAT), .high = 1},
    {FIELD(max_gap_ms, U32), .high = HOUR_MS},
    {FIELD(min_ms, U32), .high = HOUR_MS},
    {FIELD(vectors, BOOL)},
};

static const struct sounds_params sounds_usual = {.threshold = 0.3f, .max_gap_ms = 960};

static int check_sounds(const void *params, struct err *err)
{
    /* At 0 every class of every patch would be a sound. */
    if (((const struct sounds_params *)params)->threshold <= 0)
        return err_set(err, ERR_USAGE, "threshold is 0: every class would be heard everywhere");
    return 0;
}

static const struct param_table sounds_table = {
    .what = "sounds",
    PARAM_TABLE(sounds_params, sounds_fields, &sounds_usual),
    .check = check_sounds};

PARAMS(sounds_params, sounds_table)

/* ---- embed-text */

#undef FIELD
#define FIELD(key, of) .name = #key, .kind = PARAM_##of, PARAM_AT(embed_text_params, key)

static const struct param_field embed_text_fields[] = {
    {FIELD(chars, U32), .low = 20, .high = 10000},
    {FIELD(source, TEXT)},
};

static const struct embed_text_params embed_text_usual = {.chars = 400};

static const struct param_table embed_text_table = {
    .what = "text embedding", PARAM_TABLE(embed_text_params, embed_text_fields, &embed_text_usual)};

PARAMS(embed_text_params, embed_text_table)

/* ---- embed-audio */

#undef FIELD
#define FIELD(key, of) .name = #key, .kind = PARAM_##of, PARAM_AT(embed_audio_params, key)

static const struct param_field embed_audio_fields[] = {
    {FIELD(hop_ms, U32), .low = 100, .high = 10000},
};

static const struct embed_audio_params embed_audio_usual = {.hop_ms = 10000};

static const struct param_table embed_audio_table = {
    .what = "sound embedding",
    PARAM_TABLE(embed_audio_params, embed_audio_fields, &embed_audio_usual)};

PARAMS(embed_audio_params, embed_audio_table)
