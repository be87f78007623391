/* Whisper as a family of asr_model.h: a model of it, loaded from its directory or made up, and
 * freed. */
#include "workers/models/whisper/whisper.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/pages.h"
#include "workers/models/files/weights.h"
#include "workers/models/whisper/whisper_net.h"
#include "workers/text/tokenizer/vocabulary.h"

#define FRAME_SAMPLES 320 /* of an encoder position */

_Static_assert(WHISPER_WINDOW_SAMPLES <= ASR_WINDOW_MAX && WHISPER_PROMPT_MAX <= ASR_PROMPT_MAX,
               "what the stage has room for");

uint32_t whisper_prompt(const struct vocabulary *v, struct asr_task task, int32_t *ret)
{
    const struct vocabulary_ids *ids = vocabulary_ids(v);
    uint32_t n = 0;

    ret[n++] = ids->sot;
    if (vocabulary_multilingual(v)) {
        ret[n++] = task.language;
        ret[n++] = task.translate ? ids->translate : ids->transcribe;
    }
    if (!task.timestamps)
        ret[n++] = ids->no_timestamps;
    return n;
}

static int align(struct asr_session *s, const struct asr_alignment *windows, uint32_t n,
                 struct err *err)
{
    const struct whisper *w = whisper_session_of(s)->w;

    return whisper_align(s, windows, n, w->heads, w->asr.align_heads, NULL, err);
}

static uint64_t predict(const struct asr_model *m, bool halves, struct asr_shape shape)
{
    return whisper_predict_bytes(whisper_config(m), m->precision, m->cache, halves, shape);
}

static const struct asr_ops ops = {
    .free = whisper_free,
    .default_slots = whisper_default_slots,
    .predict = predict,
    .meter = whisper_meter,
    .prompt = whisper_prompt,
    .session_new = whisper_session_new,
    .session_free = whisper_session_free,
    .session_rules = whisper_session_rules,
    .encode_begin = whisper_encode_begin,
    .encoded = whisper_encoded,
    .choose_begin = whisper_choose_begin,
    .choose_end = whisper_choose_end,
    .branch = whisper_branch,
    .align = align,
};

static uint32_t count_heads(const struct vocabulary *v, const struct whisper_config *c,
                            struct whisper_head *ret)
{
    uint32_t n = whisper_heads(v, c, ret, WHISPER_MAX_ALIGN_HEADS);

    return n < WHISPER_MAX_ALIGN_HEADS ? n : WHISPER_MAX_ALIGN_HEADS;
}

/* Fills in w->asr, as of a model without a vocabulary. w->config is set. */
static void describe_model(struct whisper *w, enum precision precision)
{
    w->asr = (struct asr_model){
        .ops = &ops,
        .window_samples = WHISPER_WINDOW_SAMPLES,
        .positions = w->config.max_target_positions,
        .vocab_size = w->config.vocab_size,
        .prompt_max = WHISPER_PROMPT_MAX,
        .align_heads = count_heads(NULL, &w->config, w->heads),
        .frame_samples = FRAME_SAMPLES,
        .language = "en",
        .precision = precision,
        .cache = cache_precision_resolve(CACHE_AUTO, precision),
    };
}

/* ---- freeing */

static void norm_free(struct backend *be, struct norm *n)
{
    be->ops->release(be, n->gamma.data);
    be->ops->release(be, n->beta.data);
}

void whisper_free(struct asr_model *m)
{
    struct whisper *w = whisper_of(m);
    struct backend *be;

    if (!w)
        return;
    be = w->be;
    if (w->encoder_be != be)
        backend_close(w->encoder_be);
    be->ops->conv2d_free(be, w->conv1);
    be->ops->conv2d_free(be, w->conv2);
    be->ops->release(be, w->encoder_positions.data);
    be->ops->release(be, w->decoder_positions.data);
    be->ops->release(be, w->embedding.data);
    be->ops->linear_free(be, w->logits);
    norm_free(be, &w->encoder_norm);
    norm_free(be, &w->decoder_norm);
    for (uint32_t i = 0; i < WHISPER_MAX_LAYERS; i++) {
        struct encoder_layer *e = &w->encoder[i];
        struct decoder_layer *d = &w->decoder[i];
        struct linear *all[] = {e->qkv, e->out, e->fc1,     e->fc2,      d->qkv,      d->out,
                                d->fc1, d->fc2, d->cross_q, d->cross_kv, d->cross_out};

        for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
            be->ops->linear_free(be, all[k]);
        norm_free(be, &e->attention_norm);
        norm_free(be, &e->ffn_norm);
        norm_free(be, &d->attention_norm);
        norm_free(be, &d->cross_norm);
        norm_free(be, &d->ffn_norm);
    }
    vocabulary_free(w->asr.vocab);
    free(w);
}

