#include "workers/models/clap/clap.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/utf8.h"
#include "gpu/backend.h"
#include "workers/models/bert/bert.h"
#include "workers/models/clap/clap_audio.h"
#include "workers/models/files/weights.h"
#include "workers/text/json_file.h"
#include "workers/text/tokenizer/tokenizer.h"

#define FEW_WINDOWS 4   /* of a call where more at once gain nothing */
#define MANY_WINDOWS 32 /* 20 MB of scratch each, in float32 */
/* Of one call of the text tower where sequences share the device's work. */
#define TEXT_TOKENS 8192
#define MOST_TEXTS 64 /* of one call of the encoder */

/* RoBERTa, its first token through a linear layer and tanh, then linear, ReLU, linear -> [size]. */
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

/* ---- the text tower: running */

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

/* ret: [n][size], not normalised. */
static int run_text_tower(struct clap_text_tower *t, const char *const *texts, uint32_t n,
                          float *ret, struct err *err)
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

/* ---- the text tower: loading */

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

static int fill_text_tower(struct clap_text_tower *t, const char *dir, const struct weights *w,
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
    tokens = wide && t->max_tokens < TEXT_TOKENS ? TEXT_TOKENS : t->max_tokens;
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
    int rc = out ? run_text_tower(t, (const char *[]){""}, 1, out, err)
                 : err_no_memory(err, "the text tower of CLAP");

    free(out);
    return rc;
}

static void free_text_tower(struct clap_text_tower *t)
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

static int load_text_tower(const char *dir, uint32_t size, const struct weights *w,
                           struct backend *be, enum precision precision,
                           struct clap_text_tower **ret, struct err *err)
{
    struct clap_text_tower *t = calloc(1, sizeof(*t));
    int rc;

    if (!t)
        return err_no_memory(err, "the text tower of CLAP");
    t->be = be;
    t->size = size;
    rc = fill_text_tower(t, dir, w, precision, err);
    if (rc == 0) {
        t->be->rehearsing = true;
        rc = warm_up_text_tower(t, err);
        t->be->rehearsing = false;
    }
    if (rc != 0) {
        free_text_tower(t);
        return rc;
    }
    *ret = t;
    return 0;
}

/* ---- both towers */

struct clap {
    struct backend *be; /* borrowed */
    struct clap_config config;
    uint32_t windows;               /* a call of ours takes */
    uint32_t group;                 /* of one call of the device */
    struct clap_audio_tower *audio; /* NULL: not loaded */
    struct clap_text_tower *text;   /* NULL: not loaded */
};

static int load_towers(struct clap *c, const char *dir, enum precision precision, unsigned towers,
                       struct err *err)
{
    struct weights *w = NULL;
    int rc = backend_precision(c->be, precision, &precision, err);

    if (rc == 0)
        rc = clap_config_read(dir, &c->config, err);
    if (rc == 0)
        rc = weights_open(dir, &w, err);
    if (rc == ERR_MISSING || rc == ERR_DENIED) /* of a model, that is no file to be skipped */
        rc = err->code = ERR_MODEL;
    if (rc == 0 && towers & CLAP_AUDIO)
        rc = clap_audio_load(&c->config, w, c->be, precision, c->group, &c->audio, err);
    if (rc == 0 && towers & CLAP_TEXT)
        rc = load_text_tower(dir, c->config.size, w, c->be, precision, &c->text, err);
    weights_close(w);
    return rc;
}

