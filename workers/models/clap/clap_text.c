#include "workers/models/clap/clap_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/utf8.h"
#include "gpu/backend.h"
#include "workers/models/bert/bert.h"
#include "workers/models/files/weights.h"
#include "workers/text/json_file.h"
#include "workers/text/tokenizer/tokenizer.h"

#define MOST_TEXTS 64 /* of one call of the encoder */

struct clap_text_tower {
    struct backend *be; /* borrowed */
    struct tokenizer *tokenizer;
    struct bert *bert;
    uint32_t size, hidden, max_tokens;
    struct linear *pool, *project1, *project2;
    float *first, *pooled;       /* device memory: [MOST_TEXTS][hidden] */
    float *half, *out;           /* device memory: [MOST_TEXTS][size] */
    int32_t *ids;                /* host: [bert_tokens] */
    uint32_t at[MOST_TEXTS + 1]; /* where each text's ids begin */
    uint32_t count;
};

/* ---- loading */

/* Adds the defaults of transformers' ClapTextConfig to text_config. */
static int with_defaults(json_t *text, struct bert_config *ret, struct err *err)
{
    json_t *usual =
        json_pack("{s:s, s:i, s:i, s:i, s:i}", "model_type", "clap_text_model", "vocab_size", 50265,
                  "max_position_embeddings", 514, "type_vocab_size", 1, "pad_token_id", 1);
    int rc;

    if (!usual || json_object_update_missing(text, usual) != 0)
        rc = err_no_memory(err, "the text tower of CLAP");
    else
        rc = bert_config_read(text, ret, err);
    json_decref(usual);
    return rc;
}

static int read_config(const char *dir, struct bert_config *ret, struct err *err)
{
    json_t *config, *text;
    int rc = json_file_need(dir, "config.json", &config, err);

    if (rc != 0)
        return rc;
    text = json_object_get(config, "text_config");
    if (json_is_object(text))
        rc = with_defaults(text, ret, err);
    else
        rc = err_set(err, ERR_MODEL, "config.json has no text_config");
    json_decref(config);
    if (rc != 0)
        utf8_display_err(err);
    return rc;
}

/* One linear layer in float32: there is little of them. */
static int load_linear(struct clap_text_tower *t, const struct weights *w, const char *prefix,
                       uint64_t out, uint64_t in, struct linear **ret, struct err *err)
{
    const uint64_t dim[2] = {out, in};
    float *values = malloc((size_t)(out * in + out) * sizeof(*values));
    char name[80];
    int rc = values ? 0 : err_no_memory(err, "the text tower of CLAP");

    snprintf(name, sizeof(name), "%s.weight", prefix);
    if (rc == 0)
        rc = weights_values(w, name, 2, dim, values, err);
    snprintf(name, sizeof(name), "%s.bias", prefix);
    if (rc == 0)
        rc = weights_values(w, name, 1, dim, values + out * in, err);
    if (rc == 0)
        rc = t->be->ops->linear_new(t->be, PRECISION_F32, LINEAR_ROWS, MOST_TEXTS, (int64_t)out,
                                    (int64_t)in, values, values + out * in, ret, err);
    free(values);
    return rc;
}

static int load_head(struct clap_text_tower *t, const struct weights *w, struct err *err)
{
    uint64_t hidden = t->hidden, size = t->size;
    int rc = load_linear(t, w, "text_model.pooler.dense", hidden, hidden, &t->pool, err);

    if (rc == 0)
        rc = load_linear(t, w, "text_projection.linear1", size, hidden, &t->project1, err);
    return rc == 0 ? load_linear(t, w, "text_projection.linear2", size, size, &t->project2, err)
                   : rc;
}

static int take_memory(struct clap_text_tower *t, struct err *err)
{
    struct {
        float **ret;
        size_t each;
    } want[] = {
        {&t->first, t->hidden}, {&t->pooled, t->hidden}, {&t->half, t->size}, {&t->out, t->size}};
    void *p = NULL;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(want) / sizeof(want[0]); i++) {
        rc = t->be->ops->alloc(t->be, MOST_TEXTS * want[i].each * sizeof(float), &p, err);
        if (rc == 0)
            *want[i].ret = p;
    }
    t->ids = malloc(bert_tokens(t->bert) * sizeof(*t->ids));
    return rc == 0 && !t->ids ? err_no_memory(err, "the text tower of CLAP") : rc;
}

static int load_text_tower(struct clap_text_tower *t, const char *dir, const struct weights *w,
                           enum precision precision, struct err *err)
{
    bool wide = t->be->info.wide_batches && !t->be->info.deterministic;
    struct bert_config c = {0};
    uint32_t tokens;
    int rc = read_config(dir, &c, err);

