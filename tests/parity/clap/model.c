#include "tests/parity/clap/model.h"

#include "tests/common/test.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ENCODER "audio_model.audio_encoder."
#define HIDDEN 48 /* of the small text tower */
#define FFN 96

const struct clap_shape clap_small = {"small", 24, 1920, 128, 32, 3, {2, 2, 1}, {2, 4, 8}, true};
const struct clap_shape clap_published = {"published",    512,  480, 256, 96, 4, {2, 2, 6, 2},
                                          {4, 8, 16, 32}, false};

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);

    return n >= k && strcmp(s + n - k, tail) == 0;
}

/* make_fixtures.py's scale(). */
static void scale_of(const char *name, uint32_t rank, const uint64_t *dim, float *mul, float *plus)
{
    uint64_t in = 1;

    *plus = 0.0f;
    for (uint32_t i = 1; i < rank; i++)
        in *= dim[i];
    if (ends_with(name, "batch_norm.weight"))
        *mul = 0.01f, *plus = 0.04f;
    else if (ends_with(name, "running_mean"))
        *mul = 5.0f, *plus = -60.0f;
    else if (ends_with(name, "running_var"))
        *mul = 0.5f, *plus = 1.0f;
    else if (ends_with(name, "bias"))
        *mul = 0.0625f;
    else if (strstr(name, "norm") || strstr(name, "LayerNorm"))
        *mul = 0.125f, *plus = 1.0f;
    else if (ends_with(name, "relative_position_bias_table") || strstr(name, "embeddings"))
        *mul = 0.5f;
    else
        *mul = (float)sqrt(3.0 / (double)in);
}

static void add(struct formula *f, uint32_t rank, const uint64_t *dim, const char *name, ...)
    __attribute__((format(printf, 4, 5)));

static void add(struct formula *f, uint32_t rank, const uint64_t *dim, const char *name, ...)
{
    char full[160];
    float mul, plus;
    va_list args;

    va_start(args, name);
    vsnprintf(full, sizeof(full), name, args);
    va_end(args);
    scale_of(full, rank, dim, &mul, &plus);
    formula_add(f, mul, plus, rank, dim, "%s", full);
}

static void add_linear(struct formula *f, const char *prefix, const char *name, uint64_t out,
                       uint64_t in)
{
    const uint64_t dim[2] = {out, in};

    add(f, 2, dim, "%s%s.weight", prefix, name);
    add(f, 1, dim, "%s%s.bias", prefix, name);
}

static void add_norm(struct formula *f, const char *prefix, const char *name, uint64_t width)
{
    add(f, 1, &width, "%s%s.weight", prefix, name);
    add(f, 1, &width, "%s%s.bias", prefix, name);
}

static void add_layer(struct formula *f, const char *prefix, uint64_t width, uint64_t heads)
{
    const uint64_t table[2] = {15 * 15, heads};

    add_norm(f, prefix, "layernorm_before", width);
    add_norm(f, prefix, "layernorm_after", width);
    add_linear(f, prefix, "attention.self.query", width, width);
    add_linear(f, prefix, "attention.self.key", width, width);
    add_linear(f, prefix, "attention.self.value", width, width);
    add_linear(f, prefix, "attention.output.dense", width, width);
    add_linear(f, prefix, "intermediate.dense", 4 * width, width);
    add_linear(f, prefix, "output.dense", width, 4 * width);
    add(f, 2, table, "%sattention.self.relative_position_bias_table", prefix);
}

static void add_audio(struct formula *f, const struct clap_shape *s)
{
    const uint64_t conv[4] = {s->width, 1, 4, 4}, bins = 64;
    uint64_t width = s->width;
    char prefix[100];

    add_norm(f, ENCODER, "batch_norm", bins);
    add(f, 1, &bins, ENCODER "batch_norm.running_mean");
    add(f, 1, &bins, ENCODER "batch_norm.running_var");
    add(f, 4, conv, ENCODER "patch_embed.proj.weight");
    add(f, 1, conv, ENCODER "patch_embed.proj.bias");
    add_norm(f, ENCODER, "patch_embed.norm", width);
    for (uint32_t i = 0; i < s->stages; i++, width *= 2) {
        const uint64_t reduction[2] = {2 * width, 4 * width};

        for (uint32_t k = 0; k < s->depth[i]; k++) {
            snprintf(prefix, sizeof(prefix), ENCODER "layers.%u.blocks.%u.", i, k);
            add_layer(f, prefix, width, s->heads[i]);
        }
        if (i + 1 == s->stages)
            break;
        add(f, 2, reduction, ENCODER "layers.%u.downsample.reduction.weight", i);
        snprintf(prefix, sizeof(prefix), ENCODER "layers.%u.", i);
        add_norm(f, prefix, "downsample.norm", 4 * width);
    }
    add_norm(f, ENCODER, "norm", width);
    add_linear(f, "audio_projection.", "linear1", s->size, width);
    add_linear(f, "audio_projection.", "linear2", s->size, s->size);
}