int clap_load(const char *dir, struct backend *be, enum precision precision, unsigned towers,
              uint32_t windows, struct clap **ret, struct err *err)
{
    bool wide = be->info.wide_batches && !be->info.deterministic;
    struct clap *c;
    int rc;

    if (windows > CLAP_MAX_WINDOWS)
        return err_set(err, ERR_USAGE, "CLAP of %u windows at once: at most %d", windows,
                       CLAP_MAX_WINDOWS);
    c = calloc(1, sizeof(*c));
    if (!c)
        return err_no_memory(err, "CLAP");
    c->be = be;
    c->windows = windows ? windows : wide ? MANY_WINDOWS : FEW_WINDOWS;
    c->group = wide ? c->windows : 1;
    rc = load_towers(c, dir, precision, towers, err);
    if (rc != 0) {
        if (rc == ERR_MODEL)
            err_prefix(err, "%.200s", dir);
        clap_free(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void clap_free(struct clap *c)
{
    if (!c)
        return;
    clap_audio_free(c->audio);
    free_text_tower(c->text);
    free(c);
}

uint32_t clap_size(const struct clap *c) { return c->config.size; }

uint32_t clap_windows(const struct clap *c) { return c->windows; }

/* To length 1. */
static int normalise_vector(float *v, uint32_t size, struct err *err)
{
    double sum = 0.0, length;

    for (uint32_t i = 0; i < size; i++)
        sum += (double)v[i] * (double)v[i];
    length = sqrt(sum);
    if (!(length > 0.0 && length < (double)INFINITY))
        return err_set(err, ERR_MODEL,
                       "a vector of CLAP is not a number, or is zero; its weights are damaged, or "
                       "the precision is too low for it: try --precision fp32");
    for (uint32_t i = 0; i < size; i++)
        v[i] = (float)((double)v[i] / length);
    return 0;
}

/* At most a group. */
static int run_group(struct clap *c, const struct clap_audio *audio, uint32_t n, float *ret,
                     struct err *err)
{
    int rc = clap_audio_put(c->audio, audio, n, err);

    if (rc == 0)
        rc = clap_audio_run(c->audio, n, ret, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = normalise_vector(ret + (size_t)i * c->config.size, c->config.size, err);
    return rc;
}

int clap_run_audio(struct clap *c, const struct clap_audio *audio, uint32_t n, float *ret,
                   struct err *err)
{
    int rc = 0;

    if (!c->audio)
        return err_set(err, ERR_DEVICE, "CLAP was loaded without its audio tower");
    if (n > c->windows)
        return err_set(err, ERR_DEVICE, "CLAP of %u windows in a call for %u", n, c->windows);
    for (uint32_t i = 0; i < n; i++)
        if (audio[i].n < 1 || audio[i].n > CLAP_SAMPLES)
            return err_set(err, ERR_DEVICE, "CLAP of a window of %zu samples", audio[i].n);
    for (uint32_t at = 0; rc == 0 && at < n; at += c->group)
        rc = run_group(c, audio + at, n - at < c->group ? n - at : c->group,
                       ret + (size_t)at * c->config.size, err);
    return rc;
}

int clap_run_text(struct clap *c, const char *const *texts, uint32_t n, float *ret, struct err *err)
{
    int rc;

    if (!c->text)
        return err_set(err, ERR_DEVICE, "CLAP was loaded without its text tower");
    rc = run_text_tower(c->text, texts, n, ret, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = normalise_vector(ret + (size_t)i * c->config.size, c->config.size, err);
    return rc;
}

/* ---- planning */

#define PATCHES ((uint64_t)4096) /* of the first stage, 96 values each */
#define VALUES (PATCHES * 96)
#define HEARD ((uint64_t)CLAP_SAMPLES + CLAP_MEL_SAMPLES + 1001 * 64) /* and its log-mel */
#define AUDIO_WEIGHTS ((uint64_t)29000000) /* of matrices, mostly the last two stages' */
#define AUDIO_TABLES ((uint64_t)1500000)   /* biases of attention, and maps */

static uint64_t audio_bytes(enum precision precision, uint32_t windows)
{
    uint64_t size = dtype_size(precision_type(precision));
    uint64_t each =
        4 * (HEARD + (uint64_t)256 * 256 + 2 * VALUES + 3 * PATCHES) + 9 * VALUES * size;

    return precision_product_bytes(precision, 1, AUDIO_WEIGHTS) + 4 * AUDIO_TABLES + windows * each;
}

uint64_t clap_predict_bytes(unsigned towers, enum precision precision, uint32_t windows)
{
    const struct bert_config text = {.vocab = 50265,
                                     .hidden = 768,
                                     .layers = 12,
                                     .heads = 12,
                                     .ffn = 3072,
                                     .positions = 514,
                                     .types = 1};
    uint64_t bytes = 0;

    if (precision == PRECISION_AUTO) /* the larger of what it may become */
        precision = PRECISION_F32;
    if (towers & CLAP_AUDIO)
        bytes += audio_bytes(precision, windows ? windows : MANY_WINDOWS);
    if (towers & CLAP_TEXT)
        bytes += bert_predict_bytes(&text, precision, TEXT_TOKENS) +
                 (uint64_t)4 * text.hidden * text.hidden;
    return bytes;
}
