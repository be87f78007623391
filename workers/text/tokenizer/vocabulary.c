#include "workers/text/tokenizer/vocabulary.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "workers/text/tokenizer/bpe.h"
#include "workers/text/tokenizer/bpe_json.h"
#include "workers/text/json_file.h"
#include "workers/text/tokenizer/vocabulary_ids.h"

struct vocabulary {
    struct bpe *bpe;
    struct vocabulary_rules rules;
    bool prefix_space; /* the tokenizer puts a blank before the text */
};

/* ---- tokenizer.json */

static int read_added(struct bpe *b, const json_t *added, struct err *err)
{
    if (!added || json_is_null(added))
        return 0;
    if (!json_is_array(added))
        return err_set(err, ERR_MODEL, "added_tokens is not a list");
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i), *id = json_object_get(token, "id");
        const char *content = json_string_value(json_object_get(token, "content"));
        int rc;

        if (!content || !content[0] || !json_is_integer(id))
            return err_set(err, ERR_MODEL, "added token %zu lacks its id or its content", i);
        if ((rc = bpe_add_literal(b, content, json_integer_value(id), err)))
            return rc;
    }
    return 0;
}

static int read_tokenizer(struct vocabulary *v, const json_t *root, struct err *err)
{
    const json_t *model = json_object_get(root, "model"), *pre;
    const char *type = json_string_value(json_object_get(model, "type"));
    int rc;

    if (type && strcmp(type, "BPE") != 0)
        return err_set(err, ERR_MODEL, "the tokenizer is of type '%.40s'; Whisper's is BPE", type);
    pre = json_object_get(root, "pre_tokenizer");
    v->prefix_space = json_is_true(json_object_get(pre, "add_prefix_space"));
    /* Added tokens come last as in the library. */
    if ((rc = bpe_read_json(v->bpe, model, err)))
        return rc;
    return read_added(v->bpe, json_object_get(root, "added_tokens"), err);
}

/* ---- a list of tokens */

static int add_token(struct bpe *b, const struct vocabulary_source *s, size_t i, struct err *err)
{
    const struct vocabulary_token *t = &s->tokens[i];
    bool special = i >= s->text_count;
    char *text;
    int rc;

    if (!special && !s->spelled)
        return bpe_add_bytes(b, (const uint8_t *)t->text, t->len, (int64_t)i, err);
    text = strndup(t->text, t->len);
    if (!text)
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    rc = special ? bpe_add_literal(b, text, (int64_t)i, err) : bpe_add(b, text, (int64_t)i, err);
    free(text);
    return rc;
}

static int read_tokens(struct vocabulary *v, const struct vocabulary_source *s, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < s->text_count; i++)
        rc = add_token(v->bpe, s, i, err);
    if (rc == 0)
        rc = bpe_merge_in_order(v->bpe, err);
    for (size_t i = s->text_count; rc == 0 && i < s->token_count; i++)
        rc = add_token(v->bpe, s, i, err);
    return rc;
}

/* ---- loading */

static int build_vocabulary(const struct vocabulary_source *source, const json_t *tokenizer,
                            const json_t *generation, const json_t *config, struct vocabulary **ret,
                            struct err *err)
{
    struct vocabulary *v = calloc(1, sizeof(*v));
    int rc;

    if (!v) {
        if (source->rules)
            vocabulary_rules_free(source->rules);
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    }
    if (source->rules)
        v->rules = *source->rules;
    if ((rc = bpe_new(&v->bpe, err)))
        goto fail;
    rc = source->tokens ? read_tokens(v, source, err) : read_tokenizer(v, tokenizer, err);
    if (rc) {
        err_prefix(err, source->tokens ? "its vocabulary" : "tokenizer.json");
        goto fail;
    }
    if (!source->rules && (rc = vocabulary_rules_read(v->bpe, generation, config, &v->rules, err)))
        goto fail;
    *ret = v;
    return 0;
fail:
    vocabulary_free(v);
    return rc;
}

int vocabulary_parse(const struct vocabulary_source *source, struct vocabulary **ret,
                     struct err *err)
{
    json_t *tokenizer = NULL, *generation = NULL, *config = NULL;
    int rc = 0;

    if (!source->tokens)
        rc = json_file_parse("tokenizer.json", source->tokenizer, source->tokenizer_len, &tokenizer,
                             err);
    if (!rc && source->generation)
        rc = json_file_parse("generation_config.json", source->generation, source->generation_len,
                             &generation, err);
    if (!rc && source->config)
        rc = json_file_parse("config.json", source->config, source->config_len, &config, err);
    if (!rc)
        rc = build_vocabulary(source, tokenizer, generation, config, ret, err);
    else if (source->rules)
        vocabulary_rules_free(source->rules);
    if (rc)
        utf8_display_err(err);
    json_decref(tokenizer);
    json_decref(generation);
    json_decref(config);
    return rc;
}

