#include "workers/models/bert/embedder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/bert/bert.h"
#include "workers/models/bert/embedder_dir.h"
#include "workers/models/files/weights.h"
#include "workers/text/codepoints.h"
#include "workers/text/tokenizer/tokenizer.h"

#define DEVICE_TOKENS 16384 /* of one pass on a device that gains by many */
#define BATCH_TEXTS 1024    /* of one pass, however short */

struct embedder {
    struct backend *be;
    struct embedder_dir dir;
    struct tokenizer *tokenizer;
    struct bert *bert;
    enum precision precision;
    struct tensor pooled; /* [BATCH_TEXTS][size] float32, device memory */
    float *vectors;       /* the same in host memory */
    int32_t *ids;         /* [bert_tokens]: of one pass */
};

/* ---- loading */

static int check_tokenizer(const struct embedder *e, struct err *err)
{
    if (tokenizer_size(e->tokenizer) > e->dir.bert.vocab)
        return err_set(err, ERR_MODEL,
                       "the tokenizer has %u ids but config.json's vocab_size is %u",
                       tokenizer_size(e->tokenizer), e->dir.bert.vocab);
    if (tokenizer_specials(e->tokenizer) == 0)
        return err_set(err, ERR_MODEL, "tokenizer.json puts no special tokens around a text");
    if (tokenizer_specials(e->tokenizer) >= e->dir.max_tokens)
        return err_set(err, ERR_MODEL, "the model reads %u tokens, too few for a text",
                       e->dir.max_tokens);
    return 0;
}

/* Checkpoints of other uses of the network have its name before their tensors' names. */
static const char *find_prefix(const struct weights *w)
{
    static const char *const prefixes[] = {"", "bert.", "roberta."};
    struct weight found;
    char name[64];

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        snprintf(name, sizeof(name), "%sembeddings.word_embeddings.weight", prefixes[i]);
        if (weights_find(w, name, &found))
            return prefixes[i];
    }
    return "";
}

static int load_network(struct embedder *e, const char *dir, struct err *err)
{
    struct weights *w = NULL;
    uint32_t tokens = e->be->info.wide_batches ? DEVICE_TOKENS : 0;
    int rc = weights_open(dir, &w, err);

    if (rc == 0)
        rc = bert_load(w, find_prefix(w), &e->dir.bert, e->be, e->precision, tokens, &e->bert, err);
    weights_close(w);
    return rc;
}

static int make_buffers(struct embedder *e, struct err *err)
{
    uint32_t size = e->dir.bert.hidden;
    void *p = NULL;
    int rc = e->be->ops->alloc(e->be, (size_t)BATCH_TEXTS * size * sizeof(float), &p, err);

    if (rc != 0)
        return rc;
    e->pooled = tensor_of(DTYPE_F32, p, BATCH_TEXTS, size);
    e->vectors = malloc((size_t)BATCH_TEXTS * size * sizeof(*e->vectors));
    e->ids = malloc(bert_tokens(e->bert) * sizeof(*e->ids));
    return e->vectors && e->ids ? 0 : err_set(err, ERR_NOMEM, "out of memory for a text encoder");
}

int embedder_load(const char *dir, struct backend *be, enum precision precision,
                  struct embedder **ret, struct err *err)
{
    struct embedder *e = calloc(1, sizeof(*e));
    int rc;

    if (!e)
        return err_set(err, ERR_NOMEM, "out of memory for a text encoder");
    e->be = be;
    rc = backend_precision(be, precision, &e->precision, err);
    if (rc == 0)
        rc = embedder_dir_read(dir, &e->dir, err);
    if (rc == 0)
        rc = tokenizer_load(dir, &e->tokenizer, err);
    if (rc == 0)
        rc = check_tokenizer(e, err);
    if (rc == 0)
        rc = load_network(e, dir, err);
    if (rc == 0)
        rc = make_buffers(e, err);
    if (rc != 0) {
        embedder_free(e);
        return err_prefix(err, "model '%.200s'", dir);
    }
    *ret = e;
    return 0;
}

void embedder_free(struct embedder *e)
{
    if (!e)
        return;
    e->be->ops->release(e->be, e->pooled.data);
    bert_free(e->bert);
    tokenizer_free(e->tokenizer);
    embedder_dir_free(&e->dir);
    free(e->vectors);
    free(e->ids);
    free(e);
}

uint32_t embedder_size(const struct embedder *e) { return e->dir.bert.hidden; }

uint32_t embedder_max_tokens(const struct embedder *e) { return e->dir.max_tokens; }

const char *embedder_prefix(const struct embedder *e, enum embed_as as)
{
    return e->dir.prefix[as];
}

uint64_t embedder_predict_bytes(const struct embedder *e, uint32_t tokens)
{
    if (tokens < bert_tokens(e->bert)) /* it was taken at loading, and stays */
        tokens = bert_tokens(e->bert);
    return bert_predict_bytes(&e->dir.bert, e->precision, tokens) +
           (uint64_t)BATCH_TEXTS * e->dir.bert.hidden * sizeof(float);
}

/* ---- tokens */

