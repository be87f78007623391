#include "workers/text/vocabulary.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "workers/text/bpe.h"
#include "workers/text/vocabulary_ids.h"

#define FILE_MAX_BYTES (32u << 20) /* the largest tokenizer.json in use has 4 MB */

struct vocabulary {
    struct bpe *bpe;
    struct vocabulary_rules rules;
    bool prefix_space; /* the tokenizer puts a blank before the text */
};

/* ---- files */

/* A whole small file; ERR_MISSING when it is not there. */
static int slurp(const char *dir, const char *name, struct buf *ret, struct err *err)
{
    char path[PATH_MAX];
    ssize_t n = 1;
    int fd, rc = 0;

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return err_set(err, ERR_MODEL, "the path %.80s... is too long", dir);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_sys(err, errno, "%s", path);
    while (n > 0) {
        uint8_t *p = buf_reserve(ret, 1 << 16);
        if (!p) {
            rc = err_set(err, ERR_NOMEM, "no memory to read %s", path);
            break;
        }
        n = read(fd, p, 1 << 16);
        if (n < 0 && errno == EINTR) {
            n = 1;
            continue;
        }
        if (n < 0)
            rc = err_set(err, ERR_MODEL, "%s: %s", path, strerror(errno));
        else
            ret->len += (size_t)n;
        if (ret->len > FILE_MAX_BYTES) {
            rc = err_set(err, ERR_MODEL, "%s is over %u MiB: no model has such a file", path,
                         FILE_MAX_BYTES >> 20);
            break;
        }
    }
    close(fd);
    return rc;
}

static int parse_json(const char *name, const char *text, size_t len, json_t **ret, struct err *err)
{
    json_error_t why;
    json_t *root;

    if (len > FILE_MAX_BYTES)
        return err_set(err, ERR_MODEL, "%s is over %u MiB: no model has such a file", name,
                       FILE_MAX_BYTES >> 20);
    root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return err_set(err, ERR_MODEL, "%s, line %d: %s", name, why.line, why.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return err_set(err, ERR_MODEL, "%s is not a JSON object", name);
    }
    *ret = root;
    return 0;
}

/* ---- tokenizer.json */

static int read_vocab(struct bpe *b, json_t *vocab, struct err *err)
{
    const char *spelling;
    json_t *value;
    int rc;

    if (!json_is_object(vocab) || !json_object_size(vocab))
        return err_set(err, ERR_MODEL, "model.vocab is missing or empty");
    json_object_foreach(vocab, spelling, value)
    {
        if (!json_is_integer(value))
            return err_set(err, ERR_MODEL, "the id of token '%.40s' is not an integer", spelling);
        if ((rc = bpe_add(b, spelling, json_integer_value(value), err)))
            return rc;
    }
    return 0;
}

/* "a b" in files of before 2024, ["a", "b"] since. */
static int read_merge(struct bpe *b, size_t i, const json_t *merge, struct err *err)
{
    const char *left, *right;

    if (json_is_string(merge)) {
        left = json_string_value(merge);
        right = strchr(left, ' ');
        if (right && right != left && right[1] && !strchr(right + 1, ' '))
            return bpe_merge(b, left, (size_t)(right - left), right + 1, strlen(right + 1), err);
    } else if (json_array_size(merge) == 2) {
        left = json_string_value(json_array_get(merge, 0));
        right = json_string_value(json_array_get(merge, 1));
        if (left && right && left[0] && right[0])
            return bpe_merge(b, left, strlen(left), right, strlen(right), err);
    }
    return err_set(err, ERR_MODEL, "merge %zu is not a pair of tokens", i);
}

static int read_merges(struct bpe *b, const json_t *merges, struct err *err)
{
    if (!json_is_array(merges) || json_array_size(merges) > BPE_MAX_ID)
        return err_set(err, ERR_MODEL, "model.merges is not a list of pairs");
    for (size_t i = 0; i < json_array_size(merges); i++) {
        int rc = read_merge(b, i, json_array_get(merges, i), err);
        if (rc)
            return rc;
    }
    return 0;
}

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
    /* Merges first need the vocabulary, added tokens come last as in the library. */
    if ((rc = read_vocab(v->bpe, json_object_get(model, "vocab"), err)) ||
        (rc = read_merges(v->bpe, json_object_get(model, "merges"), err)))
        return rc;
    return read_added(v->bpe, json_object_get(root, "added_tokens"), err);
}

/* ---- loading */

static int build(const json_t *tokenizer, const json_t *generation, const json_t *config,
                 struct vocabulary **ret, struct err *err)
{
    struct vocabulary *v = calloc(1, sizeof(*v));
    int rc;

    if (!v)
        return err_set(err, ERR_NOMEM, "no memory for a vocabulary");
    if ((rc = bpe_new(&v->bpe, err)))
        goto fail;
    if ((rc = read_tokenizer(v, tokenizer, err))) {
        err_prefix(err, "tokenizer.json");
        goto fail;
    }
    if ((rc = vocabulary_rules_read(v->bpe, generation, config, &v->rules, err)))
        goto fail;
    *ret = v;
    return 0;
fail:
    vocabulary_free(v);
    return rc;
}

/* Messages quote the file, which may hold anything; a quotation may also be cut in a character. */
static void make_printable(struct err *err)
{
    char *shown = utf8_display(err->msg, strlen(err->msg));

    if (shown)
        utf8_copy(err->msg, sizeof(err->msg), shown);
    free(shown);
}

int vocabulary_parse(const struct vocabulary_source *source, struct vocabulary **ret,
                     struct err *err)
{
    json_t *tokenizer = NULL, *generation = NULL, *config = NULL;
    int rc;

    rc = parse_json("tokenizer.json", source->tokenizer, source->tokenizer_len, &tokenizer, err);
    if (!rc && source->generation)
        rc = parse_json("generation_config.json", source->generation, source->generation_len,
                        &generation, err);
    if (!rc && source->config)
        rc = parse_json("config.json", source->config, source->config_len, &config, err);
    if (!rc)
        rc = build(tokenizer, generation, config, ret, err);
    if (rc)
        make_printable(err);
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

    if ((rc = slurp(dir, "tokenizer.json", &tokenizer, err))) {
        if (rc == ERR_MISSING)
            rc = err_set(err, ERR_MODEL,
                         "tokenizer.json is missing; fetch the model's files again (beside a "
                         "checkpoint of OpenAI's, which lacks it, put the same model's from "
                         "Hugging Face)");
        goto out;
    }
    if ((rc = slurp(dir, "generation_config.json", &generation, err)) == 0) {
        source.generation = (const char *)generation.data;
        source.generation_len = generation.len;
    } else if (rc != ERR_MISSING) { /* models of 2022 have none */
        goto out;
    }
    if ((rc = slurp(dir, "config.json", &config, err)) == 0) {
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