const struct whisper_config *whisper_config(const struct asr_model *m)
{
    return &whisper_of(m)->config;
}

void whisper_keep(struct asr_model *m, enum cache_precision cache)
{
    m->cache = cache_precision_resolve(cache, m->precision);
}

/* ---- loading, from a model's directory or made up */

/* The values' source: a model's weights, or a generator if `weights` is NULL. */
struct source {
    struct weights *weights;
    uint64_t state;
    float
        *values; /* of one tensor, on their way to the device: pages that the next one uses, too */
    size_t values_bytes;
};

/* Nearly normal, standard deviation 0.02: the sum of four 16-bit uniforms of one 64-bit number.
 * Multiples of 2^-14 below 2^-3 are float16 numbers, as the weights of published models are. */
static float random_value(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    uint32_t sum;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    sum = (uint32_t)(z & 0xffff) + (uint32_t)(z >> 16 & 0xffff) + (uint32_t)(z >> 32 & 0xffff) +
          (uint32_t)(z >> 48);
    return rintf(((float)sum - 131070.0f) * (0.02f / 37837.0f) * 0x1p14f) * 0x1p-14f;
}

static bool same_shape(const struct weight *t, const int64_t dim[3], uint32_t rank)
{
    if (t->rank != rank)
        return false;
    for (uint32_t i = 0; i < rank; i++)
        if (t->dim[i] != (uint64_t)dim[i])
            return false;
    return true;
}

static void shape_text(char *out, size_t capacity, const int64_t *dim, uint32_t rank)
{
    size_t n = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < rank && n < capacity; i++)
        n += (size_t)snprintf(out + n, capacity - n, "%s%lld", i ? " x " : "", (long long)dim[i]);
}

/* Values of one tensor of exactly this shape. base 1: a norm's factor, which a made-up model has at
 * 1. */
static int source_read(struct source *src, const char *name, uint32_t rank, const int64_t dim[3],
                       float base, float *out, struct err *err)
{
    struct weight t;
    char want[64], have[160];
    int64_t count = 1, found[WEIGHT_MAX_RANK];

    for (uint32_t i = 0; i < rank; i++)
        count *= dim[i];
    if (!src->weights) {
        for (int64_t i = 0; i < count; i++)
            out[i] = base == 0.0f ? random_value(&src->state) : base;
        return 0;
    }
    shape_text(want, sizeof(want), dim, rank);
    if (!weights_find(src->weights, name, &t))
        return err_set(err, ERR_MODEL, "tensor '%s' (%s) is missing from the weights", name, want);
    if (!same_shape(&t, dim, rank)) {
        for (uint32_t i = 0; i < t.rank; i++)
            found[i] = (int64_t)t.dim[i];
        shape_text(have, sizeof(have), found, t.rank);
        return err_set(err, ERR_MODEL, "tensor '%s' is %s, but config.json wants %s", name, have,
                       want);
    }
    return weight_read(&t, out, err);
}

static void values_free(struct source *src)
{
    pages_free(src->values, src->values_bytes);
    src->values = NULL;
    src->values_bytes = 0;
}

/* Room for so many values, which the source keeps; former content is lost. */
static float *values_new(struct source *src, int64_t count, struct err *err)
{
    size_t bytes = (size_t)count * sizeof(float);

    if (bytes <= src->values_bytes)
        return src->values;
    values_free(src);
    src->values = pages_new(bytes);
    if (src->values)
        src->values_bytes = bytes;
    else
        err_set(err, ERR_NOMEM, "out of memory: %lld values of weights", (long long)count);
    return src->values;
}

