#include "workers/text/tokenizer/tokenizer.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "workers/text/tokenizer/bpe.h"
#include "workers/text/tokenizer/bpe_json.h"
#include "workers/text/json_file.h"
#include "workers/text/tokenizer/token_list.h"
#include "workers/text/tokenizer/tokenizer_added.h"
#include "workers/text/tokenizer/tokenizer_normalize.h"
#include "workers/text/tokenizer/tokenizer_split.h"
#include "workers/text/tokenizer/tokenizer_template.h"
#include "workers/text/tokenizer/unigram.h"
#include "workers/text/tokenizer/wordpiece.h"

#define TEXT_MAX_BYTES ((size_t)1 << 27)

enum model_kind { MODEL_WORDPIECE, MODEL_UNIGRAM, MODEL_BPE };

struct tokenizer {
    struct tokenizer_normalizer normalizer;
    struct tokenizer_split split;
    struct tokenizer_added added;
    struct tokenizer_template around;
    enum model_kind kind;
    struct wordpiece wordpiece;
    struct unigram *unigram;
    struct bpe *bpe;
    int32_t size;
};

/* ---- reading */

/* Older files do not name the model; its keys tell. */
static int model_kind(const json_t *model, enum model_kind *ret, struct err *err)
{
    const char *type = json_string_value(json_object_get(model, "type"));

    if (!json_is_object(model))
        return err_set(err, ERR_MODEL, "model is missing");
    if (type ? strcmp(type, "Unigram") == 0 : json_is_array(json_object_get(model, "vocab")))
        *ret = MODEL_UNIGRAM;
    else if (type ? strcmp(type, "BPE") == 0 : json_object_get(model, "merges") != NULL)
        *ret = MODEL_BPE;
    else if (!type || strcmp(type, "WordPiece") == 0)
        *ret = MODEL_WORDPIECE;
    else
        return err_set(err, ERR_MODEL,
                       "a tokenizer of type '%.40s' is not supported; WordPiece, Unigram and BPE "
                       "are",
                       type);
    return 0;
}

static bool is_set(const json_t *model, const char *key)
{
    const json_t *value = json_object_get(model, key);

    return json_is_true(value) || json_string_length(value) > 0 || json_number_value(value) != 0;
}

static int read_bpe(struct tokenizer *t, const json_t *model, struct err *err)
{
    static const char *const unsupported[] = {"dropout", "continuing_subword_prefix",
                                              "end_of_word_suffix", "byte_fallback",
                                              "ignore_merges"};
    int rc;

    for (size_t i = 0; i < sizeof(unsupported) / sizeof(unsupported[0]); i++)
        if (is_set(model, unsupported[i]))
            return err_set(err, ERR_MODEL, "model.%s is not supported", unsupported[i]);
    if (!t->split.byte_level)
        return err_set(err, ERR_MODEL, "BPE without a ByteLevel pre_tokenizer is not supported");
    if ((rc = bpe_new(&t->bpe, err)) || (rc = bpe_read_json(t->bpe, model, err)))
        return rc;
    t->size = bpe_size(t->bpe);
    return 0;
}

static int read_model(struct tokenizer *t, const json_t *model, struct err *err)
{
    int rc = model_kind(model, &t->kind, err);

    if (rc != 0)
        return rc;
    if (t->kind == MODEL_BPE)
        return read_bpe(t, model, err);
    if (t->split.byte_level)
        return err_set(err, ERR_MODEL, "a ByteLevel pre_tokenizer is supported with BPE only");
    if (t->kind == MODEL_UNIGRAM) {
        rc = unigram_read(model, &t->unigram, err);
        t->size = rc == 0 ? unigram_size(t->unigram) : 0;
    } else {
        rc = wordpiece_read(&t->wordpiece, model, err);
        t->size = t->wordpiece.size;
    }
    return rc;
}

