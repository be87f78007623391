/* A Whisper model's dimensions, from config.json or from weights that say them, and what is known
 * of published models: their dimensions and alignment heads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "gpu/backend.h"
#include "workers/models/files/adapter.h"
#include "workers/models/files/formats/checkpoint.h"
#include "workers/models/files/formats/ct2_file.h"
#include "workers/models/files/formats/ggml_file.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/files/weight_layout.h"
#include "workers/models/files/weights.h"
#include "workers/models/whisper/whisper_net.h"
#include "workers/text/json_file.h"
#include "workers/text/tokenizer/vocabulary.h"

static int read_u32(const json_t *config, const char *key, uint32_t max, uint32_t *ret,
                    struct err *err)
{
    const json_t *value = json_object_get(config, key);

    if (!json_is_integer(value))
        return err_set(err, ERR_MODEL, "config.json has no integer '%s'", key);
    if (json_integer_value(value) < 1 || json_integer_value(value) > (json_int_t)max)
        return err_set(err, ERR_MODEL, "config.json: %s is %lld, not from 1 to %u", key,
                       (long long)json_integer_value(value), max);
    *ret = (uint32_t)json_integer_value(value);
    return 0;
}

int whisper_check_config(const struct whisper_config *c, struct err *err)
{
    if (c->encoder_heads * (uint64_t)BACKEND_HEAD_SIZE != c->d_model ||
        c->decoder_heads * (uint64_t)BACKEND_HEAD_SIZE != c->d_model)
        return err_set(err, ERR_MODEL,
                       "this model has %u and %u attention heads for %u values: only heads of %d "
                       "values are supported, as in every model that OpenAI published",
                       c->encoder_heads, c->decoder_heads, c->d_model, BACKEND_HEAD_SIZE);
    if (c->max_source_positions != WHISPER_POSITIONS)
        return err_set(err, ERR_MODEL, "this model has %u encoder positions, not %d",
                       c->max_source_positions, WHISPER_POSITIONS);
    if (c->max_target_positions > BACKEND_MAX_KEYS || c->encoder_layers > WHISPER_MAX_LAYERS ||
        c->decoder_layers > WHISPER_MAX_LAYERS || c->mel_bins > 256 || c->encoder_ffn % 2 ||
        c->decoder_ffn % 2 || !c->mel_bins || !c->vocab_size || !c->d_model || !c->encoder_ffn ||
        !c->decoder_ffn || !c->max_target_positions)
        return err_set(err, ERR_MODEL, "this model's dimensions are not those of a Whisper model");
    return 0;
}

static int parse_config(const json_t *j, struct whisper_config *c, struct err *err)
{
    const char *type = json_string_value(json_object_get(j, "model_type"));
    const char *activation = json_string_value(json_object_get(j, "activation_function"));
    const struct {
        const char *key;
        uint32_t max, *ret;
    } fields[] = {
        {"d_model", 16384, &c->d_model},
        {"num_mel_bins", 256, &c->mel_bins},
        {"vocab_size", 1u << 20, &c->vocab_size},
        {"encoder_layers", WHISPER_MAX_LAYERS, &c->encoder_layers},
        {"encoder_attention_heads", 256, &c->encoder_heads},
        {"encoder_ffn_dim", 65536, &c->encoder_ffn},
        {"decoder_layers", WHISPER_MAX_LAYERS, &c->decoder_layers},
        {"decoder_attention_heads", 256, &c->decoder_heads},
        {"decoder_ffn_dim", 65536, &c->decoder_ffn},
        {"max_source_positions", 1u << 20, &c->max_source_positions},
        {"max_target_positions", BACKEND_MAX_KEYS, &c->max_target_positions},
    };
    int rc;

    if (!type || strcmp(type, "whisper") != 0)
        return err_set(err, ERR_MODEL, "config.json describes a model of type '%.40s', not whisper",
                       type ? type : "(none)");
    if (activation && strcmp(activation, "gelu") != 0)
        return err_set(err, ERR_MODEL,
                       "config.json: activation '%.40s' is not supported, only gelu", activation);
    if (json_is_true(json_object_get(j, "scale_embedding")))
        return err_set(err, ERR_MODEL, "config.json: scale_embedding is not supported");
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        rc = read_u32(j, fields[i].key, fields[i].max, fields[i].ret, err);
        if (rc != 0)
            return rc;
    }
    return whisper_check_config(c, err);
}

static int read_json(const char *dir, struct whisper_config *c, struct err *err)
{
    json_t *j;
    int rc = json_file_need(dir, "config.json", &j, err);

    if (rc != 0)
        return rc;
    rc = parse_config(j, c, err);
    json_decref(j);
    return rc;
}

/* OpenAI's checkpoints say their dimensions themselves, under names of their own. */
static int openai_config(const struct checkpoint *ck, struct whisper_config *c, struct err *err)
{
    uint32_t text_state = 0;
    const struct {
        const char *key;
        uint32_t max, *ret;
    } fields[] = {
        {"n_mels", 256, &c->mel_bins},
        {"n_vocab", 1u << 20, &c->vocab_size},
        {"n_audio_ctx", 1u << 20, &c->max_source_positions},
        {"n_audio_state", 16384, &c->d_model},
        {"n_audio_head", 256, &c->encoder_heads},
        {"n_audio_layer", WHISPER_MAX_LAYERS, &c->encoder_layers},
        {"n_text_ctx", BACKEND_MAX_KEYS, &c->max_target_positions},
        {"n_text_state", 16384, &text_state},
        {"n_text_head", 256, &c->decoder_heads},
        {"n_text_layer", WHISPER_MAX_LAYERS, &c->decoder_layers},
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        int rc = checkpoint_dim(ck, fields[i].key, fields[i].max, fields[i].ret, err);

        if (rc != 0)
            return rc;
    }
    if (text_state != c->d_model)
        return err_set(err, ERR_MODEL, "the checkpoint's encoder has %u values and its decoder %u",
                       c->d_model, text_state);
    c->encoder_ffn = c->decoder_ffn = 4 * c->d_model; /* as OpenAI's model code has it */
    return whisper_check_config(c, err);
}