/* sentence-transformers reads a text, its prefix before it, without the blanks at its ends. */
static int prepare_text(const struct embedder *e, const char *prefix, const char *text, char **ret,
                        struct err *err)
{
    struct codepoints raw = {0}, lower = {0};
    struct codepoints *use = &raw;
    size_t from = 0;

    codepoints_put_utf8(&raw, prefix, strlen(prefix));
    codepoints_put_utf8(&raw, text, strlen(text));
    while (raw.len > 0 && codepoint_is_blank(raw.at[raw.len - 1]))
        raw.len--;
    while (from < raw.len && codepoint_is_blank(raw.at[from]))
        from++;
    if (from > 0)
        memmove(raw.at, raw.at + from, (raw.len - from) * sizeof(*raw.at));
    raw.len -= from;
    if (e->dir.lower) {
        codepoints_lower(&lower, &raw);
        use = &lower;
    }
    *ret = codepoints_utf8(use);
    codepoints_free(&raw);
    codepoints_free(&lower);
    return *ret ? 0 : err_set(err, ERR_NOMEM, "no memory to encode text");
}

struct sequence {
    int32_t *ids; /* owned */
    uint32_t n;
    uint32_t text; /* which of the call's */
};

static int encode_passage(const struct embedder *e, const char *prefix, const char *text,
                          uint32_t max, struct sequence *ret, struct err *err)
{
    char *prepared = NULL;
    size_t n = 0;
    int rc = prepare_text(e, prefix, text, &prepared, err);

    if (rc == 0)
        rc = tokenizer_encode(e->tokenizer, prepared, strlen(prepared), max, &ret->ids, &n, err);
    ret->n = (uint32_t)n;
    free(prepared);
    return rc;
}

int embedder_count(const struct embedder *e, const char *text, uint32_t *ret, struct err *err)
{
    struct sequence s = {0};
    int rc = encode_passage(e, "", text, TOKENIZER_NO_BOUND, &s, err);

    free(s.ids);
    if (rc == 0)
        *ret = s.n;
    return rc;
}

/* ---- vectors */

static int by_length(const void *a, const void *b)
{
    const struct sequence *x = a, *y = b;

    return x->n != y->n ? (x->n > y->n) - (x->n < y->n) : (x->text > y->text) - (x->text < y->text);
}

/* Rejects NaN and infinity before dividing, and the zero vector, which would be equally near to
 * every text. */
static int normalise_vector(const float *v, uint32_t n, float *out, struct err *err)
{
    double sum = 0.0, scale;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    if (!isfinite(sum))
        return err_set(err, ERR_MODEL, "a text's vector is no number: are the weights damaged?");
    if (!(sum > 0.0))
        return err_set(err, ERR_MODEL, "a text's vector is zero: are the weights damaged?");
    scale = 1.0 / fmax(sqrt(sum), 1e-12); /* as PyTorch's normalize */
    for (uint32_t i = 0; i < n; i++)
        out[i] = (float)((double)v[i] * scale);
    return 0;
}

/* The next sequences, as many as one pass takes. at: [count + 1]. */
static uint32_t gather_batch(struct embedder *e, const struct sequence *s, uint32_t n, uint32_t *at)
{
    uint32_t count = 0;

    at[0] = 0;
    while (count < n && count < BATCH_TEXTS && s[count].n <= bert_tokens(e->bert) - at[count]) {
        memcpy(e->ids + at[count], s[count].ids, s[count].n * sizeof(*e->ids));
        at[count + 1] = at[count] + s[count].n;
        count++;
    }
    return count;
}

static int run_batch(struct embedder *e, const struct sequence *s, struct spans spans, float *ret,
                     struct err *err)
{
    uint32_t size = e->dir.bert.hidden;
    struct tensor hidden, pooled = tensor_rows(e->pooled, 0, spans.count);
    int rc = bert_run(e->bert, spans, e->ids, &hidden, err);

    if (rc == 0)
        rc = e->be->ops->pool(e->be, e->dir.pool, spans, hidden, pooled, err);
    if (rc == 0)
        rc = e->be->ops->get(e->be, e->vectors, pooled, err);
    for (uint32_t i = 0; rc == 0 && i < spans.count; i++)
        rc = normalise_vector(e->vectors + (size_t)i * size, size, ret + (size_t)s[i].text * size,
                              err);
    return rc;
}

int embedder_run(struct embedder *e, const char *const *texts, uint32_t n, enum embed_as as,
                 float *ret, struct err *err)
{
    struct sequence *s = calloc(n ? n : 1, sizeof(*s));
    uint32_t *at = malloc((BATCH_TEXTS + 1) * sizeof(*at));
    int rc = s && at ? 0 : err_set(err, ERR_NOMEM, "no memory for %u texts", n);

    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        s[i].text = i;
        rc = encode_passage(e, e->dir.prefix[as], texts[i], e->dir.max_tokens, &s[i], err);
    }
    if (rc == 0)
        qsort(s, n, sizeof(*s), by_length);
    for (uint32_t i = 0, count; rc == 0 && i < n; i += count) {
        count = gather_batch(e, s + i, n - i, at);
        rc = run_batch(e, s + i, (struct spans){at, count}, ret, err);
    }
    for (uint32_t i = 0; s && i < n; i++)
        free(s[i].ids);
    free(s);
    free(at);
    return rc;
}