static int32_t find_token_id(const struct tokenizer *t, const char *token)
{
    size_t len = strlen(token);

    return t->kind == MODEL_BPE       ? bpe_find(t->bpe, token, len)
           : t->kind == MODEL_UNIGRAM ? unigram_find(t->unigram, token, len)
                                      : token_map_find(&t->wordpiece.begins, token, len);
}

/* An added token that is in the vocabulary, too, has one id. */
static int check_added(struct tokenizer *t, struct err *err)
{
    const char *name;

    for (uint32_t i = 0; i < t->added.n; i++) {
        int32_t id = tokenizer_added_at(&t->added, i, &name), known = find_token_id(t, name);

        if (known >= 0 && known != id)
            return err_set(err, ERR_MODEL, "token '%.40s' has two ids, %d and %d", name, known, id);
    }
    t->size = t->added.size > t->size ? t->added.size : t->size;
    t->size = t->around.size > t->size ? t->around.size : t->size;
    return 0;
}

static int read_all(struct tokenizer *t, const json_t *root, struct err *err)
{
    int rc;

    if ((rc =
             tokenizer_normalizer_read(json_object_get(root, "normalizer"), &t->normalizer, err)) ||
        (rc = tokenizer_split_read(json_object_get(root, "pre_tokenizer"), &t->split, err)) ||
        (rc = tokenizer_added_read(json_object_get(root, "added_tokens"), &t->normalizer, &t->added,
                                   err)) ||
        (rc = tokenizer_template_read(json_object_get(root, "post_processor"), &t->around, err)) ||
        (rc = read_model(t, json_object_get(root, "model"), err)))
        return rc;
    return check_added(t, err);
}

int tokenizer_parse(const char *json, size_t len, struct tokenizer **ret, struct err *err)
{
    struct tokenizer *t = calloc(1, sizeof(*t));
    json_t *root = NULL;
    int rc;

    if (!t)
        return err_set(err, ERR_NOMEM, "no memory for a tokenizer");
    rc = json_file_parse("tokenizer.json", json, len, &root, err);
    if (rc == 0 && (rc = read_all(t, root, err)) != 0)
        err_prefix(err, "tokenizer.json");
    json_decref(root);
    if (rc != 0) {
        utf8_display_err(err);
        tokenizer_free(t);
    } else {
        *ret = t;
    }
    return rc;
}

int tokenizer_load(const char *dir, struct tokenizer **ret, struct err *err)
{
    struct buf text = BUF_INIT;
    int rc = json_file_slurp(dir, "tokenizer.json", &text, err);

    if (rc == ERR_MISSING)
        rc = err_set(err, ERR_MODEL, "tokenizer.json is missing; fetch the model's files again");
    if (rc == 0)
        rc = tokenizer_parse((const char *)text.data, text.len, ret, err);
    buf_free(&text);
    return rc;
}

void tokenizer_free(struct tokenizer *t)
{
    if (!t)
        return;
    tokenizer_normalizer_free(&t->normalizer);
    tokenizer_added_free(&t->added);
    wordpiece_free(&t->wordpiece);
    unigram_free(t->unigram);
    bpe_free(t->bpe);
    free(t);
}

uint32_t tokenizer_size(const struct tokenizer *t) { return (uint32_t)t->size; }

uint32_t tokenizer_specials(const struct tokenizer *t)
{
    return t->around.before_count + t->around.after_count;
}

/* ---- encoding */

struct encoding {
    const struct tokenizer *t;
    struct token_list out;
    size_t max; /* of out.n; no more is looked for then */
    struct codepoints normal, spare;
    struct buf word;
    bool at_start; /* the part that is worked on begins the text */
    int rc;
    struct err *err;
};

static bool fail_encoding(struct encoding *e)
{
    if (e->rc == 0)
        e->rc = err_set(e->err, ERR_NOMEM, "no memory to encode text");
    return false;
}

static bool encode_bpe(struct encoding *e)
{
    int32_t *ids = NULL;
    size_t n = 0;

    e->rc = bpe_encode(e->t->bpe, (const char *)e->word.data, e->word.len, &ids, &n, e->err);
    for (size_t i = 0; e->rc == 0 && i < n; i++)
        token_list_put(&e->out, ids[i]);
    free(ids);
    return e->rc == 0;
}

