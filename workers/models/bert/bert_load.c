/* The encoder's weights, and the memory that it works in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/bert/bert_net.h"
#include "workers/models/files/weights.h"

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
