#include "tests/parity/embed/model.h"

#include "tests/common/files.h"
#include "tests/common/test.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/formula_weights.h"

#define SMALL ENCODER_HIDDEN, 3, 3, 96

const struct encoder_shape encoder_bert = {"bert", "bert", "wordpiece", 900, 64, 2, 1e-12, SMALL};
const struct encoder_shape encoder_xlmr = {"xlmr", "xlm-roberta", "unigram", 702, 66,
                                           1,      1e-5,          SMALL};
const struct encoder_shape encoder_minilm = {"minilm", "bert", "wordpiece", 30522, 512, 2,
                                             1e-12,    384,    6,           12,    1536};
const struct encoder_shape encoder_bge = {"bge", "bert", "wordpiece", 30522, 512, 2,
                                          1e-12, 768,    12,          12,    3072};

static void add(struct formula *f, float mul, float plus, uint64_t rows, uint64_t cols,
                const char *prefix, const char *name)
{
    const uint64_t dim[2] = {rows, cols};

    formula_add(f, mul, plus, cols ? 2 : 1, dim, "%s%s", prefix, name);
}

/* The fixtures' scale where they end; wider sums are kept as large as the small ones'. */
static void add_linear(struct formula *f, const char *prefix, const char *name, uint64_t out,
                       uint64_t in)
{
    float scale = in <= 96 ? 0.25f : 0.25f * (float)sqrt(48.0 / (double)in);
    char full[96];

    snprintf(full, sizeof(full), "%s%s.", prefix, name);
    add(f, scale, 0.0f, out, in, full, "weight");
    add(f, 0.125f, 0.0f, out, 0, full, "bias");
}

static void add_norm(struct formula *f, const char *prefix, uint64_t d)
{
    add(f, 0.25f, 1.0f, d, 0, prefix, "LayerNorm.weight");
    add(f, 0.125f, 0.0f, d, 0, prefix, "LayerNorm.bias");
}

static void add_all(struct formula *f, const struct encoder_shape *s)
{
    const uint64_t d = s->hidden;

    add(f, 0.5f, 0.0f, s->vocab, d, "embeddings.", "word_embeddings.weight");
    add(f, 0.5f, 0.0f, s->positions, d, "embeddings.", "position_embeddings.weight");
    add(f, 0.5f, 0.0f, s->types, d, "embeddings.", "token_type_embeddings.weight");
    add_norm(f, "embeddings.", d);
    for (uint32_t i = 0; i < s->layers; i++) {
        char p[64], part[96];

        snprintf(p, sizeof(p), "encoder.layer.%u.", i);
        add_linear(f, p, "attention.self.query", d, d);
        add_linear(f, p, "attention.self.key", d, d);
        add_linear(f, p, "attention.self.value", d, d);
        add_linear(f, p, "attention.output.dense", d, d);
        snprintf(part, sizeof(part), "%sattention.output.", p);
        add_norm(f, part, d);
        add_linear(f, p, "intermediate.dense", s->ffn, d);
        add_linear(f, p, "output.dense", d, s->ffn);
        snprintf(part, sizeof(part), "%soutput.", p);
        add_norm(f, part, d);
    }
}

static void copy_tokenizer(const struct encoder_shape *s, const char *dir)
{
    char rel[160], path[512];

    snprintf(rel, sizeof(rel), "tests/unit/text/encoders/%s/tokenizer.json", s->tokenizer);
    snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    file_copy(test_source_path(rel), path);
}

void encoder_file(const char *dir, const char *name, const char *text)
{
    char path[512];

    if (strchr(name, '/')) {
        snprintf(path, sizeof(path), "%s/%.*s", dir, (int)(strchr(name, '/') - name), name);
        mkdir(path, 0777);
    }
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (!text) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    file_text(path, text);
}

void encoder_folder(const struct encoder_shape *s, char *dir)
{
    struct formula *f = formula_new(s->name);
    char path[512];

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path),
             "{\"model_type\":\"%s\",\"hidden_act\":\"gelu\",\"vocab_size\":%u,\"hidden_size\":%u,"
             "\"num_hidden_layers\":%u,\"num_attention_heads\":%u,\"intermediate_size\":%u,"
             "\"max_position_embeddings\":%u,\"type_vocab_size\":%u,\"layer_norm_eps\":%g}",
             s->type, s->vocab, s->hidden, s->layers, s->heads, s->ffn, s->positions, s->types,
             s->epsilon);
    encoder_file(dir, "config.json", path);
    copy_tokenizer(s, dir);
    add_all(f, s);
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    assert_int_equal(formula_write(f, path), 0);
    formula_free(f);
}

void encoder_remove(const char *dir)
{
    static const char *const names[] = {"config.json",
                                        "tokenizer.json",
                                        "model.safetensors",
                                        "modules.json",
                                        "1_Pooling/config.json",
                                        "sentence_bert_config.json",
                                        "config_sentence_transformers.json",
                                        "1_Pooling"};
    char path[512];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        remove(path);
    }
    rmdir(dir);
}