/* A matrix in device memory, of type `type`. */
static int load_matrix(struct whisper *w, struct source *src, enum dtype type, const char *name,
                       int64_t rows, int64_t cols, struct tensor *ret, struct err *err)
{
    float *values = values_new(src, rows * cols, err);
    void *p = NULL;
    int rc;

    if (!values)
        return ERR_NOMEM;
    rc = source_read(src, name, 2, (const int64_t[3]){rows, cols}, 0.0f, values, err);
    if (rc == 0)
        rc = w->be->ops->alloc(w->be, (size_t)(rows * cols) * dtype_size(type), &p, err);
    if (rc == 0) {
        *ret = tensor_of(type, p, rows, cols);
        rc = w->be->ops->put(w->be, *ret, values, err);
    }
    return rc;
}

static int load_vector(struct whisper *w, struct source *src, const char *name, float base,
                       struct tensor *ret, struct err *err)
{
    int64_t d = w->config.d_model;
    float *values = values_new(src, d, err);
    void *p = NULL;
    int rc;

    if (!values)
        return ERR_NOMEM;
    rc = source_read(src, name, 1, (const int64_t[3]){d}, base, values, err);
    if (rc == 0)
        rc = w->be->ops->alloc(w->be, (size_t)d * sizeof(float), &p, err);
    if (rc == 0) {
        *ret = tensor_of(DTYPE_F32, p, 1, d);
        rc = w->be->ops->put(w->be, *ret, values, err);
    }
    return rc;
}

static int load_norm(struct whisper *w, struct source *src, const char *prefix, const char *name,
                     struct norm *ret, struct err *err)
{
    char full[160];
    int rc;

    snprintf(full, sizeof(full), "%s%s.weight", prefix, name);
    rc = load_vector(w, src, full, 1.0f, &ret->gamma, err);
    if (rc != 0)
        return rc;
    snprintf(full, sizeof(full), "%s%s.bias", prefix, name);
    return load_vector(w, src, full, 0.0f, &ret->beta, err);
}

/* One linear out of `parts` layers over the same input, their outputs one after the other. A part's
 * name that ends in k_proj has no bias, as in every Whisper model. */
static int load_linear(struct whisper *w, struct source *src, enum linear_use use,
                       const char *prefix, const char *const *names, int parts, int64_t out,
                       int64_t in, struct linear **ret, struct err *err)
{
    float *values = values_new(src, (in + 1) * out * parts, err);
    float *bias = values ? values + in * out * parts : NULL;
    char full[160];
    int rc = 0;

    if (!values)
        return ERR_NOMEM;
    memset(bias, 0, (size_t)(out * parts) * sizeof(float));
    for (int i = 0; rc == 0 && i < parts; i++) {
        snprintf(full, sizeof(full), "%s%s.weight", prefix, names[i]);
        rc = source_read(src, full, 2, (const int64_t[3]){out, in}, 0.0f, values + i * out * in,
                         err);
        if (rc != 0 || strstr(names[i], "k_proj"))
            continue;
        snprintf(full, sizeof(full), "%s%s.bias", prefix, names[i]);
        rc = source_read(src, full, 1, (const int64_t[3]){out}, 0.0f, bias + i * out, err);
    }
    if (rc == 0)
        rc = w->be->ops->linear_new(
            w->be, w->asr.precision, use,
            use == LINEAR_WIDE ? WHISPER_POSITIONS * whisper_wide_windows(w->be) : 8, out * parts,
            in, values, bias, ret, err);
    return rc;
}

/* Over time: an image of height 1. */
static int load_conv(struct whisper *w, struct source *src, const char *name, int64_t in,
                     uint32_t stride, struct conv2d **ret, struct err *err)
{
    int64_t d = w->config.d_model;
    const struct conv2d_spec spec = {.in = in,
                                     .out = d,
                                     .kernel_h = 1,
                                     .kernel_w = 3,
                                     .stride_h = 1,
                                     .stride_w = stride,
                                     .left = 1,
                                     .right = 1};
    float *values = values_new(src, d * in * 3 + d, err);
    char full[160];
    int rc;

    if (!values)
        return ERR_NOMEM;
    snprintf(full, sizeof(full), "model.encoder.%s.weight", name);
    rc = source_read(src, full, 3, (const int64_t[3]){d, in, 3}, 0.0f, values, err);
    if (rc == 0) {
        snprintf(full, sizeof(full), "model.encoder.%s.bias", name);
        rc = source_read(src, full, 1, (const int64_t[3]){d}, 0.0f, values + d * in * 3, err);
    }
    if (rc == 0)
        rc = w->be->ops->conv2d_new(w->be, precision_fine(w->asr.precision), &spec, values,
                                    values + d * in * 3, ret, err);
    return rc;
}