/* ---- CTranslate2's, by the shapes of its variables ---- */

/* Layers are numbered from 0. */
static uint32_t count_layers(const struct ct2_file *ct2, const char *network)
{
    struct weight w;
    char name[64];
    uint32_t n = 0;

    do
        snprintf(name, sizeof(name), "%s/layer_%u/ffn/linear_0/weight", network, n);
    while (ct2_file_find(ct2, name, &w) && ++n <= WHISPER_MAX_LAYERS);
    return n;
}

static int ct2_heads(const struct ct2_file *ct2, const char *name, uint32_t *ret, struct err *err)
{
    int64_t n;

    if (!ct2_file_number(ct2, name, &n) || n < 1 || n > 256)
        return err_set(err, ERR_MODEL, "model.bin has no %s from 1 to 256", name);
    *ret = (uint32_t)n;
    return 0;
}

static int ct2_config(const struct ct2_file *ct2, struct whisper_config *c, struct err *err)
{
    const struct {
        const char *name;
        uint32_t at, max, *ret;
    } sizes[] = {
        {"decoder/embeddings/weight", 0, 1u << 20, &c->vocab_size},
        {"decoder/embeddings/weight", 1, 16384, &c->d_model},
        {"encoder/conv1/weight", 1, 256, &c->mel_bins},
        {"encoder/layer_0/ffn/linear_0/weight", 0, 65536, &c->encoder_ffn},
        {"decoder/layer_0/ffn/linear_0/weight", 0, 65536, &c->decoder_ffn},
        {"encoder/position_encodings/encodings", 0, 1u << 20, &c->max_source_positions},
        {"decoder/position_encodings/encodings", 0, BACKEND_MAX_KEYS, &c->max_target_positions},
    };
    struct weight w;
    int rc;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (!ct2_file_find(ct2, sizes[i].name, &w))
            return err_set(err, ERR_MODEL, "variable '%s' is missing from model.bin",
                           sizes[i].name);
        if (w.rank < 2 || !w.dim[sizes[i].at] || w.dim[sizes[i].at] > sizes[i].max)
            return err_set(err, ERR_MODEL, "variable '%s' of model.bin has no size from 1 to %u",
                           sizes[i].name, sizes[i].max);
        *sizes[i].ret = (uint32_t)w.dim[sizes[i].at];
    }
    c->encoder_layers = count_layers(ct2, "encoder");
    c->decoder_layers = count_layers(ct2, "decoder");
    rc = ct2_heads(ct2, "encoder/num_heads", &c->encoder_heads, err);
    if (rc == 0)
        rc = ct2_heads(ct2, "decoder/num_heads", &c->decoder_heads, err);
    return rc != 0 ? rc : whisper_check_config(c, err);
}

