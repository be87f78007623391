/* What can be said of a stage by its name alone, for whoever loads no model: the command line, the
 * scheduler's helpers, the settler. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "workers/models/clap.h"
#include "workers/models/model_dir.h"
#include "workers/models/pyannet.h"
#include "workers/models/yamnet.h"
#include "workers/stages/stage.h"
#include "workers/stages/stage_params.h"
#include "workers/text/json_file.h"

#define NEEDED(file) \
    {                \
        file, false  \
    }
#define OPTIONAL(file) \
    {                  \
        file, true     \
    }
#define VOICE_VALUES 256 /* of a voice's vector: ResNet34 of WeSpeaker */
#define CLAP_VALUES 512
#define VECTOR_BYTES(values) (16u + 4u * (values)) /* with its times */
#define FILES(list) list, sizeof(list) / sizeof((list)[0])

/* Ours and pyannote's layout (models/diarization_dir.h): which of them it is, and whether anything
 * is missing, is seen when it is opened. */
static const struct model_file diarize_files[] = {
    OPTIONAL("config.json"),
    OPTIONAL("segmentation.safetensors"),
    OPTIONAL("embedding.safetensors"),
    OPTIONAL("plda.safetensors"),
    OPTIONAL("segmentation/pytorch_model.bin"),
    OPTIONAL("embedding/pytorch_model.bin"),
    OPTIONAL("plda/plda.npz"),
    OPTIONAL("plda/xvec_transform.npz"),
};

static const struct model_file sounds_files[] = {NEEDED("config.json"), NEEDED("classes.csv")};

static const struct model_file embed_text_files[] = {
    NEEDED("config.json"),
    NEEDED("tokenizer.json"),
    OPTIONAL("modules.json"),
    OPTIONAL("1_Pooling/config.json"),
    OPTIONAL("sentence_bert_config.json"),
    OPTIONAL("config_sentence_transformers.json"),
};

static const struct model_file embed_audio_files[] = {
    NEEDED("config.json"),
    OPTIONAL("preprocessor_config.json"),
    OPTIONAL("tokenizer.json"),
};

static const struct stage_traits {
    const char *name;
    int64_t tail; /* samples */
    bool hears, settles;
    const struct model_file *files; /* NULL: model_dir_hash's */
    size_t file_count;
    bool weights; /* beside the files those of weight_layout.h */
} stages[] = {
    {"transcribe", 0, true, false, NULL, 0, true},
    {"diarize", PYANNET_SAMPLES, true, true, FILES(diarize_files), false},
    {"sounds", YAMNET_PATCH, true, false, FILES(sounds_files), true},
    {"embed-text", 0, false, false, FILES(embed_text_files), true},
    {"embed-audio", CLAP_SAMPLES, true, false, FILES(embed_audio_files), true},
};

static const struct stage_traits *find(const char *name)
{
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
        if (strcmp(stages[i].name, name) == 0)
            return &stages[i];
    return NULL;
}

bool stage_known(const char *name) { return find(name) != NULL; }

int64_t stage_tail(const char *name)
{
    const struct stage_traits *t = find(name);

    return t ? t->tail : 0;
}

bool stage_hears(const char *name)
{
    const struct stage_traits *t = find(name);

    return t && t->hears;
}

bool stage_settles(const char *name)
{
    const struct stage_traits *t = find(name);

    return t && t->settles;
}

uint32_t stage_bytes_per_s(const char *name, const char *params)
{
    struct sounds_params sounds;
    struct embed_audio_params audio;
    struct err e = {0};

    if (strcmp(name, "diarize") ==
        0) /* a window a second: its frames, and a vector of each voice */
        return PYANNET_FRAMES + PYANNET_SPEAKERS * (4u + 4u * VOICE_VALUES);
    if (strcmp(name, "sounds") == 0 && sounds_params_from_json(params, &sounds, &e) == 0)
        return sounds.vectors ? VECTOR_BYTES(YAMNET_VECTOR) * 16000u / YAMNET_HOP + 1 : 0;
    if (strcmp(name, "embed-audio") == 0 && embed_audio_params_from_json(params, &audio, &e) == 0)
        return VECTOR_BYTES(CLAP_VALUES) * 1000u / audio.hop_ms + 1;
    return 0;
}

/* As diarization_dir_open knows it: no config of ours. */
static bool is_pyannote(const char *dir)
{
    char config[PATH_MAX], network[PATH_MAX];

    return snprintf(config, sizeof(config), "%s/config.json", dir) < (int)sizeof(config) &&
           snprintf(network, sizeof(network), "%s/segmentation/pytorch_model.bin", dir) <
               (int)sizeof(network) &&
           access(config, F_OK) != 0 && access(network, F_OK) == 0;
}

const char *stage_of_type(const char *model_type)
{
    static const struct {
        const char *type, *stage;
    } types[] = {
        {"whisper", "transcribe"},     {"nightshift-diarization", "diarize"},
        {"yamnet", "sounds"},          {"clap", "embed-audio"},
        {"bert", "embed-text"},        {"roberta", "embed-text"},
        {"xlm-roberta", "embed-text"}, {"camembert", "embed-text"},
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(model_type, types[i].type) == 0)
            return types[i].stage;
    return NULL;
}

const char *stage_of_model(const char *dir)
{
    const char *stage = NULL, *type;
    json_t *config = NULL;
    struct err e = {0};

    if (is_pyannote(dir))
        return "diarize";
    if (json_file_read(dir, "config.json", &config, &e) != 0)
        return "transcribe";
    type = json_string_value(json_object_get(config, "model_type"));
    stage = type ? stage_of_type(type) : NULL;
    json_decref(config);
    return stage ? stage : "transcribe";
}

int stage_model_hash(const char *name, const char *dir, char ret[MODEL_HASH_LEN], struct err *err)
{
    const struct stage_traits *t = find(name);

    if (!t)
        return err_set(err, ERR_USAGE, "there is no stage '%.40s'", name);
    if (!t->files)
        return model_dir_hash(dir, ret, err);
    return model_dir_hash_files(dir, t->files, t->file_count, t->weights, ret, err);
}
