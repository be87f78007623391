#include "workers/models/bert/embedder.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/models/bert/bert.h"
#include "workers/models/files/weights.h"
#include "workers/text/codepoints.h"
#include "workers/text/json_file.h"
#include "workers/text/tokenizer/tokenizer.h"

#define DEVICE_TOKENS 16384 /* of one pass on a device that gains by many */
#define BATCH_TEXTS 1024    /* of one pass, however short */
/* As sentence-transformers writes it, and as the hash covers it. */
#define POOLING_DIR "1_Pooling"
#define MAX_PREFIX_BYTES 4096

/* What the folder says about how a text becomes a vector, apart from the network. */
struct embedder_dir {
    struct bert_config bert;
    enum pool pool;
    uint32_t max_tokens; /* special ones included */
    bool lower;          /* texts are put in lower case first */
    char *prefix[2];     /* by enum embed_as; newly allocated, never NULL after success */
};

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

/* ---- the folder's files */

/* A file that may be missing: *ret is NULL then. */
static int read_optional(const char *dir, const char *name, bool list, json_t **ret,
                         struct err *err)
{
    int rc = list ? json_file_read_list(dir, name, ret, err) : json_file_read(dir, name, ret, err);

    if (rc != ERR_MISSING)
        return rc;
    *ret = NULL;
    err->code = 0;
    return 0;
}

/* ---- modules.json */

/* "sentence_transformers.models.Pooling" -> "Pooling" */
static const char *short_type(const json_t *module)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *dot = type ? strrchr(type, '.') : NULL;

    return dot ? dot + 1 : type ? type : "";
}

static int check_module(const json_t *module, size_t i, bool *pooling, struct err *err)
{
    const char *type = short_type(module);
    const char *path = json_string_value(json_object_get(module, "path"));

    if (i == 0 && strcmp(type, "Transformer") == 0 && path && !path[0])
        return 0;
    if (i > 0 && strcmp(type, "Normalize") == 0)
        return 0;
    if (i == 1 && strcmp(type, "Pooling") == 0 && path && strcmp(path, POOLING_DIR) == 0) {
        *pooling = true;
        return 0;
    }
    return err_set(err, ERR_MODEL,
                   "modules.json: module %zu is '%.40s' in '%.40s'; a Transformer in the folder "
                   "itself, a Pooling in " POOLING_DIR " and a Normalize are read",
                   i, type, path ? path : "");
}

/* Without the file there is a transformer alone, whose tokens' mean is taken. */
static int read_modules(const char *dir, bool *pooling, struct err *err)
{
    json_t *list = NULL;
    int rc = read_optional(dir, "modules.json", true, &list, err);

    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++)
        rc = check_module(json_array_get(list, i), i, pooling, err);
    if (rc == 0 && list && !*pooling)
        rc = err_set(err, ERR_MODEL, "modules.json names no Pooling");
    json_decref(list);
    return rc;
}

/* ---- 1_Pooling/config.json */