/* ---- whisper.cpp's, in numbers ---- */

static int ggml_config(const struct ggml_sizes *s, struct whisper_config *c, struct err *err)
{
    const struct {
        const char *what;
        uint32_t max, value, *ret;
    } sizes[] = {
        {"tokens", 1u << 20, s->vocabulary, &c->vocab_size},
        {"encoder positions", 1u << 20, s->audio_positions, &c->max_source_positions},
        {"values of a position", 16384, s->audio_state, &c->d_model},
        {"encoder heads", 256, s->audio_heads, &c->encoder_heads},
        {"encoder layers", WHISPER_MAX_LAYERS, s->audio_layers, &c->encoder_layers},
        {"decoder positions", BACKEND_MAX_KEYS, s->text_positions, &c->max_target_positions},
        {"decoder heads", 256, s->text_heads, &c->decoder_heads},
        {"decoder layers", WHISPER_MAX_LAYERS, s->text_layers, &c->decoder_layers},
        {"mel bins", 256, s->mels, &c->mel_bins},
    };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].max)
            return err_set(err, ERR_MODEL, "it claims %u %s, not 1 to %u", sizes[i].value,
                           sizes[i].what, sizes[i].max);
        *sizes[i].ret = sizes[i].value;
    }
    if (s->text_state != c->d_model)
        return err_set(err, ERR_MODEL, "its encoder has %u values and its decoder %u", c->d_model,
                       s->text_state);
    c->encoder_ffn = c->decoder_ffn = 4 * c->d_model; /* as whisper.cpp has it */
    return whisper_check_config(c, err);
}

/* ---- whichever it is ---- */

static int from_weights(const struct weights *w, struct whisper_config *c, struct err *err)
{
    if (weights_openai(w))
        return openai_config(weights_openai(w), c, err);
    if (weights_ct2(w))
        return ct2_config(weights_ct2(w), c, err);
    if (weights_ggml(w))
        return ggml_config(ggml_file_sizes(weights_ggml(w)), c, err);
    return err_set(err, ERR_MODEL, "its files changed while they were read: try again");
}

int whisper_read_sizes(const char *dir, struct whisper_config *ret, struct err *err)
{
    struct weights *w = NULL;
    char *base = NULL;
    int rc = adapter_base(dir, &base, err);

    if (rc == 0 && !weight_format_has_sizes(weight_layout_format(base))) {
        rc = read_json(base, ret, err);
    } else if (rc == 0) {
        rc = weights_open(base, &w, err);
        if (rc == 0)
            rc = from_weights(w, ret, err);
        weights_close(w);
    }
    free(base);
    return rc;
}

/* ---- well-known ones ---- */

