/* The dimensions of an encoder, from config.json. */
#include <string.h>

#include "workers/models/bert/bert.h"
#include "workers/models/bert/bert_net.h"

static int read_u32(const json_t *config, const char *key, uint32_t min, uint32_t max,
                    uint32_t *value, struct err *err)
{
    const json_t *j = json_object_get(config, key);

    if (!j || json_is_null(j)) /* *value is what transformers assume */
        return 0;
    if (!json_is_integer(j) || json_integer_value(j) < min || json_integer_value(j) > max)
        return err_set(err, ERR_MODEL, "config.json: %s is not a number from %u to %u", key, min,
                       max);
    *value = (uint32_t)json_integer_value(j);
    return 0;
}

static int read_kind(const json_t *config, struct bert_config *c, struct err *err)
{
    static const char *const roberta[] = {"roberta", "xlm-roberta", "camembert", "clap_text_model"};
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const char *positions = json_string_value(json_object_get(config, "position_embedding_type"));

    for (size_t i = 0; type && i < sizeof(roberta) / sizeof(roberta[0]); i++)
        c->offset |= strcmp(type, roberta[i]) == 0;
    if (!type || (!c->offset && strcmp(type, "bert") != 0))
        return err_set(err, ERR_MODEL,
                       "config.json describes a model of type '%.40s'; text encoders of the types "
                       "bert, roberta and xlm-roberta are read",
                       type ? type : "(none)");
    if (positions && strcmp(positions, "absolute") != 0)
        return err_set(err, ERR_MODEL, "config.json: positions that are '%.40s' are not supported",
                       positions);
    return 0;
}

static int read_activation(const json_t *config, struct bert_config *c, struct err *err)
{
    const char *name = json_string_value(json_object_get(config, "hidden_act"));

    c->activation = name && strcmp(name, "relu") == 0 ? EPILOGUE_RELU : EPILOGUE_GELU;
    if (name && strcmp(name, "relu") != 0 && strcmp(name, "gelu") != 0)
        return err_set(err, ERR_MODEL,
                       "config.json: activation '%.40s' is not supported, only gelu and relu",
                       name);
    return 0;
}

static int read_epsilon(const json_t *config, struct bert_config *c, struct err *err)
{
    const json_t *j = json_object_get(config, "layer_norm_eps");
    double v = j ? json_number_value(j) : 1e-12;

    if (!(v >= 1e-20 && v <= 0.1))
        return err_set(err, ERR_MODEL, "config.json: layer_norm_eps is not from 1e-20 to 0.1");
    c->epsilon = (float)v;
    return 0;
}

static int check_heads(const struct bert_config *c, struct err *err)
{
    uint32_t size = c->heads ? c->hidden / c->heads : 0;

    if (c->hidden % c->heads != 0 || size % 8 != 0 || size > 128 || c->ffn % 2 != 0)
        return err_set(err, ERR_MODEL,
                       "this model has %u attention heads for %u values: heads of 8, 16 ... 128 "
                       "values are supported",
                       c->heads, c->hidden);
    if (bert_max_tokens(c) < 2)
        return err_set(err, ERR_MODEL, "this model has %u positions, too few for a text",
                       c->positions);
    return 0;
}

int bert_config_read(const json_t *config, struct bert_config *ret, struct err *err)
{
    struct bert_config c = {.hidden = 768, .layers = 12, .heads = 12, .ffn = 3072, .types = 2};
    int rc = read_kind(config, &c, err);

    c.positions = 512;
    c.vocab = c.offset ? 50265 : 30522;
    c.padding = c.offset;
    if (rc == 0)
        rc = read_activation(config, &c, err);
    if (rc == 0)
        rc = read_epsilon(config, &c, err);
    if (rc == 0)
        rc = read_u32(config, "vocab_size", 1, 1u << 20, &c.vocab, err);
    if (rc == 0)
        rc = read_u32(config, "hidden_size", 8, BERT_MAX_HIDDEN, &c.hidden, err);
    if (rc == 0)
        rc = read_u32(config, "num_hidden_layers", 1, BERT_MAX_LAYERS, &c.layers, err);
    if (rc == 0)
        rc = read_u32(config, "num_attention_heads", 1, 512, &c.heads, err);
    if (rc == 0)
        rc = read_u32(config, "intermediate_size", 2, 65536, &c.ffn, err);
    if (rc == 0)
        rc = read_u32(config, "max_position_embeddings", 1, 1u << 16, &c.positions, err);
    if (rc == 0)
        rc = read_u32(config, "type_vocab_size", 0, 1024, &c.types, err);
    if (rc == 0)
        rc = read_u32(config, "pad_token_id", 0, 1u << 20, &c.padding, err);
    if (rc == 0)
        rc = check_heads(&c, err);
    if (rc == 0)
        *ret = c;
    return rc;
}

uint32_t bert_max_tokens(const struct bert_config *c)
{
    uint32_t before = c->offset ? c->padding + 1 : 0;
    uint32_t n = c->positions > before ? c->positions - before : 0;

    return n < BACKEND_MAX_KEYS ? n : BACKEND_MAX_KEYS;
}

/* Weights of out x in, bias, and scales where they are of eight bits. */
static uint64_t linear_bytes(enum precision p, uint64_t out, uint64_t in)
{
    uint32_t weight = precision_weight_bytes(p);

    return out * in * weight + out * sizeof(float) * (weight == 1 ? 2 : 1);
}

uint64_t bert_predict_bytes(const struct bert_config *c, enum precision precision, uint32_t tokens)
{
    uint64_t d = c->hidden, size = dtype_size(precision_type(precision));
    uint64_t layer = linear_bytes(precision, 3 * d, d) + linear_bytes(precision, d, d) +
                     linear_bytes(precision, c->ffn, d) + linear_bytes(precision, d, c->ffn) +
                     4 * d * sizeof(float);
    uint64_t token = sizeof(struct token_row) + 2 * d * sizeof(float) +
                     (4 * d + c->ffn + (size < sizeof(float) ? d : 0)) * size;

    return c->vocab * d * size + (c->positions + 2) * d * sizeof(float) + c->layers * layer +
           tokens * token;
}