static void add_text(struct formula *f, const struct clap_shape *s)
{
    const uint64_t words[2] = {300, HIDDEN}, positions[2] = {66, HIDDEN}, types[2] = {1, HIDDEN};
    char prefix[100];

    add(f, 2, words, "text_model.embeddings.word_embeddings.weight");
    add(f, 2, positions, "text_model.embeddings.position_embeddings.weight");
    add(f, 2, types, "text_model.embeddings.token_type_embeddings.weight");
    add_norm(f, "text_model.embeddings.", "LayerNorm", HIDDEN);
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(prefix, sizeof(prefix), "text_model.encoder.layer.%u.", i);
        add_linear(f, prefix, "attention.self.query", HIDDEN, HIDDEN);
        add_linear(f, prefix, "attention.self.key", HIDDEN, HIDDEN);
        add_linear(f, prefix, "attention.self.value", HIDDEN, HIDDEN);
        add_linear(f, prefix, "attention.output.dense", HIDDEN, HIDDEN);
        add_norm(f, prefix, "attention.output.LayerNorm", HIDDEN);
        add_linear(f, prefix, "intermediate.dense", FFN, HIDDEN);
        add_linear(f, prefix, "output.dense", HIDDEN, FFN);
        add_norm(f, prefix, "output.LayerNorm", HIDDEN);
    }
    add_linear(f, "text_model.", "pooler.dense", HIDDEN, HIDDEN);
    add_linear(f, "text_projection.", "linear1", s->size, HIDDEN);
    add_linear(f, "text_projection.", "linear2", s->size, s->size);
}

struct formula *clap_model(const struct clap_shape *s)
{
    struct formula *f = formula_new(s->name);

    add_audio(f, s);
    if (s->text)
        add_text(f, s);
    return f;
}

static void put_list(FILE *f, const char *key, const uint32_t *v, uint32_t n)
{
    fprintf(f, ",\"%s\":[", key);
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "%s%u", i ? "," : "", v[i]);
    fprintf(f, "]");
}

static int write_configs(const struct clap_shape *s, const char *dir)
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof(path), "%s/config.json", dir);
    f = fopen(path, "w");
    if (!f)
        return -1;
    fprintf(f,
            "{\"model_type\":\"clap\",\"projection_dim\":%u,\"audio_config\":{\"spec_size\":%u,"
            "\"patch_embeds_hidden_size\":%u,\"hidden_size\":%u",
            s->size, s->image, s->width, s->width << (s->stages - 1));
    put_list(f, "depths", s->depth, s->stages);
    put_list(f, "num_attention_heads", s->heads, s->stages);
    fprintf(f,
            "},\"text_config\":{\"vocab_size\":300,\"hidden_size\":%d,\"num_hidden_layers\":2,"
            "\"num_attention_heads\":2,\"intermediate_size\":%d,\"max_position_embeddings\":66}}\n",
            HIDDEN, FFN);
    if (fclose(f) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s/preprocessor_config.json", dir);
    f = fopen(path, "w");
    if (!f)
        return -1;
    fprintf(f,
            "{\"feature_size\":64,\"sampling_rate\":48000,\"hop_length\":%u,\"max_length_s\":10,"
            "\"fft_window_size\":1024,\"frequency_min\":50,\"frequency_max\":14000,"
            "\"padding\":\"repeatpad\",\"truncation\":\"rand_trunc\"}\n",
            s->hop);
    return fclose(f);
}

int clap_model_write(const struct clap_shape *s, const struct formula *f, const char *dir)
{
    char path[4096];

    mkdir(dir, 0777);
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    return write_configs(s, dir) == 0 ? formula_write(f, path) : -1;
}

int clap_model_tokenizer(const char *dir)
{
    FILE *from = fopen(test_source_path("tests/parity/clap/tokenizer.json"), "rbe"), *to;
    char path[4096], bytes[8192];
    size_t n;

    if (!from)
        return -1;
    n = fread(bytes, 1, sizeof(bytes), from);
    fclose(from);
    if (n < 1 || n == sizeof(bytes))
        return -1;
    snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    to = fopen(path, "wbe");
    if (!to)
        return -1;
    n -= fwrite(bytes, 1, n, to);
    return fclose(to) == 0 && n == 0 ? 0 : -1;
}

float *clap_noise(const char *name, uint64_t count, float mul)
{
    struct formula *f = formula_new("audio");
    float *v;

    formula_add(f, mul, 0.0f, 1, &count, "%s", name);
    v = formula_values(f, &f->t[0]);
    formula_free(f);
    return v;
}
