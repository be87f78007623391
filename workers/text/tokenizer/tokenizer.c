#include "workers/text/tokenizer/tokenizer.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "workers/text/json_file.h"
#include "workers/text/tokenizer/bpe.h"
#include "workers/text/tokenizer/subword.h"
#include "workers/text/tokenizer/tokenizer_normalize.h"
#include "workers/text/tokenizer/tokenizer_split.h"

/* ---- the special tokens that stand around a text ([CLS], </s>) */

#define MAX_AROUND 8

struct tokenizer_template {
    int32_t before[MAX_AROUND], after[MAX_AROUND];
    uint32_t before_count, after_count;
    int32_t size; /* highest id + 1 */
};

static int add_template_token(struct tokenizer_template *t, bool after, const json_t *id,
                              struct err *err)
{
    uint32_t *n = after ? &t->after_count : &t->before_count;
    int32_t *list = after ? t->after : t->before;
    json_int_t v = json_integer_value(id);

    if (!json_is_integer(id) || v < 0 || v >= BPE_MAX_ID)
        return err_set(err, ERR_MODEL, "the post_processor's tokens have no usable ids");
    if (*n == MAX_AROUND)
        return err_set(err, ERR_MODEL, "the post_processor puts over %d tokens around a text",
                       MAX_AROUND);
    list[(*n)++] = (int32_t)v;
    t->size = v >= t->size ? (int32_t)v + 1 : t->size;
    return 0;
}

/* {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, looked up in "special_tokens". */
static int put_named(struct tokenizer_template *t, bool after, const json_t *token,
                     const json_t *names, struct err *err)
{
    const char *name = json_string_value(json_object_get(token, "id"));
    const json_t *ids = name ? json_object_get(json_object_get(names, name), "ids") : NULL;
    int rc = 0;

    if (json_array_size(ids) == 0)
        return err_set(err, ERR_MODEL, "the post_processor's token '%.40s' has no ids",
                       name ? name : "");
    for (size_t i = 0; rc == 0 && i < json_array_size(ids); i++)
        rc = add_template_token(t, after, json_array_get(ids, i), err);
    return rc;
}

static int read_template(const json_t *j, struct tokenizer_template *t, struct err *err)
{
    const json_t *single = json_object_get(j, "single");
    bool after = false;
    int rc;

    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i);
        const json_t *text = json_object_get(piece, "Sequence");
        const json_t *token = json_object_get(piece, "SpecialToken");

        if ((text == NULL) == (token == NULL) || (text && after))
            return err_set(err, ERR_MODEL, "the post_processor's template cannot be read");
        if (json_integer_value(json_object_get(text ? text : token, "type_id")) != 0)
            return err_set(err, ERR_MODEL, "the post_processor gives one text a second type");
        after |= text != NULL;
        if (token && (rc = put_named(t, after, token, json_object_get(j, "special_tokens"), err)))
            return rc;
    }
    return after ? 0 : err_set(err, ERR_MODEL, "the post_processor's template has no text");
}

/* BERT's and RoBERTa's own: {"sep": ["</s>", 2], "cls": ["<s>", 0]}. */
static int read_pair(const json_t *j, struct tokenizer_template *t, struct err *err)
{
    int rc = add_template_token(t, false, json_array_get(json_object_get(j, "cls"), 1), err);

    return rc != 0 ? rc
                   : add_template_token(t, true, json_array_get(json_object_get(j, "sep"), 1), err);
}

static int read_processor(const json_t *j, struct tokenizer_template *t, int depth, struct err *err)
{
    const char *type = json_string_value(json_object_get(j, "type"));
    const json_t *list = json_object_get(j, "processors");
    int rc = 0;

    if (!type)
        return err_set(err, ERR_MODEL, "a post_processor has no type");
    if (strcmp(type, "ByteLevel") == 0) /* where tokens are in the text: not asked for */
        return 0;
    if (strcmp(type, "Sequence") == 0 && depth > 0 && json_is_array(list)) {
        for (size_t i = 0; rc == 0 && i < json_array_size(list); i++)
            rc = read_processor(json_array_get(list, i), t, depth - 1, err);
        return rc;
    }
    if (t->before_count || t->after_count)
        return err_set(err, ERR_MODEL, "several post_processors that add tokens are not supported");
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(j, t, err);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
        return read_pair(j, t, err);
    return err_set(err, ERR_MODEL, "the post_processor '%.40s' is not supported", type);
}

/* From "post_processor", which may be NULL or null (there are none): how it treats one text. Every
 * token must be of type 0. ret is zeroed. ERR_MODEL. */
static int read_post_processor(const json_t *json, struct tokenizer_template *ret, struct err *err)
{
    return json && !json_is_null(json) ? read_processor(json, ret, 4, err) : 0;
}

/* ---- the tokenizer */

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
                                      : wordpiece_find(&t->wordpiece, token, len);
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
        (rc = read_post_processor(json_object_get(root, "post_processor"), &t->around, err)) ||
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