static const char *const self_qkv[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
static const char *const self_out[] = {"self_attn.out_proj"};
static const char *const cross_q[] = {"encoder_attn.q_proj"};
static const char *const cross_kv[] = {"encoder_attn.k_proj", "encoder_attn.v_proj"};
static const char *const cross_out[] = {"encoder_attn.out_proj"};
static const char *const ffn_1[] = {"fc1"}, *const ffn_2[] = {"fc2"};

static int load_encoder_layer(struct whisper *w, struct source *src, uint32_t i, struct err *err)
{
    struct encoder_layer *l = &w->encoder[i];
    int64_t d = w->config.d_model, ffn = w->config.encoder_ffn;
    char p[64];
    int rc;

    snprintf(p, sizeof(p), "model.encoder.layers.%u.", i);
    rc = load_norm(w, src, p, "self_attn_layer_norm", &l->attention_norm, err);
    if (rc == 0)
        rc = load_norm(w, src, p, "final_layer_norm", &l->ffn_norm, err);
    if (rc == 0)
        rc = load_linear(w, src, LINEAR_WIDE, p, self_qkv, 3, d, d, &l->qkv, err);
    if (rc == 0)
        rc = load_linear(w, src, LINEAR_WIDE, p, self_out, 1, d, d, &l->out, err);
    if (rc == 0)
        rc = load_linear(w, src, LINEAR_WIDE, p, ffn_1, 1, ffn, d, &l->fc1, err);
    if (rc == 0)
        rc = load_linear(w, src, LINEAR_WIDE, p, ffn_2, 1, d, ffn, &l->fc2, err);
    return rc;
}

static int load_decoder_layer(struct whisper *w, struct source *src, uint32_t i, struct err *err)
{
    struct decoder_layer *l = &w->decoder[i];
    int64_t d = w->config.d_model, ffn = w->config.decoder_ffn;
    char p[64];
    int rc;

    snprintf(p, sizeof(p), "model.decoder.layers.%u.", i);
    rc = load_norm(w, src, p, "self_attn_layer_norm", &l->attention_norm, err);
    if (rc == 0)
        rc = load_norm(w, src, p, "encoder_attn_layer_norm", &l->cross_norm, err);
    if (rc == 0)
        rc = load_norm(w, src, p, "final_layer_norm", &l->ffn_norm, err);
    if (rc == 0)
        rc = load_linear(w, src, LINEAR_ROWS, p, self_qkv, 3, d, d, &l->qkv, err);
    if (rc == 0)
        rc = load_linear(w, src, LINEAR_ROWS, p, self_out, 1, d, d, &l->out, err);
    if (rc == 0)
        rc = load_linear(w, src, LINEAR_ROWS, p, cross_q, 1, d, d, &l->cross_q, err);
    if (rc == 0)
        rc = load_linear(w, src, LINEAR_WIDE, p, cross_kv, 2, d, d, &l->cross_kv, err);
    if (rc == 0)
        rc = load_linear(w, src, LINEAR_ROWS, p, cross_out, 1, d, d, &l->cross_out, err);
    if (rc == 0)
        rc = load_linear(w, src, LINEAR_ROWS, p, ffn_1, 1, ffn, d, &l->fc1, err);
    if (rc == 0)
        rc = load_linear(w, src, LINEAR_ROWS, p, ffn_2, 1, d, ffn, &l->fc2, err);
    return rc;
}

/* Stores the token embedding twice: to look rows up, and, made from that table's values, packed to
 * multiply with. It is the largest by far: its values do not stay until the last layer is there. */
static int load_embedding(struct whisper *w, struct source *src, struct err *err)
{
    int64_t d = w->config.d_model, vocab = w->config.vocab_size;
    int rc = load_matrix(w, src, w->type, "model.decoder.embed_tokens.weight", vocab, d,
                         &w->embedding, err);

    if (rc == 0 && w->type != DTYPE_F32)
        rc = w->be->ops->get(w->be, src->values, w->embedding, err);
    if (rc == 0)
        rc = w->be->ops->linear_new(w->be, precision_fine(w->asr.precision), LINEAR_ROWS, 8, vocab,
                                    d, src->values, NULL, &w->logits, err);
    values_free(src);
    return rc;
}

static int load_weights(struct whisper *w, struct source *src, struct err *err)
{
    const struct whisper_config *c = &w->config;
    int rc;

    rc = load_conv(w, src, "conv1", c->mel_bins, 1, &w->conv1, err);
    if (rc == 0)
        rc = load_conv(w, src, "conv2", c->d_model, 2, &w->conv2, err);
    if (rc == 0)
        rc = load_matrix(w, src, DTYPE_F32, "model.encoder.embed_positions.weight",
                         c->max_source_positions, c->d_model, &w->encoder_positions, err);
    for (uint32_t i = 0; rc == 0 && i < c->encoder_layers; i++)
        rc = load_encoder_layer(w, src, i, err);
    if (rc == 0)
        rc = load_norm(w, src, "model.encoder.", "layer_norm", &w->encoder_norm, err);
    if (rc == 0)
        rc = load_embedding(w, src, err);
    if (rc == 0)
        rc = load_matrix(w, src, DTYPE_F32, "model.decoder.embed_positions.weight",
                         c->max_target_positions, c->d_model, &w->decoder_positions, err);
    for (uint32_t i = 0; rc == 0 && i < c->decoder_layers; i++)
        rc = load_decoder_layer(w, src, i, err);
    if (rc == 0)
        rc = load_norm(w, src, "model.decoder.", "layer_norm", &w->decoder_norm, err);
    return rc;
}

/* Measures the memory of a session's log-mel: a fixed part, and a part for each window. */
static int measure_mel(struct whisper *w, struct err *err)
{
    struct backend *be = w->encoder_be;
    const struct backend *home = backend_home(be);
    uint64_t before = home->allocated, took[2];

    for (uint32_t i = 0; i < 2; i++) {
        struct mel *m;
        int rc = be->ops->mel_new(be, w->config.mel_bins, i + 1, &m, err);

        if (rc != 0)
            return rc;
        took[i] = home->allocated - before;
        be->ops->mel_free(be, m);
    }
    w->mel_window_bytes = took[1] - took[0];
    w->mel_bytes = took[0] - w->mel_window_bytes;
    return 0;
}

static int warm_up_whisper(struct whisper *w, struct err *err)
{
    struct asr_session *s;
    int rc = whisper_session_new(&w->asr, (struct asr_shape){.slots = 1, .windows = 1}, &s, err);

    if (rc != 0)
        return rc;
    w->be->rehearsing = w->encoder_be->rehearsing = true;
    rc = whisper_warm_encoder(whisper_session_of(s), err);
    if (rc == 0)
        rc = whisper_warm_decoder(whisper_session_of(s), err);
    w->be->rehearsing = w->encoder_be->rehearsing = false;
    w->window_scratch = w->encoder_be->scratch;
    whisper_session_free(s);
    return rc;
}

static int whisper_new(const struct whisper_config *config, struct source *src, struct backend *be,
                       enum precision precision, struct asr_model **ret, struct err *err)
{
    uint64_t before = backend_home(be)->allocated;
    struct whisper *w;
    int rc = backend_precision(be, precision, &precision, err);

    if (rc != 0)
        return rc;
    w = calloc(1, sizeof(*w));
    if (!w)
        return err_set(err, ERR_NOMEM, "out of memory for a model");
    w->be = w->encoder_be = be;
    w->config = *config;
    w->type = precision_type(precision);
    describe_model(w, precision);
    if (be->ops->fork)
        rc = be->ops->fork(be, true, &w->encoder_be, err);
    if (rc == 0)
        rc = load_weights(w, src, err);
    values_free(src);
    if (rc == 0)
        rc = measure_mel(w, err);
    if (rc == 0)
        rc = warm_up_whisper(w, err);
    if (rc != 0) {
        whisper_free(&w->asr);
        return rc;
    }
    w->weight_bytes = backend_home(be)->allocated - before;
    *ret = &w->asr;
    return 0;
}

int whisper_load(const char *dir, struct backend *be, enum precision precision,
                 struct asr_model **ret, struct err *err)
{
    struct whisper_config config = {0};
    struct source src = {0};
    int rc = whisper_read_sizes(dir, &config, err);

    if (rc == 0)
        rc = weights_open(dir, &src.weights, err);
    if (rc != 0)
        return rc;
    rc = whisper_new(&config, &src, be, precision, ret, err);
    weights_close(src.weights);
    if (rc != 0)
        err_prefix(err, "model '%.200s'", dir);
    return rc;
}

int whisper_random(const struct whisper_config *config, uint64_t seed, struct backend *be,
                   enum precision precision, struct asr_model **ret, struct err *err)
{
    struct source src = {.state = seed};
    int rc = whisper_check_config(config, err);

    return rc != 0 ? rc : whisper_new(config, &src, be, precision, ret, err);
}

/* ---- the family */

struct reading {
    const char *dir;
    struct vocabulary *vocab;
    int rc; /* err has a word of optional files that are not there, too */
    struct err err;
};

static void *read_vocabulary(void *arg)
{
    struct reading *r = arg;

    r->rc = whisper_vocabulary(r->dir, &r->vocab, &r->err);
    return NULL;
}

/* Tens of thousands of tokens take as long as the weights of a small model: beside each other. */
static int load_both(const struct asr_setup *setup, struct backend *be, struct asr_model **ret,
                     struct err *err)
{
    struct reading r = {.dir = setup->dir};
    pthread_t reader;
    bool beside = pthread_create(&reader, NULL, read_vocabulary, &r) == 0;
    int rc = whisper_load(setup->dir, be, setup->precision, ret, err);
    struct whisper *w = rc == 0 ? whisper_of(*ret) : NULL;

    if (beside)
        pthread_join(reader, NULL);
    else if (w)
        read_vocabulary(&r);
    if (w && r.rc == 0) {
        w->asr.vocab = r.vocab;
        w->asr.align_heads = count_heads(r.vocab, &w->config, w->heads);
        return 0;
    }
    vocabulary_free(r.vocab);
    if (w) {
        whisper_free(*ret);
        *ret = NULL;
        *err = r.err;
        rc = r.rc;
    }
    return rc;
}

static int open_model(const struct asr_setup *setup, struct backend *be, struct asr_model **ret,
                      struct err *err)
{
    int rc = setup->text ? load_both(setup, be, ret, err)
                         : whisper_load(setup->dir, be, setup->precision, ret, err);

    if (rc == 0)
        whisper_keep(*ret, setup->cache);
    return rc;
}

static int check_weights(const struct weights *weights, const char *dir, const struct vocabulary *v,
                         uint32_t *positions, struct err *err)
{
    struct weight t, conv, place;

    if (!weights_find(weights, "model.decoder.embed_tokens.weight", &t) || t.rank != 2 ||
        !weights_find(weights, "model.decoder.embed_positions.weight", &place) || place.rank != 2 ||
        !weights_find(weights, "model.encoder.conv1.weight", &conv))
        return err_set(err, ERR_MODEL, "the weights in %s are not those of a Whisper model", dir);
    if (vocabulary_size(v) > t.dim[0])
        return err_set(err, ERR_MODEL,
                       "tokenizer.json has %u tokens and the weights have %llu; both must be of "
                       "one model",
                       vocabulary_size(v), (unsigned long long)t.dim[0]);
    *positions = place.dim[0] < UINT32_MAX ? (uint32_t)place.dim[0] : UINT32_MAX;
    return 0;
}

static int check_headers(const char *dir, const struct vocabulary *v, uint32_t *positions,
                         struct err *err)
{
    struct weights *weights = NULL;
    int rc = weights_open(dir, &weights, err);

    if (rc == 0)
        rc = check_weights(weights, dir, v, positions, err);
    weights_close(weights);
    return rc;
}

static int predict_unloaded(const struct asr_setup *setup, bool halves, struct asr_shape shape,
                            uint64_t *ret, struct err *err)
{
    struct whisper_head heads[WHISPER_MAX_ALIGN_HEADS];
    struct whisper_config config;
    int rc = whisper_read_sizes(setup->dir, &config, err);

    if (rc != 0)
        return rc;
    if (shape.align_heads)
        shape.align_heads = count_heads(NULL, &config, heads);
    *ret = whisper_predict_bytes(&config, setup->precision,
                                 cache_precision_resolve(setup->cache, setup->precision), halves,
                                 shape);
    return 0;
}

const struct asr_family whisper_family = {
    .own_language = "en",
    .open = open_model,
    .vocabulary = whisper_vocabulary,
    .check = check_headers,
    .predict = predict_unloaded,
};
