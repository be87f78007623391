#include "tests/parity/hf/random_weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED UINT64_C(20260901)
#define MAX_TENSORS 128

struct spec {
    char name[96];
    uint32_t dims[3];
    uint32_t rank;
};

struct model {
    struct spec t[MAX_TENSORS];
    size_t n;
};

static void add(struct model *m, const char *name, uint32_t rank, uint32_t a, uint32_t b,
                uint32_t c)
{
    struct spec *s = &m->t[m->n++];

    snprintf(s->name, sizeof(s->name), "%s", name);
    s->rank = rank;
    s->dims[0] = a;
    s->dims[1] = b;
    s->dims[2] = c;
}

static void add_linear(struct model *m, const char *prefix, const char *name, uint32_t out,
                       uint32_t in, int bias)
{
    char full[96];

    snprintf(full, sizeof(full), "%s%s.weight", prefix, name);
    add(m, full, 2, out, in, 0);
    if (!bias)
        return;
    snprintf(full, sizeof(full), "%s%s.bias", prefix, name);
    add(m, full, 1, out, 0, 0);
}

static void add_norm(struct model *m, const char *prefix, const char *name)
{
    char full[96];

    snprintf(full, sizeof(full), "%s%s.weight", prefix, name);
    add(m, full, 1, RANDOM_D_MODEL, 0, 0);
    snprintf(full, sizeof(full), "%s%s.bias", prefix, name);
    add(m, full, 1, RANDOM_D_MODEL, 0, 0);
}

static void add_attention(struct model *m, const char *layer, const char *name)
{
    char prefix[80];

    snprintf(prefix, sizeof(prefix), "%s%s.", layer, name);
    add_linear(m, prefix, "q_proj", RANDOM_D_MODEL, RANDOM_D_MODEL, 1);
    add_linear(m, prefix, "k_proj", RANDOM_D_MODEL, RANDOM_D_MODEL, 0);
    add_linear(m, prefix, "v_proj", RANDOM_D_MODEL, RANDOM_D_MODEL, 1);
    add_linear(m, prefix, "out_proj", RANDOM_D_MODEL, RANDOM_D_MODEL, 1);
}

static void add_layers(struct model *m, const char *part, int decoder)
{
    char layer[64];

    for (int i = 0; i < RANDOM_LAYERS; i++) {
        snprintf(layer, sizeof(layer), "model.%s.layers.%d.", part, i);
        add_attention(m, layer, "self_attn");
        add_norm(m, layer, "self_attn_layer_norm");
        if (decoder) {
            add_attention(m, layer, "encoder_attn");
            add_norm(m, layer, "encoder_attn_layer_norm");
        }
        add_linear(m, layer, "fc1", RANDOM_FFN, RANDOM_D_MODEL, 1);
        add_linear(m, layer, "fc2", RANDOM_D_MODEL, RANDOM_FFN, 1);
        add_norm(m, layer, "final_layer_norm");
    }
    snprintf(layer, sizeof(layer), "model.%s.", part);
    add_norm(m, layer, "layer_norm");
}

static void describe(struct model *m, uint32_t vocab, uint32_t mel_bins)
{
    m->n = 0;
    add(m, "model.encoder.conv1.weight", 3, RANDOM_D_MODEL, mel_bins, 3);
    add(m, "model.encoder.conv1.bias", 1, RANDOM_D_MODEL, 0, 0);
    add(m, "model.encoder.conv2.weight", 3, RANDOM_D_MODEL, RANDOM_D_MODEL, 3);
    add(m, "model.encoder.conv2.bias", 1, RANDOM_D_MODEL, 0, 0);
    add(m, "model.encoder.embed_positions.weight", 2, 1500, RANDOM_D_MODEL, 0);
    add_layers(m, "encoder", 0);
    add(m, "model.decoder.embed_tokens.weight", 2, vocab, RANDOM_D_MODEL, 0);
    add(m, "model.decoder.embed_positions.weight", 2, 448, RANDOM_D_MODEL, 0);
    add_layers(m, "decoder", 1);
}

static size_t count(const struct spec *s)
{
    size_t n = s->dims[0];

    for (uint32_t i = 1; i < s->rank; i++)
        n *= s->dims[i];
    return n;
}

/* FNV-1a, 64 bit, of "CONFIG:TENSOR". */
static uint64_t fnv1a(const char *config, const char *tensor)
{
    uint64_t h = UINT64_C(0xCBF29CE484222325);
    const char *parts[] = {config, ":", tensor};

    for (size_t k = 0; k < 3; k++)
        for (const char *p = parts[k]; *p; p++)
            h = (h ^ (uint8_t)*p) * UINT64_C(0x100000001B3);
    return h;
}

/* splitmix64 of a counter (Steele, Lea, Flood 2014), as a float in [-1, 1). */
static float uniform(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return (float)(z >> 40) * 0x1p-23f - 1.0f;
}

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

static int write_tensor(FILE *f, const char *config, const struct spec *s)
{
    uint64_t seed = fnv1a(config, s->name) ^ SEED;
    size_t n = count(s);
    float *v = malloc(n * sizeof(*v)), mul, plus;
    int rc;

    if (!v)
        return -1;
    scale_of(s->name, &mul, &plus);
    for (size_t i = 0; i < n; i++)
        v[i] = uniform(seed, i) * mul + plus;
    rc = fwrite(v, sizeof(*v), n, f) == n ? 0 : -1;
    free(v);
    return rc;
}

/* The header of a safetensors file: its length, then JSON padded with blanks to 8 bytes. */
static int write_header(FILE *f, const struct model *m)
{
    size_t cap = m->n * 256 + 64, len = 0;
    char *json = malloc(cap);
    uint64_t at = 0, padded;
    int rc = -1;

    if (!json)
        return -1;
    len += (size_t)snprintf(json + len, cap - len, "{");
    for (size_t i = 0; i < m->n; i++) {
        const struct spec *s = &m->t[i];
        uint64_t bytes = count(s) * sizeof(float);

        len += (size_t)snprintf(json + len, cap - len, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%u",
                                i ? "," : "", s->name, s->dims[0]);
        for (uint32_t k = 1; k < s->rank; k++)
            len += (size_t)snprintf(json + len, cap - len, ",%u", s->dims[k]);
        len += (size_t)snprintf(json + len, cap - len,
                                "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes);
        at += bytes;
    }
    len += (size_t)snprintf(json + len, cap - len, "}");
    while (len % 8)
        json[len++] = ' ';
    padded = len; /* little-endian hosts only, as the rest of the program */
    if (fwrite(&padded, sizeof(padded), 1, f) == 1 && fwrite(json, 1, len, f) == len)
        rc = 0;
    free(json);
    return rc;
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
    static struct model m;
    char path[4096];
    FILE *f;
    int rc;

    describe(&m, vocab, mel_bins);
    if (write_config(dir, vocab, mel_bins) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    f = fopen(path, "wb");
    if (!f)
        return -1;
    rc = write_header(f, &m);
    for (size_t i = 0; i < m.n && rc == 0; i++)
        rc = write_tensor(f, name, &m.t[i]);
    if (fclose(f) != 0)
        rc = -1;
    return rc;
}
