#include "workers/models/bert/bert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/files/weights.h"

struct bert_norm {
    struct tensor gamma, beta; /* [1][hidden] float32 */
};

struct bert_layer {
    struct linear *qkv, *out, *fc1, *fc2;
    struct bert_norm attention_norm, ffn_norm;
};

struct bert {
    struct backend *be;
    struct bert_config config;
    enum precision precision;
    enum dtype type; /* between the products */
    uint32_t tokens;
    struct tensor words;     /* [vocab][hidden] of `type` */
    struct tensor positions; /* [positions][hidden] float32, the type's vector added */
    struct bert_norm norm;
    struct bert_layer layers[BERT_MAX_LAYERS];
    struct token_row *rows, *staged; /* [tokens] in device memory, and in host memory */
    /* Scratch: [tokens][...]. A layer begins and ends with `x`, its middle is `h`; float32. */
    struct tensor x, h;
    struct tensor in;       /* [hidden] of `type`: what products read; none where that is float32 */
    struct tensor qkv;      /* [3 hidden] of `type` */
    struct tensor attended; /* [hidden] of `type` */
    struct tensor ffn;      /* [ffn] of `type` */
};

/* ---- the dimensions, from config.json */

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

/* Weights of out x in with their bias. */
static uint64_t linear_bytes(enum precision p, uint64_t out, uint64_t in)
{
    return precision_product_bytes(p, out, in) + out * sizeof(float);
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

/* ---- the weights, and the memory to work in */

struct loader {
    struct bert *b;
    const struct weights *w;
    const char *prefix;
    struct err *err;
};

#define NAME_MAX_BYTES 160

static float *values_new(uint64_t count, struct err *err)
{
    float *p = malloc((size_t)count * sizeof(*p));

    if (!p)
        err_set(err, ERR_NOMEM, "out of memory: %llu values of weights", (unsigned long long)count);
    return p;
}

static int read_weight_values(struct loader *l, const char *name, uint32_t rank, uint64_t rows,
                              uint64_t cols, float *out)
{
    char full[NAME_MAX_BYTES];
    uint64_t dim[2] = {rows, cols};

    if (snprintf(full, sizeof(full), "%s%s", l->prefix, name) >= (int)sizeof(full))
        return err_set(l->err, ERR_MODEL, "a tensor's name is too long");
    return weights_values(l->w, full, rank, dim, out, l->err);
}

/* Values to device memory of their own. */
static int store_on_device(struct loader *l, enum dtype type, int64_t rows, int64_t cols,
                           const float *values, struct tensor *ret)
{
    struct backend *be = l->b->be;
    void *p = NULL;
    int rc = be->ops->alloc(be, (size_t)(rows * cols) * dtype_size(type), &p, l->err);

    if (rc != 0)
        return rc;
    *ret = tensor_of(type, p, rows, cols);
    return values ? be->ops->put(be, *ret, values, l->err) : 0;
}

/* "weight" and "bias"; "gamma" and "beta" in checkpoints of 2018. */
static int load_norm(struct loader *l, const char *name, struct bert_norm *ret)
{
    uint32_t d = l->b->config.hidden;
    float *values = values_new(d, l->err);
    struct weight found;
    int rc = values ? 0 : ERR_NOMEM;

    for (int i = 0; rc == 0 && i < 2; i++) {
        char part[NAME_MAX_BYTES], full[NAME_MAX_BYTES];

        snprintf(part, sizeof(part), "%s.%s", name, i ? "beta" : "gamma");
        if (snprintf(full, sizeof(full), "%s%s", l->prefix, part) >= (int)sizeof(full) ||
            !weights_find(l->w, full, &found))
            snprintf(part, sizeof(part), "%s.%s", name, i ? "bias" : "weight");
        rc = read_weight_values(l, part, 1, d, 0, values);
        if (rc == 0)
            rc = store_on_device(l, DTYPE_F32, 1, d, values, i ? &ret->beta : &ret->gamma);
    }
    free(values);
    return rc;
}

/* One linear out of `parts` layers over the same input, their outputs one after the other. */
static int load_linear(struct loader *l, const char *layer, const char *const *names,
                       uint64_t parts, uint64_t out, uint64_t in, struct linear **ret)
{
    struct backend *be = l->b->be;
    float *values = values_new((in + 1) * out * parts, l->err);
    float *bias = values ? values + in * out * parts : NULL;
    /* The host takes one sequence at a time: of a passage, some fifty tokens. */
    int64_t rows = be->info.wide_batches ? l->b->tokens : 64;
    int rc = values ? 0 : ERR_NOMEM;

    for (uint64_t i = 0; rc == 0 && i < parts; i++) {
        char name[NAME_MAX_BYTES];

        snprintf(name, sizeof(name), "%s%s.weight", layer, names[i]);
        rc = read_weight_values(l, name, 2, out, in, values + i * out * in);
        snprintf(name, sizeof(name), "%s%s.bias", layer, names[i]);
        if (rc == 0)
            rc = read_weight_values(l, name, 1, out, 0, bias + i * out);
    }
    if (rc == 0)
        rc = be->ops->linear_new(be, l->b->precision, LINEAR_WIDE, rows, (int64_t)(out * parts),
                                 (int64_t)in, values, bias, ret, l->err);
    free(values);
    return rc;
}

static int load_layer(struct loader *l, uint32_t i)
{
    static const char *const qkv[] = {"attention.self.query", "attention.self.key",
                                      "attention.self.value"};
    static const char *const out[] = {"attention.output.dense"};
    static const char *const fc1[] = {"intermediate.dense"}, *const fc2[] = {"output.dense"};
    struct bert_layer *layer = &l->b->layers[i];
    uint32_t d = l->b->config.hidden, ffn = l->b->config.ffn;
    char p[64], norm[NAME_MAX_BYTES];
    int rc;

    snprintf(p, sizeof(p), "encoder.layer.%u.", i);
    rc = load_linear(l, p, qkv, 3, d, d, &layer->qkv);
    if (rc == 0)
        rc = load_linear(l, p, out, 1, d, d, &layer->out);
    if (rc == 0)
        rc = load_linear(l, p, fc1, 1, ffn, d, &layer->fc1);
    if (rc == 0)
        rc = load_linear(l, p, fc2, 1, d, ffn, &layer->fc2);
    snprintf(norm, sizeof(norm), "%sattention.output.LayerNorm", p);
    if (rc == 0)
        rc = load_norm(l, norm, &layer->attention_norm);
    snprintf(norm, sizeof(norm), "%soutput.LayerNorm", p);
    if (rc == 0)
        rc = load_norm(l, norm, &layer->ffn_norm);
    return rc;
}

static int load_words(struct loader *l)
{
    uint64_t vocab = l->b->config.vocab, d = l->b->config.hidden;
    float *values = values_new(vocab * d, l->err);
    int rc = values
                 ? read_weight_values(l, "embeddings.word_embeddings.weight", 2, vocab, d, values)
                 : ERR_NOMEM;

    if (rc == 0)
        rc = store_on_device(l, l->b->type, (int64_t)vocab, (int64_t)d, values, &l->b->words);
    free(values);
    return rc;
}

/* Every token is of type 0, so its vector may lie in the positions'. */
static int load_positions(struct loader *l)
{
    uint64_t n = l->b->config.positions, d = l->b->config.hidden, types = l->b->config.types;
    float *values = values_new((n + types) * d, l->err), *type = values ? values + n * d : NULL;
    int rc = values
                 ? read_weight_values(l, "embeddings.position_embeddings.weight", 2, n, d, values)
                 : ERR_NOMEM;

    if (rc == 0 && types)
        rc = read_weight_values(l, "embeddings.token_type_embeddings.weight", 2, types, d, type);
    for (uint64_t i = 0; rc == 0 && types && i < n * d; i++)
        values[i] += type[i % d];
    if (rc == 0)
        rc = store_on_device(l, DTYPE_F32, (int64_t)n, (int64_t)d, values, &l->b->positions);
    free(values);
    return rc;
}

static int make_scratch(struct loader *l)
{
    struct bert *b = l->b;
    int64_t n = b->tokens, d = b->config.hidden;
    void *rows = NULL;
    int rc = b->be->ops->alloc(b->be, b->tokens * sizeof(*b->rows), &rows, l->err);

    b->rows = rows;
    b->staged = calloc(b->tokens, sizeof(*b->staged));
    if (rc == 0 && !b->staged)
        rc = err_set(l->err, ERR_NOMEM, "out of memory for a text encoder");
    if (rc == 0)
        rc = store_on_device(l, DTYPE_F32, n, d, NULL, &b->x);
    if (rc == 0)
        rc = store_on_device(l, DTYPE_F32, n, d, NULL, &b->h);
    if (rc == 0 && b->type != DTYPE_F32)
        rc = store_on_device(l, b->type, n, d, NULL, &b->in);
    if (rc == 0)
        rc = store_on_device(l, b->type, n, 3 * d, NULL, &b->qkv);
    if (rc == 0)
        rc = store_on_device(l, b->type, n, d, NULL, &b->attended);
    if (rc == 0)
        rc = store_on_device(l, b->type, n, b->config.ffn, NULL, &b->ffn);
    return rc;
}

int bert_load(const struct weights *w, const char *prefix, const struct bert_config *c,
              struct backend *be, enum precision precision, uint32_t tokens, struct bert **ret,
              struct err *err)
{
    struct loader l = {.w = w, .prefix = prefix, .err = err};
    struct bert *b;
    int rc = backend_precision(be, precision, &precision, err);

    if (rc != 0)
        return rc;
    b = l.b = calloc(1, sizeof(*b));
    if (!b)
        return err_set(err, ERR_NOMEM, "out of memory for a text encoder");
    b->be = be;
    b->config = *c;
    b->precision = precision;
    b->type = precision_type(precision);
    b->tokens = tokens > bert_max_tokens(c) ? tokens : bert_max_tokens(c);
    rc = load_words(&l);
    if (rc == 0)
        rc = load_positions(&l);
    if (rc == 0)
        rc = load_norm(&l, "embeddings.LayerNorm", &b->norm);
    for (uint32_t i = 0; rc == 0 && i < c->layers; i++)
        rc = load_layer(&l, i);
    if (rc == 0)
        rc = make_scratch(&l);
    if (rc != 0) {
        bert_free(b);
        return rc;
    }
    *ret = b;
    return 0;
}

static void free_norm(struct backend *be, struct bert_norm *n)
{
    be->ops->release(be, n->gamma.data);
    be->ops->release(be, n->beta.data);
}

void bert_free(struct bert *b)
{
    struct backend *be = b ? b->be : NULL;

    if (!b)
        return;
    for (uint32_t i = 0; i < b->config.layers; i++) {
        struct bert_layer *l = &b->layers[i];

        be->ops->linear_free(be, l->qkv);
        be->ops->linear_free(be, l->out);
        be->ops->linear_free(be, l->fc1);
        be->ops->linear_free(be, l->fc2);
        free_norm(be, &l->attention_norm);
        free_norm(be, &l->ffn_norm);
    }
    free_norm(be, &b->norm);
    be->ops->release(be, b->words.data);
    be->ops->release(be, b->positions.data);
    be->ops->release(be, b->rows);
    be->ops->release(be, b->x.data);
    be->ops->release(be, b->h.data);
    be->ops->release(be, b->in.data);
    be->ops->release(be, b->qkv.data);
    be->ops->release(be, b->attended.data);
    be->ops->release(be, b->ffn.data);
    free(b->staged);
    free(b);
}

const struct bert_config *bert_config(const struct bert *b) { return &b->config; }

uint32_t bert_tokens(const struct bert *b) { return b->tokens; }

/* ---- running */

/* The tokens [from, from + n) of the scratch tensors. */
struct piece {
    struct spans spans;
    struct tensor x, h, in, qkv, attended, ffn;
};

static struct piece piece_of(struct bert *b, struct spans spans, int64_t from)
{
    int64_t n = spans.at[spans.count];
    struct piece p = {.spans = spans};

    p.x = tensor_rows(b->x, from, n);
    p.h = tensor_rows(b->h, from, n);
    p.in = b->type == DTYPE_F32 ? p.x : tensor_rows(b->in, from, n);
    p.qkv = tensor_rows(b->qkv, from, n);
    p.attended = tensor_rows(b->attended, from, n);
    p.ffn = tensor_rows(b->ffn, from, n);
    return p;
}

/* `sum`, normalised, to `y`; and to p->in what the products read of it. */
static int apply_layer_norm(struct bert *b, struct tensor sum, const struct bert_norm *n,
                            struct tensor y, struct piece *p, struct err *err)
{
    int rc = b->be->ops->layer_norm(b->be, sum, n->gamma, n->beta, b->config.epsilon, y, err);

    if (b->type == DTYPE_F32)
        p->in = y;
    else if (rc == 0)
        rc = b->be->ops->copy(b->be, p->in, y, err);
    return rc;
}

/* x to x; what each half adds up goes to the other tensor when it is normalised. */
static int run_layer(struct bert *b, const struct bert_layer *l, struct piece *p, struct err *err)
{
    struct backend *be = b->be;
    int64_t d = b->config.hidden;
    uint32_t size = b->config.hidden / b->config.heads;
    int rc = be->ops->linear(be, l->qkv, p->in, EPILOGUE_NONE, p->qkv, err);

    if (rc == 0)
        rc =
            be->ops->attention_spans(be, p->spans, b->config.heads, size, 1.0f / sqrtf((float)size),
                                     tensor_columns(p->qkv, 0, d), tensor_columns(p->qkv, d, d),
                                     tensor_columns(p->qkv, 2 * d, d), NULL, p->attended, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->out, p->attended, EPILOGUE_ADD, p->x, err);
    if (rc == 0)
        rc = apply_layer_norm(b, p->x, &l->attention_norm, p->h, p, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc1, p->in, b->config.activation, p->ffn, err);
    if (rc == 0)
        rc = be->ops->linear(be, l->fc2, p->ffn, EPILOGUE_ADD, p->h, err);
    return rc == 0 ? apply_layer_norm(b, p->h, &l->ffn_norm, p->x, p, err) : rc;
}

/* RoBERTa counts the tokens that are no padding; a padding token within a text has the padding's
 * own position. */
static int stage_rows(struct bert *b, struct spans spans, const int32_t *ids, struct err *err)
{
    const struct bert_config *c = &b->config;

    for (uint32_t i = 0; i < spans.count; i++) {
        uint32_t pos = c->offset ? c->padding + 1 : 0;

        if (spans.at[i + 1] <= spans.at[i] ||
            spans.at[i + 1] - spans.at[i] > bert_max_tokens(&b->config))
            return err_set(err, ERR_MODEL, "a sequence of %u tokens cannot be read by this model",
                           spans.at[i + 1] - spans.at[i]);
        for (uint32_t k = spans.at[i]; k < spans.at[i + 1]; k++) {
            bool padding = c->offset && ids[k] == (int32_t)c->padding;

            if (ids[k] < 0 || (uint32_t)ids[k] >= c->vocab)
                return err_set(err, ERR_MODEL, "token %d is none of the model's %u", ids[k],
                               c->vocab);
            b->staged[k] =
                (struct token_row){.token = ids[k], .pos = (int32_t)(padding ? c->padding : pos++)};
        }
    }
    return 0;
}

/* The sequences of `spans`, which begins at 0, as one batch, from row `from` of the scratch on. */
static int run_piece(struct bert *b, struct spans spans, uint32_t from, struct err *err)
{
    struct piece p = piece_of(b, spans, from);
    int rc = b->be->ops->embed(b->be, b->words, b->positions, b->rows + from, p.h, err);

    if (rc == 0)
        rc = apply_layer_norm(b, p.h, &b->norm, p.x, &p, err);
    for (uint32_t i = 0; rc == 0 && i < b->config.layers; i++)
        rc = run_layer(b, &b->layers[i], &p, err);
    return rc;
}

int bert_run(struct bert *b, struct spans spans, const int32_t *ids, struct tensor *hidden,
             struct err *err)
{
    uint32_t n = spans.count ? spans.at[spans.count] : 0;
    int rc;

    if (n == 0 || n > b->tokens)
        return err_set(err, ERR_MODEL, "%u tokens at once cannot be read by this model", n);
    rc = stage_rows(b, spans, ids, err);
    if (rc == 0)
        rc = b->be->ops->write(b->be, b->rows, b->staged, n * sizeof(*b->rows), err);
    if (rc == 0 && b->be->info.wide_batches)
        rc = run_piece(b, spans, 0, err);
    for (uint32_t i = 0; rc == 0 && !b->be->info.wide_batches && i < spans.count; i++) {
        uint32_t one[2] = {0, spans.at[i + 1] - spans.at[i]};

        rc = run_piece(b, (struct spans){one, 1}, spans.at[i], err);
    }
    if (rc == 0)
        *hidden = tensor_rows(b->x, 0, n);
    return rc;
}