static const struct preset {
    const char *name;
    bool proposed; /* the others are understood, and come last */
    struct whisper_config config;
} presets[] = {
    {"nano", true, {192, 80, 2151, 4, 3, 768, 2, 3, 768, 1500, 448}},
    {"tiny", true, {384, 80, 51865, 4, 6, 1536, 4, 6, 1536, 1500, 448}},
    {"base", true, {512, 80, 51865, 6, 8, 2048, 6, 8, 2048, 1500, 448}},
    {"small", true, {768, 80, 51865, 12, 12, 3072, 12, 12, 3072, 1500, 448}},
    {"medium", true, {1024, 80, 51865, 24, 16, 4096, 24, 16, 4096, 1500, 448}},
    {"large-v3", true, {1280, 128, 51866, 32, 20, 5120, 32, 20, 5120, 1500, 448}},
    {"large-v3-turbo", true, {1280, 128, 51866, 32, 20, 5120, 4, 20, 5120, 1500, 448}},
    {"large-v1", false, {1280, 80, 51865, 32, 20, 5120, 32, 20, 5120, 1500, 448}},
    {"large-v2", false, {1280, 80, 51865, 32, 20, 5120, 32, 20, 5120, 1500, 448}},
    {"distil-large-v2", false, {1280, 80, 51865, 32, 20, 5120, 2, 20, 5120, 1500, 448}},
    {"distil-large-v3", false, {1280, 128, 51866, 32, 20, 5120, 2, 20, 5120, 1500, 448}},
    {"distil-large-v3.5", false, {1280, 128, 51866, 32, 20, 5120, 2, 20, 5120, 1500, 448}},
    {"distil-medium", false, {1024, 80, 51865, 24, 16, 4096, 2, 16, 4096, 1500, 448}},
    {"distil-small", false, {768, 80, 51865, 12, 12, 3072, 4, 12, 3072, 1500, 448}},
};

#define PRESETS (sizeof(presets) / sizeof(presets[0]))

const char *whisper_preset_name(uint32_t i)
{
    return i < PRESETS && presets[i].proposed ? presets[i].name : NULL;
}

static const struct preset *find_preset(const char *name, size_t len)
{
    for (size_t i = 0; i < PRESETS; i++)
        if (strlen(presets[i].name) == len && memcmp(presets[i].name, name, len) == 0)
            return &presets[i];
    return NULL;
}

int whisper_preset(const char *name, struct whisper_config *ret, struct err *err)
{
    static const char *const before[] = {"openai/", "distil-whisper/", "whisper-"};
    const char *said = name;
    const struct preset *p;
    size_t len;
    bool english;

    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
        if (strncmp(said, before[i], strlen(before[i])) == 0)
            said += strlen(before[i]);
    if (model_name_find(said))
        said = model_name_find(said)->name;
    len = strlen(said);
    english = len > 3 && strcmp(said + len - 3, ".en") == 0;
    p = find_preset(said, english ? len - 3 : len);
    if (!p)
        return err_set(err, ERR_USAGE,
                       "no dimensions are known for '%.60s': nano, tiny, base, small, medium, "
                       "large-v3 or turbo, or give a model's directory",
                       name);
    *ret = p->config;
    ret->vocab_size -= english; /* one language less, and no other token */
    return 0;
}

/* ---- alignment heads ---- */

#define MAX_HEADS 20

/* The alignment heads that OpenAI found for each published model (the field alignment_heads of its
 * generation_config.json on Hugging Face). */
