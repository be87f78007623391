#include "workers/stages/stage_params.h"

#include <string.h>

#include "workers/stages/param_table.h"

#define AT(type, field) offsetof(struct type, field), sizeof(((struct type *)0)->field)
#define COUNT(type, path, key, min, max)                                               \
    {                                                                                  \
        .name = (key), .kind = TABLE_U32, AT(type, path), .low = (min), .high = (max), \
        .said = TABLE_NEVER                                                            \
    }
#define NUMBER(type, path, key, min, max)                                                \
    {                                                                                    \
        .name = (key), .kind = TABLE_FLOAT, AT(type, path), .low = (min), .high = (max), \
        .said = TABLE_NEVER                                                              \
    }
#define COUNT_SAID(path, key, min, max, flag)                                           \
    {                                                                                   \
        .name = (key), .kind = TABLE_U32, AT(diarize_stage_params, path), .low = (min), \
        .high = (max), .said = offsetof(struct diarize_stage_params, flag)              \
    }
#define NUMBER_SAID(path, key, min, max, flag)                                            \
    {                                                                                     \
        .name = (key), .kind = TABLE_FLOAT, AT(diarize_stage_params, path), .low = (min), \
        .high = (max), .said = offsetof(struct diarize_stage_params, flag)                \
    }
#define TABLE(name, fields)                                \
    {                                                      \
        name, fields, sizeof(fields) / sizeof((fields)[0]) \
    }
#define HOUR_MS 3600000

/* The functions of one stage, all alike; `more` is checked where every value is in its range. */
#define PARAMS(name, table, more)                                             \
    int name##_check(const struct name *p, struct err *err)                   \
    {                                                                         \
        int rc = table_check(&(table), p, err);                               \
        return rc != 0 ? rc : more(p, err);                                   \
    }                                                                         \
    int name##_to_json(const struct name *p, char **ret, struct err *err)     \
    {                                                                         \
        struct name usual;                                                    \
        int rc = name##_check(p, err);                                        \
        name##_default(&usual);                                               \
        return rc != 0 ? rc : table_to_json(&(table), p, &usual, ret, err);   \
    }                                                                         \
    int name##_from_json(const char *json, struct name *ret, struct err *err) \
    {                                                                         \
        struct name p;                                                        \
        int rc;                                                               \
        name##_default(&p);                                                   \
        rc = table_from_json(&(table), json, &p, err);                        \
        if (rc == 0)                                                          \
            rc = more(&p, err);                                               \
        if (rc == 0)                                                          \
            *ret = p;                                                         \
        return rc;                                                            \
    }

/* ---- diarize */

static const char *const clusterings[] = {"ahc", "vbx", NULL};

static const struct table_field diarize_fields[] = {
    {.name = "clustering",
     .kind = TABLE_CHOICE,
     AT(diarize_stage_params, p.clustering),
     .choices = clusterings,
     .said = offsetof(struct diarize_stage_params, clustering_said)},
    NUMBER_SAID(p.fa, "fa", 0, 1000, fa_said),
    NUMBER_SAID(p.fb, "fb", 0, 1000, fb_said),
    COUNT(diarize_stage_params, p.max_speakers, "max_speakers", 0, DIARIZE_MAX_SPEAKERS),
    COUNT_SAID(p.min_cluster_size, "min_cluster_size", 1, 1000000, min_cluster_size_said),
    NUMBER(diarize_stage_params, p.min_duration_off, "min_duration_off", 0, 3600),
    COUNT(diarize_stage_params, p.min_speakers, "min_speakers", 0, DIARIZE_MAX_SPEAKERS),
    COUNT(diarize_stage_params, p.num_speakers, "num_speakers", 0, DIARIZE_MAX_SPEAKERS),
    NUMBER_SAID(p.threshold, "threshold", 0, 2, threshold_said),
};
static const struct table diarize_table = TABLE("diarization", diarize_fields);

/* Values that nobody said are those of the published pipeline (3.1's) until the model's own are
 * known. */
void diarize_stage_params_default(struct diarize_stage_params *p)
{
    memset(p, 0, sizeof(*p));
    diarize_params_default(DIARIZE_AHC, &p->p);
    p->p.min_duration_off = 0;
}

static int check_speakers(const struct diarize_stage_params *p, struct err *err)
{
    if (p->p.num_speakers && (p->p.min_speakers || p->p.max_speakers))
        return err_set(err, ERR_USAGE,
                       "num_speakers says how many speakers there are, and min_speakers and "
                       "max_speakers say between which numbers: one of the two must go");
    if (p->p.max_speakers && p->p.min_speakers > p->p.max_speakers)
        return err_set(err, ERR_USAGE, "min_speakers is %u, above max_speakers, %u",
                       p->p.min_speakers, p->p.max_speakers);
    if (!(p->p.fa > 0) || !(p->p.fb > 0))
        return err_set(err, ERR_USAGE, "fa and fb must be above 0");
    return 0;
}

PARAMS(diarize_stage_params, diarize_table, check_speakers)

/* ---- sounds */

static const struct table_field sounds_fields[] = {
    COUNT(sounds_params, max_gap_ms, "max_gap_ms", 0, HOUR_MS),
    COUNT(sounds_params, min_ms, "min_ms", 0, HOUR_MS),
    NUMBER(sounds_params, threshold, "threshold", 0, 1),
    {.name = "vectors", .kind = TABLE_BOOL, AT(sounds_params, vectors), .said = TABLE_NEVER},
};
static const struct table sounds_table = TABLE("sounds", sounds_fields);

void sounds_params_default(struct sounds_params *p)
{
    memset(p, 0, sizeof(*p));
    p->threshold = 0.3f;
    p->max_gap_ms = 960;
}

static int check_sounds(const struct sounds_params *p, struct err *err)
{
    /* At 0 every class of every patch would be a sound. */
    if (p->threshold <= 0)
        return err_set(err, ERR_USAGE, "threshold is 0: every class would be heard everywhere");
    return 0;
}

PARAMS(sounds_params, sounds_table, check_sounds)

/* ---- embed-text */

static const struct table_field embed_text_fields[] = {
    COUNT(embed_text_params, chars, "chars", 20, 10000),
    {.name = "source", .kind = TABLE_TEXT, AT(embed_text_params, source), .said = TABLE_NEVER},
};
static const struct table embed_text_table = TABLE("text embedding", embed_text_fields);

void embed_text_params_default(struct embed_text_params *p)
{
    memset(p, 0, sizeof(*p));
    p->chars = 400;
}

static int check_nothing(const void *p, struct err *err)
{
    (void)p;
    (void)err;
    return 0;
}

PARAMS(embed_text_params, embed_text_table, check_nothing)

/* ---- embed-audio */

static const struct table_field embed_audio_fields[] = {
    COUNT(embed_audio_params, hop_ms, "hop_ms", 100, 10000),
};
static const struct table embed_audio_table = TABLE("sound embedding", embed_audio_fields);

void embed_audio_params_default(struct embed_audio_params *p)
{
    memset(p, 0, sizeof(*p));
    p->hop_ms = 10000;
}

PARAMS(embed_audio_params, embed_audio_table, check_nothing)