int vocabulary_load(const char *dir, struct vocabulary **ret, struct err *err)
{
    struct buf tokenizer = BUF_INIT, generation = BUF_INIT, config = BUF_INIT;
    struct vocabulary_source source = {0};
    int rc;

    if ((rc = json_file_slurp(dir, "tokenizer.json", &tokenizer, err))) {
        if (rc == ERR_MISSING)
            rc = err_set(err, ERR_MODEL,
                         "tokenizer.json is missing; fetch the model's files again (beside a "
                         "checkpoint of OpenAI's, which lacks it, put the same model's from "
                         "Hugging Face)");
        goto out;
    }
    if ((rc = json_file_slurp(dir, "generation_config.json", &generation, err)) == 0) {
        source.generation = (const char *)generation.data;
        source.generation_len = generation.len;
    } else if (rc != ERR_MISSING) { /* models of 2022 have none */
        goto out;
    }
    if ((rc = json_file_slurp(dir, "config.json", &config, err)) == 0) {
        source.config = (const char *)config.data;
        source.config_len = config.len;
    } else if (rc !=
               ERR_MISSING) { /* OpenAI's checkpoints need none; other weights do, and say so */
        goto out;
    }
    source.tokenizer = (const char *)tokenizer.data;
    source.tokenizer_len = tokenizer.len;
    rc = vocabulary_parse(&source, ret, err);
out:
    if (rc) {
        err_prefix(err, "model %s", dir);
        if (rc != ERR_NOMEM)
            rc = err->code = ERR_MODEL; /* whatever it was, this model cannot be used */
    }
    buf_free(&tokenizer);
    buf_free(&generation);
    buf_free(&config);
    return rc;
}

void vocabulary_free(struct vocabulary *v)
{
    if (!v)
        return;
    bpe_free(v->bpe);
    vocabulary_rules_free(&v->rules);
    free(v);
}

/* ---- questions */

const struct vocabulary_ids *vocabulary_ids(const struct vocabulary *v) { return &v->rules.ids; }

uint32_t vocabulary_size(const struct vocabulary *v) { return (uint32_t)v->rules.size; }

bool vocabulary_multilingual(const struct vocabulary *v) { return v->rules.language_count > 0; }

bool vocabulary_timed(const struct vocabulary *v)
{
    return v->rules.ids.timestamp_begin <= v->rules.ids.timestamp_end;
}

int32_t vocabulary_language_id(const struct vocabulary *v, const char *code)
{
    for (size_t i = 0; i < v->rules.language_count; i++)
        if (strcmp(v->rules.languages[i].code, code) == 0)
            return v->rules.languages[i].id;
    return -1;
}

const char *vocabulary_language_code(const struct vocabulary *v, int32_t id)
{
    for (size_t i = 0; i < v->rules.language_count; i++)
        if (v->rules.languages[i].id == id)
            return v->rules.languages[i].code;
    return NULL;
}

uint32_t vocabulary_language_count(const struct vocabulary *v)
{
    return (uint32_t)v->rules.language_count;
}

int32_t vocabulary_language_at(const struct vocabulary *v, uint32_t i)
{
    return i < v->rules.language_count ? v->rules.languages[i].id : -1;
}

const int32_t *vocabulary_suppress(const struct vocabulary *v, size_t *n)
{
    *n = v->rules.suppress_count;
    return v->rules.suppress;
}

const int32_t *vocabulary_begin_suppress(const struct vocabulary *v, size_t *n)
{
    *n = v->rules.begin_suppress_count;
    return v->rules.begin_suppress;
}

int32_t vocabulary_max_initial_timestamp_index(const struct vocabulary *v)
{
    return v->rules.max_initial_timestamp_index;
}

const int32_t (*vocabulary_alignment_heads(const struct vocabulary *v, size_t *n))[2]
{
    *n = v->rules.head_count;
    return (const int32_t(*)[2])v->rules.heads;
}

/* ---- text */

const uint8_t *vocabulary_bytes(const struct vocabulary *v, int32_t id, size_t *len)
{
    const uint8_t *p;

    *len = 0;
    p = id < v->rules.ids.eot ? bpe_bytes(v->bpe, id, len) : NULL;
    if (!p)
        *len = 0;
    return p;
}

int vocabulary_decode(const struct vocabulary *v, const int32_t *ids, size_t n, char **ret,
                      struct err *err)
{
    struct buf bytes = BUF_INIT;
    char *text = NULL;

    for (size_t i = 0; i < n; i++) {
        size_t len;
        const uint8_t *p = vocabulary_bytes(v, ids[i], &len);
        if (len)
            buf_put(&bytes, p, len);
    }
    /* A NUL would end the C string early: no text holds one, so it is ill-formed too. */
    for (size_t i = 0; i < bytes.len; i++)
        if (!bytes.data[i])
            bytes.data[i] = 0xFF;
    if (!bytes.failed)
        text = utf8_repair(bytes.data, bytes.len);
    buf_free(&bytes);
    if (!text)
        return err_set(err, ERR_NOMEM, "no memory for the text of %zu tokens", n);
    *ret = text;
    return 0;
}

int vocabulary_encode(const struct vocabulary *v, const char *text, int32_t **ret, size_t *n,
                      struct err *err)
{
    char *clean = utf8_repair(text, strlen(text)), *spaced;
    int rc;

    if (clean && v->prefix_space && clean[0] && clean[0] != ' ') {
        size_t len = strlen(clean);

        spaced = malloc(len + 2);
        if (spaced) {
            spaced[0] = ' ';
            memcpy(spaced + 1, clean, len + 1);
        }
        free(clean);
        clean = spaced;
    }
    if (!clean)
        return err_set(err, ERR_NOMEM, "no memory to encode text");
    rc = bpe_encode(v->bpe, clean, strlen(clean), ret, n, err);
    free(clean);
    return rc;
}