static bool on_word(void *arg, const int32_t *word, size_t len)
{
    struct encoding *e = arg;
    const char *bytes;

    buf_clear(&e->word);
    for (size_t i = 0; i < len; i++) {
        utf8proc_uint8_t c[4];

        buf_put(&e->word, c, (size_t)utf8proc_encode_char(word[i], c));
    }
    if (e->word.failed)
        return fail_encoding(e);
    bytes = (const char *)e->word.data;
    if (e->t->kind == MODEL_WORDPIECE)
        wordpiece_encode(&e->t->wordpiece, bytes, e->word.len, &e->out);
    else if (e->t->kind == MODEL_UNIGRAM)
        unigram_encode(e->t->unigram, bytes, e->word.len, &e->out);
    else if (!encode_bpe(e))
        return false;
    return e->out.failed ? fail_encoding(e) : e->out.n < e->max;
}

static bool on_token(void *arg, int32_t id)
{
    struct encoding *e = arg;

    token_list_put(&e->out, id);
    return e->out.failed ? fail_encoding(e) : e->out.n < e->max;
}

static bool on_normal_part(void *arg, const int32_t *text, size_t len, size_t at)
{
    struct encoding *e = arg;

    if (tokenizer_split(&e->t->split, text, len, e->at_start && at == 0, on_word, e))
        return true;
    return e->rc != 0 || e->out.n >= e->max ? false : fail_encoding(e);
}

static bool on_part(void *arg, const int32_t *text, size_t len, size_t at)
{
    struct encoding *e = arg;
    const struct added_calls calls = {on_normal_part, on_token, e};

    e->at_start = at == 0;
    e->normal.len = 0;
    for (size_t i = 0; i < len && !e->normal.failed; i++)
        codepoints_put(&e->normal, text[i]);
    e->rc = tokenizer_normalize(&e->t->normalizer, &e->normal, &e->spare, e->err);
    return e->rc == 0 &&
           tokenizer_added_split(&e->t->added, true, e->normal.at, e->normal.len, &calls);
}

/* The text's own ids in e->out, at most max of them. */
static int encode_text(struct encoding *e, const char *text, size_t len)
{
    const struct added_calls calls = {on_part, on_token, e};
    struct codepoints raw = {0};

    codepoints_put_utf8(&raw, text, len);
    if (raw.failed)
        fail_encoding(e);
    else
        tokenizer_added_split(&e->t->added, false, raw.at, raw.len, &calls);
    codepoints_free(&raw);
    codepoints_free(&e->normal);
    codepoints_free(&e->spare);
    buf_free(&e->word);
    if (e->out.n > e->max)
        e->out.n = e->max;
    return e->rc;
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, uint32_t max,
                     int32_t **ret, size_t *n, struct err *err)
{
    const struct tokenizer_template *a = &t->around;
    uint32_t specials = tokenizer_specials(t);
    struct encoding e = {.t = t, .err = err, .max = max > specials ? max - specials : 0};
    size_t total;
    int32_t *ids;
    int rc = 0;

    if (len > TEXT_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "a text of %zu bytes is too long to encode", len);
    if (e.max > 0)
        rc = encode_text(&e, text, len);
    total = e.out.n + specials;
    ids = rc == 0 && total ? malloc(total * sizeof(*ids)) : NULL;
    if (rc == 0 && total && !ids)
        rc = err_set(err, ERR_NOMEM, "no memory to encode text");
    if (ids) {
        memcpy(ids, a->before, a->before_count * sizeof(*ids));
        if (e.out.n)
            memcpy(ids + a->before_count, e.out.at, e.out.n * sizeof(*ids));
        memcpy(ids + a->before_count + e.out.n, a->after, a->after_count * sizeof(*ids));
    }
    free(e.out.at);
    if (rc == 0) {
        *ret = ids;
        *n = total;
    }
    return rc;
}