static const struct {
    uint32_t vocab_size, d_model, decoder_layers;
    uint8_t count;
    uint8_t head[MAX_HEADS][2];
} known[] = {
    /* tiny.en */
    {51864, 384, 4, 8, {{1, 0}, {2, 0}, {2, 5}, {3, 0}, {3, 1}, {3, 2}, {3, 3}, {3, 4}}},
    /* tiny */
    {51865, 384, 4, 6, {{2, 2}, {3, 0}, {3, 2}, {3, 3}, {3, 4}, {3, 5}}},
    /* base.en */
    {51864, 512, 6, 5, {{3, 3}, {4, 7}, {5, 1}, {5, 5}, {5, 7}}},
    /* base */
    {51865, 512, 6, 8, {{3, 1}, {4, 2}, {4, 3}, {4, 7}, {5, 1}, {5, 2}, {5, 4}, {5, 6}}},
    /* small.en */
    {51864,
     768,
     12,
     19,
     {{6, 6},
      {7, 0},
      {7, 3},
      {7, 8},
      {8, 2},
      {8, 5},
      {8, 7},
      {9, 0},
      {9, 4},
      {9, 8},
      {9, 10},
      {10, 0},
      {10, 1},
      {10, 2},
      {10, 3},
      {10, 6},
      {10, 11},
      {11, 2},
      {11, 4}}},
    /* small */
    {51865,
     768,
     12,
     10,
     {{5, 3}, {5, 9}, {8, 0}, {8, 4}, {8, 7}, {8, 8}, {9, 0}, {9, 7}, {9, 9}, {10, 5}}},
    /* medium.en */
    {51864,
     1024,
     24,
     18,
     {{11, 4},
      {14, 1},
      {14, 12},
      {14, 14},
      {15, 4},
      {16, 0},
      {16, 4},
      {16, 9},
      {17, 12},
      {17, 14},
      {18, 7},
      {18, 10},
      {18, 15},
      {20, 0},
      {20, 3},
      {20, 9},
      {20, 14},
      {21, 12}}},
    /* medium */
    {51865, 1024, 24, 6, {{13, 15}, {15, 4}, {15, 15}, {16, 1}, {20, 0}, {23, 4}}},
    /* large-v3 */
    {51866,
     1280,
     32,
     10,
     {{7, 0},
      {10, 17},
      {12, 18},
      {13, 12},
      {16, 1},
      {17, 14},
      {19, 11},
      {21, 4},
      {24, 1},
      {25, 6}}},
    /* large-v3-turbo */
    {51866, 1280, 4, 6, {{2, 4}, {2, 11}, {3, 3}, {3, 6}, {3, 11}, {3, 14}}},
};

const uint8_t (*whisper_known_heads(const struct whisper_config *c, size_t *n))[2]
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].vocab_size == c->vocab_size && known[i].d_model == c->d_model &&
            known[i].decoder_layers == c->decoder_layers) {
            *n = known[i].count;
            return known[i].head;
        }
    }
    *n = 0;
    return NULL;
}

/* The i-th head of a model that names none. */
static struct whisper_head upper_head(const struct whisper_config *c, uint32_t i)
{
    return (struct whisper_head){c->decoder_layers / 2 + i / c->decoder_heads,
                                 i % c->decoder_heads};
}

uint32_t whisper_heads(const struct vocabulary *v, const struct whisper_config *c,
                       struct whisper_head *ret, uint32_t max)
{
    const uint32_t layers = c->decoder_layers, heads = c->decoder_heads;
    size_t named = 0, found = 0;
    const int32_t(*own)[2] = v ? vocabulary_alignment_heads(v, &named) : NULL;
    uint32_t n, put = 0, seen = 0;

    for (size_t i = 0; i < named; i++)
        found += (uint32_t)own[i][0] < layers && (uint32_t)own[i][1] < heads;
    n = found ? (uint32_t)found : (layers - layers / 2) * heads;
    for (uint32_t i = 0; i < (found ? named : n); i++) {
        struct whisper_head head;

        if (found) {
            head = (struct whisper_head){(uint32_t)own[i][0], (uint32_t)own[i][1]};
            if (head.layer >= layers || head.head >= heads)
                continue;
        } else
            head = upper_head(c, i);
        /* All when there is room; else the one that each of `max` equal parts ends with. */
        if (put < max && (n <= max || (uint64_t)(seen + 1) * max / n > put))
            ret[put++] = head;
        seen++;
    }
    return n;
}