    if (rc != 0)
        return rc;
    t->hidden = c.hidden;
    t->max_tokens = bert_max_tokens(&c);
    tokens = wide && t->max_tokens < CLAP_TEXT_TOKENS ? CLAP_TEXT_TOKENS : t->max_tokens;
    rc = tokenizer_load(dir, &t->tokenizer, err);
    if (rc == 0 && tokenizer_size(t->tokenizer) > c.vocab)
        rc = err_set(err, ERR_MODEL, "tokenizer.json has %u tokens, and the model %u",
                     tokenizer_size(t->tokenizer), c.vocab);
    if (rc == 0 && tokenizer_specials(t->tokenizer) >= t->max_tokens)
        rc =
            err_set(err, ERR_MODEL, "the model reads %u tokens, too few for a text", t->max_tokens);
    if (rc == 0)
        rc = bert_load(w, "text_model.", &c, t->be, precision, tokens, &t->bert, err);
    if (rc == 0)
        rc = load_head(t, w, err);
    return rc == 0 ? take_memory(t, err) : rc;
}

/* A text without a word, so that what the device takes is taken now. */
static int warm_up_text_tower(struct clap_text_tower *t, struct err *err)
{
    float *out = malloc(t->size * sizeof(*out));
    int rc = out ? clap_text_run(t, (const char *[]){""}, 1, out, err)
                 : err_no_memory(err, "the text tower of CLAP");

    free(out);
    return rc;
}

int clap_text_load(const char *dir, uint32_t size, const struct weights *w, struct backend *be,
                   enum precision precision, struct clap_text_tower **ret, struct err *err)
{
    struct clap_text_tower *t = calloc(1, sizeof(*t));
    int rc;

    if (!t)
        return err_no_memory(err, "the text tower of CLAP");
    t->be = be;
    t->size = size;
    rc = load_text_tower(t, dir, w, precision, err);
    if (rc == 0) {
        t->be->rehearsing = true;
        rc = warm_up_text_tower(t, err);
        t->be->rehearsing = false;
    }
    if (rc != 0) {
        clap_text_free(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void clap_text_free(struct clap_text_tower *t)
{
    if (!t)
        return;
    tokenizer_free(t->tokenizer);
    bert_free(t->bert);
    t->be->ops->linear_free(t->be, t->pool);
    t->be->ops->linear_free(t->be, t->project1);
    t->be->ops->linear_free(t->be, t->project2);
    t->be->ops->release(t->be, t->first);
    t->be->ops->release(t->be, t->pooled);
    t->be->ops->release(t->be, t->half);
    t->be->ops->release(t->be, t->out);
    free(t->ids);
    free(t);
}

/* ---- running */

/* The ids of a text behind those that are there; *fits false: there is no room for them. */
static int add_text(struct clap_text_tower *t, const char *text, bool *fits, struct err *err)
{
    uint32_t capacity = bert_tokens(t->bert) - t->at[t->count];
    int32_t *ids = NULL;
    size_t n = 0;
    int rc = tokenizer_encode(t->tokenizer, text, strlen(text), t->max_tokens, &ids, &n, err);

    if (rc == 0 && n == 0)
        rc = err_set(err, ERR_MODEL, "tokenizer.json gives no token to begin a text with");
    *fits = rc == 0 && t->count < MOST_TEXTS && n <= capacity;
    if (*fits) {
        memcpy(t->ids + t->at[t->count], ids, n * sizeof(*ids));
        t->at[t->count + 1] = t->at[t->count] + (uint32_t)n;
        t->count++;
    }
    free(ids);
    return rc;
}

/* The texts that were added. */
static int run_texts(struct clap_text_tower *t, float *ret, struct err *err)
{
    const struct backend_ops *ops = t->be->ops;
    struct spans spans = {t->at, t->count};
    struct tensor first = tensor_of(DTYPE_F32, t->first, t->count, t->hidden), hidden;
    struct tensor pooled = tensor_of(DTYPE_F32, t->pooled, t->count, t->hidden);
    struct tensor half = tensor_of(DTYPE_F32, t->half, t->count, t->size);
    struct tensor out = tensor_of(DTYPE_F32, t->out, t->count, t->size);
    int rc = bert_run(t->bert, spans, t->ids, &hidden, err);

    if (rc == 0)
        rc = ops->pool(t->be, POOL_FIRST, spans, hidden, first, err);
    if (rc == 0)
        rc = ops->linear(t->be, t->pool, first, EPILOGUE_NONE, pooled, err);
    if (rc == 0)
        rc = ops->activate(t->be, ACTIVATION_TANH, pooled, pooled, err);
    if (rc == 0)
        rc = ops->linear(t->be, t->project1, pooled, EPILOGUE_RELU, half, err);
    if (rc == 0)
        rc = ops->linear(t->be, t->project2, half, EPILOGUE_NONE, out, err);
    return rc == 0 ? ops->read(t->be, ret, t->out, (size_t)t->count * t->size * sizeof(float), err)
                   : rc;
}

int clap_text_run(struct clap_text_tower *t, const char *const *texts, uint32_t n, float *ret,
                  struct err *err)
{
    int rc = 0;

    for (uint32_t from = 0; rc == 0 && from < n; from += t->count) {
        bool fits = true;

        t->count = 0;
        t->at[0] = 0;
        while (rc == 0 && fits && from + t->count < n)
            rc = add_text(t, texts[from + t->count], &fits, err);
        if (rc == 0)
            rc = run_texts(t, ret + (size_t)from * t->size, err);
    }
    return rc;
}
