#include "tests/parity/hf/random_weights.h"

#include <stdio.h>
#include <string.h>

#include "tests/common/formula_weights.h"

static int ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);

    return n >= k && strcmp(s + n - k, tail) == 0;
}

static void scale_of(const char *name, float *mul, float *plus)
{
    *mul = 0.25f;
    *plus = 0;
    if (strstr(name, "layer_norm")) {
        *mul = 0.125f;
        *plus = ends_with(name, "weight") ? 1.0f : 0.0f;
    } else if (ends_with(name, "bias") || strstr(name, "embed_tokens")) {
        *mul = 0.0625f;
    }
}

/* dims past the rank: 0 */
static void add(struct formula *f, const char *name, uint32_t rank, uint64_t a, uint64_t b,
                uint64_t c)
{
    float mul, plus;

    scale_of(name, &mul, &plus);
    formula_add(f, mul, plus, rank, (const uint64_t[]){a, b, c}, "%s", name);
}

static void add_linear(struct formula *f, const char *prefix, const char *name, uint32_t out,
                       uint32_t in, int bias)
{
    char full[96];

    snprintf(full, sizeof(full), "%s%s.weight", prefix, name);
    add(f, full, 2, out, in, 0);
    if (!bias)
        return;
    snprintf(full, sizeof(full), "%s%s.bias", prefix, name);
    add(f, full, 1, out, 0, 0);
}

static void add_norm(struct formula *f, const char *prefix, const char *name)
{
    char full[96];

    snprintf(full, sizeof(full), "%s%s.weight", prefix, name);
    add(f, full, 1, RANDOM_D_MODEL, 0, 0);
    snprintf(full, sizeof(full), "%s%s.bias", prefix, name);
    add(f, full, 1, RANDOM_D_MODEL, 0, 0);
}

static void add_attention(struct formula *f, const char *layer, const char *name)
{
    char prefix[80];

    snprintf(prefix, sizeof(prefix), "%s%s.", layer, name);
    add_linear(f, prefix, "q_proj", RANDOM_D_MODEL, RANDOM_D_MODEL, 1);
    add_linear(f, prefix, "k_proj", RANDOM_D_MODEL, RANDOM_D_MODEL, 0);
    add_linear(f, prefix, "v_proj", RANDOM_D_MODEL, RANDOM_D_MODEL, 1);
    add_linear(f, prefix, "out_proj", RANDOM_D_MODEL, RANDOM_D_MODEL, 1);
}

static void add_layers(struct formula *f, const char *part, int decoder)
{
    char layer[64];

    for (int i = 0; i < RANDOM_LAYERS; i++) {
        snprintf(layer, sizeof(layer), "model.%s.layers.%d.", part, i);
        add_attention(f, layer, "self_attn");
        add_norm(f, layer, "self_attn_layer_norm");
        if (decoder) {
            add_attention(f, layer, "encoder_attn");
            add_norm(f, layer, "encoder_attn_layer_norm");
        }
        add_linear(f, layer, "fc1", RANDOM_FFN, RANDOM_D_MODEL, 1);
        add_linear(f, layer, "fc2", RANDOM_D_MODEL, RANDOM_FFN, 1);
        add_norm(f, layer, "final_layer_norm");
    }
    snprintf(layer, sizeof(layer), "model.%s.", part);
    add_norm(f, layer, "layer_norm");
}

static void describe(struct formula *f, uint32_t vocab, uint32_t mel_bins)
{
    add(f, "model.encoder.conv1.weight", 3, RANDOM_D_MODEL, mel_bins, 3);
    add(f, "model.encoder.conv1.bias", 1, RANDOM_D_MODEL, 0, 0);
    add(f, "model.encoder.conv2.weight", 3, RANDOM_D_MODEL, RANDOM_D_MODEL, 3);
    add(f, "model.encoder.conv2.bias", 1, RANDOM_D_MODEL, 0, 0);
    add(f, "model.encoder.embed_positions.weight", 2, 1500, RANDOM_D_MODEL, 0);
    add_layers(f, "encoder", 0);
    add(f, "model.decoder.embed_tokens.weight", 2, vocab, RANDOM_D_MODEL, 0);
    add(f, "model.decoder.embed_positions.weight", 2, 448, RANDOM_D_MODEL, 0);
    add_layers(f, "decoder", 1);
}

static int write_config(const char *dir, uint32_t vocab, uint32_t mel_bins)
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof(path), "%s/config.json", dir);
    f = fopen(path, "w");
    if (!f)
        return -1;
    fprintf(f,
            "{\"architectures\":[\"WhisperForConditionalGeneration\"],\"model_type\":\"whisper\","
            "\"activation_function\":\"gelu\",\"scale_embedding\":false,\"d_model\":%d,"
            "\"num_mel_bins\":%u,\"vocab_size\":%u,\"encoder_layers\":%d,\"decoder_layers\":%d,"
            "\"encoder_attention_heads\":2,\"decoder_attention_heads\":2,\"encoder_ffn_dim\":%d,"
            "\"decoder_ffn_dim\":%d,\"max_source_positions\":1500,\"max_target_positions\":448}\n",
            RANDOM_D_MODEL, mel_bins, vocab, RANDOM_LAYERS, RANDOM_LAYERS, RANDOM_FFN, RANDOM_FFN);
    return fclose(f);
}

int random_weights_write(const char *dir, const char *name, uint32_t vocab, uint32_t mel_bins)
{
    struct formula *f = formula_new(name);
    char path[4096];
    int rc = write_config(dir, vocab, mel_bins);

    describe(f, vocab, mel_bins);
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    if (rc == 0)
        rc = formula_write(f, path);
    formula_free(f);
    return rc;
}