/* A vector's length is lost at the end, so the root of the number of tokens makes no difference. */
static const struct {
    const char *key, *name;
    enum pool pool;
} poolings[] = {{"pooling_mode_mean_tokens", "mean", POOL_MEAN},
                {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", POOL_MEAN},
                {"pooling_mode_cls_token", "cls", POOL_FIRST},
                {"pooling_mode_max_tokens", "max", POOL_MAX}};

static int choose_pooling(const json_t *j, enum pool *ret, struct err *err)
{
    const char *name = json_string_value(json_object_get(j, "pooling_mode"));
    int found = 0;

    for (size_t i = 0; i < sizeof(poolings) / sizeof(poolings[0]); i++) {
        if (name ? strcmp(name, poolings[i].name) == 0
                 : json_is_true(json_object_get(j, poolings[i].key))) {
            *ret = poolings[i].pool;
            found++;
        }
    }
    if (json_is_true(json_object_get(j, "pooling_mode_weightedmean_tokens")) ||
        json_is_true(json_object_get(j, "pooling_mode_lasttoken")) || found != 1)
        return err_set(err, ERR_MODEL,
                       POOLING_DIR "/config.json asks for a pooling that is not read; one of mean, "
                                   "CLS and max is");
    return 0;
}

static int read_pooling(const char *dir, struct embedder_dir *d, struct err *err)
{
    const json_t *size, *prompt;
    json_t *j = NULL;
    int rc = json_file_read(dir, POOLING_DIR "/config.json", &j, err);

    if (rc == ERR_MISSING)
        return err_set(err, ERR_MODEL,
                       POOLING_DIR "/config.json is missing; fetch the model's "
                                   "files again");
    if (rc != 0)
        return rc;
    size = json_object_get(j, "word_embedding_dimension");
    prompt = json_object_get(j, "include_prompt");
    rc = choose_pooling(j, &d->pool, err);
    if (rc == 0 && size && json_integer_value(size) != d->bert.hidden)
        rc = err_set(err, ERR_MODEL,
                     POOLING_DIR "/config.json is for vectors of %lld values, config.json of %u",
                     (long long)json_integer_value(size), d->bert.hidden);
    if (rc == 0 && json_is_false(prompt))
        rc = err_set(err, ERR_MODEL,
                     POOLING_DIR "/config.json: include_prompt: false is not supported");
    json_decref(j);
    return rc;
}

/* ---- sentence_bert_config.json */

static int read_limits(const char *dir, struct embedder_dir *d, struct err *err)
{
    const json_t *max;
    json_t *j = NULL;
    int rc = read_optional(dir, "sentence_bert_config.json", false, &j, err);

    d->max_tokens = bert_max_tokens(&d->bert);
    max = json_object_get(j, "max_seq_length");
    if (rc == 0 && max && !json_is_null(max)) {
        json_int_t v = json_integer_value(max);

        if (!json_is_integer(max) || v < 3 || v > 1 << 20)
            rc = err_set(err, ERR_MODEL,
                         "sentence_bert_config.json: max_seq_length is not a number from 3 on");
        else if (v < d->max_tokens)
            d->max_tokens = (uint32_t)v;
    }
    d->lower = json_is_true(json_object_get(j, "do_lower_case"));
    json_decref(j);
    return rc;
}

/* ---- prefixes */

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* "e5" as a word of a name: "intfloat/multilingual-e5-small". */
static bool names_e5(const char *name)
{
    for (const char *p = name; (p = strstr(p, "e5")); p++)
        if ((p == name || !is_letter_or_digit(p[-1])) && !is_letter_or_digit(p[2]))
            return true;
    return false;
}

static bool names_instruct(const char *name) { return strstr(name, "instruct") != NULL; }

/* The fallback if the files do not say it: the folder's name, or the repository's name in the
 * Hugging Face cache (models--intfloat--multilingual-e5-small/snapshots/...). */
static bool folder_says(const char *dir, bool (*says)(const char *name))
{
    char path[PATH_MAX], *slash = realpath(dir, path) ? strrchr(path, '/') : NULL;
    bool found = slash && says(slash + 1);

    if (slash && !found) {
        *slash = 0;
        slash = strrchr(path, '/');
        if (slash && strcmp(slash, "/snapshots") == 0) {
            *slash = 0;
            slash = strrchr(path, '/');
            found = slash && says(slash + 1);
        }
    }
    return found;
}

/* The instruct models among them were trained with an instruction before a query, which only its
 * user knows, and nothing before a passage. */
static bool is_e5(const char *dir, const char *name)
{
    if (names_instruct(name) || folder_says(dir, names_instruct))
        return false;
    return names_e5(name) || folder_says(dir, names_e5);
}

static int set_prefix(struct embedder_dir *d, enum embed_as as, const char *prefix, struct err *err)
{
    if (strlen(prefix) > MAX_PREFIX_BYTES)
        return err_set(err, ERR_MODEL, "config_sentence_transformers.json: a prompt of %zu bytes",
                       strlen(prefix));
    d->prefix[as] = strdup(prefix);
    return d->prefix[as] ? 0 : err_set(err, ERR_NOMEM, "out of memory for a text encoder");
}

static const char *find_prompt(const json_t *prompts, const char *name)
{
    return name ? json_string_value(json_object_get(prompts, name)) : NULL;
}

static int read_prefixes(const char *dir, const json_t *config, struct embedder_dir *d,
                         struct err *err)
{
    const char *name = json_string_value(json_object_get(config, "_name_or_path"));
    const char *query, *passage, *other;
    const json_t *prompts;
    json_t *j = NULL;
    int rc = read_optional(dir, "config_sentence_transformers.json", false, &j, err);

    prompts = json_object_get(j, "prompts");
    other = find_prompt(prompts, json_string_value(json_object_get(j, "default_prompt_name")));
    query = find_prompt(prompts, "query");
    passage = find_prompt(prompts, "passage");
    passage = passage ? passage : find_prompt(prompts, "document");
    if (!query && !passage && !other && is_e5(dir, name ? name : "")) {
        query = "query: ";
        passage = "passage: ";
    }
    other = other ? other : "";
    if (rc == 0)
        rc = set_prefix(d, EMBED_QUERY, query ? query : other, err);
    if (rc == 0)
        rc = set_prefix(d, EMBED_PASSAGE, passage ? passage : other, err);
    json_decref(j);
    return rc;
}

/* ret is zeroed, and is free_embedder_dir's after an error, too. ERR_MODEL names the file. */
static int read_embedder_dir(const char *dir, struct embedder_dir *ret, struct err *err)
{
    json_t *config = NULL;
    bool pooling = false;
    int rc = json_file_read(dir, "config.json", &config, err);

    if (rc == ERR_MISSING)
        return err_set(err, ERR_MODEL, "config.json is missing; fetch the model's files again");
    ret->pool = POOL_MEAN;
    if (rc == 0)
        rc = bert_config_read(config, &ret->bert, err);
    if (rc == 0)
        rc = read_modules(dir, &pooling, err);
    if (rc == 0 && pooling)
        rc = read_pooling(dir, ret, err);
    if (rc == 0)
        rc = read_limits(dir, ret, err);
    if (rc == 0)
        rc = read_prefixes(dir, config, ret, err);
    json_decref(config);
    if (rc != 0)
        utf8_display_err(err);
    return rc;
}

static void free_embedder_dir(struct embedder_dir *d)
{
    free(d->prefix[EMBED_QUERY]);
    free(d->prefix[EMBED_PASSAGE]);
    *d = (struct embedder_dir){0};
}

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
        rc = read_embedder_dir(dir, &e->dir, err);
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
    free_embedder_dir(&e->dir);
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
        return err_set(err, ERR_MODEL,
                       "a text's vector is not a number; the model's weights are damaged, or the "
                       "precision is too low for it: try --precision fp32");
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
