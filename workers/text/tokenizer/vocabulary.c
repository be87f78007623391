#include "workers/text/tokenizer/vocabulary.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "workers/text/json_file.h"
#include "workers/text/tokenizer/bpe.h"

/* ---- special tokens and decoding limits */

#define TIMESTAMP_STEPS 1500 /* a window's 30 s, */
#define TIMESTAMP_MS 20      /*   in steps of so much */
#define LIST_MAX (1 << 20)
#define LANGUAGE_MAX 4096
#define HEADS_MAX 65536

struct source {
    const struct bpe *b;
    const json_t *generation, *config;
    int32_t limit; /* ids must lie below it */
    struct err *err;
};

static int32_t find_token_by_name(const struct source *s, const char *name)
{
    return bpe_find(s->b, name, strlen(name));
}

static int bad_id(const struct source *s, const char *what, json_int_t id)
{
    return err_set(s->err, ERR_MODEL, "%s is %lld, but the model's ids end at %d", what,
                   (long long)id, s->limit - 1);
}

/* An id from an integer, or from the first of an array of them; absent and null leave *ret. */
static int take_id(const struct source *s, const json_t *value, const char *what, int32_t *ret)
{
    json_int_t id;

    if (json_is_array(value))
        value = json_array_get(value, 0);
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_integer(value))
        return err_set(s->err, ERR_MODEL, "%s is not a token id", what);
    id = json_integer_value(value);
    if (id < 0 || id >= s->limit)
        return bad_id(s, what, id);
    *ret = (int32_t)id;
    return 0;
}

/* A special token: by its name among the tokens, else by a key of the two configurations. */
static int find_special_token(const struct source *s, const char *name, const char *key,
                              int32_t *ret)
{
    int rc = 0;

    *ret = find_token_by_name(s, name);
    if (*ret < 0 && key)
        rc = take_id(s, json_object_get(s->generation, key), key, ret);
    if (!rc && *ret < 0 && key)
        rc = take_id(s, json_object_get(s->config, key), key, ret);
    return rc;
}

static int read_specials(const struct source *s, struct vocabulary_ids *ids)
{
    const json_t *tasks = json_object_get(s->generation, "task_to_id");
    int rc;

    if ((rc = find_special_token(s, "<|endoftext|>", "eos_token_id", &ids->eot)) ||
        (rc =
             find_special_token(s, "<|startoftranscript|>", "decoder_start_token_id", &ids->sot)) ||
        (rc = find_special_token(s, "<|translate|>", NULL, &ids->translate)) ||
        (rc = find_special_token(s, "<|transcribe|>", NULL, &ids->transcribe)) ||
        (rc = find_special_token(s, "<|startofprev|>", "prev_sot_token_id", &ids->sot_prev)) ||
        (rc = find_special_token(s, "<|startoflm|>", NULL, &ids->sot_lm)) ||
        (rc = find_special_token(s, "<|nospeech|>", NULL, &ids->no_speech)) ||
        (rc = find_special_token(s, "<|notimestamps|>", "no_timestamps_token_id",
                                 &ids->no_timestamps)))
        return rc;
    if (ids->no_speech < 0) /* its name in files of 2022 */
        ids->no_speech = find_token_by_name(s, "<|nocaptions|>");
    if (ids->translate < 0 && (rc = take_id(s, json_object_get(tasks, "translate"),
                                            "task_to_id.translate", &ids->translate)))
        return rc;
    if (ids->transcribe < 0 && (rc = take_id(s, json_object_get(tasks, "transcribe"),
                                             "task_to_id.transcribe", &ids->transcribe)))
        return rc;
    if (ids->eot < 0 || ids->sot < 0 || ids->no_timestamps < 0)
        return err_set(s->err, ERR_MODEL, "the token %s is missing; is this a Whisper model?",
                       ids->eot < 0   ? "<|endoftext|>"
                       : ids->sot < 0 ? "<|startoftranscript|>"
                                      : "<|notimestamps|>");
    return 0;
}

/* Files of 2022 do not list the timestamps: they follow <|notimestamps|>. */
static int read_timestamps(const struct source *s, struct vocabulary_ids *ids)
{
    int32_t end = find_token_by_name(s, "<|30.00|>");

    ids->timestamp_ms = TIMESTAMP_MS;
    ids->timestamp_begin = find_token_by_name(s, "<|0.00|>");
    if (ids->timestamp_begin < 0)
        ids->timestamp_begin = ids->no_timestamps + 1;
    ids->timestamp_end = end >= 0 ? end : ids->timestamp_begin + TIMESTAMP_STEPS;
    if (ids->timestamp_end - ids->timestamp_begin != TIMESTAMP_STEPS)
        return err_set(s->err, ERR_MODEL,
                       "the timestamps go from id %d to %d; %d steps of 20 ms were expected",
                       ids->timestamp_begin, ids->timestamp_end, TIMESTAMP_STEPS);
    if (ids->timestamp_end >= s->limit)
        return bad_id(s, "the timestamp <|30.00|>", ids->timestamp_end);
    /* The token rules count on this order: text, the end, other specials, timestamps. */
    if (ids->eot >= ids->sot || ids->sot >= ids->timestamp_begin ||
        ids->no_timestamps >= ids->timestamp_begin)
        return err_set(s->err, ERR_MODEL,
                       "the special tokens are not in Whisper's order (end %d, start %d, "
                       "timestamps from %d)",
                       ids->eot, ids->sot, ids->timestamp_begin);
    return 0;
}

/* English-only tokenizers list the language tokens too, so the configuration decides. */
static bool is_multilingual(const struct source *s, const struct vocabulary_ids *ids)
{
    const json_t *flag = json_object_get(s->generation, "is_multilingual"), *forced, *first;

    if (json_is_boolean(flag))
        return json_is_true(flag);
    if (json_is_object(json_object_get(s->generation, "lang_to_id")))
        return true;
    forced = json_object_get(s->generation, "forced_decoder_ids");
    if (!json_is_array(forced))
        forced = json_object_get(s->config, "forced_decoder_ids");
    first = json_array_get(json_array_get(forced, 0), 1);
    if (json_is_integer(first) && json_integer_value(first) == ids->no_timestamps)
        return false;
    return ids->transcribe >= 0;
}

/* "<|en|>" -> "en"; false when it is not of that form. */
static bool language_code(const char *name, size_t len, char out[16])
{
    if (len < 6 || len > 4 + 15 || memcmp(name, "<|", 2) != 0 ||
        memcmp(name + len - 2, "|>", 2) != 0)
        return false;
    for (size_t i = 2; i < len - 2; i++)
        if (!(name[i] >= 'a' && name[i] <= 'z') && name[i] != '-' && name[i] != '_')
            return false;
    memcpy(out, name + 2, len - 4);
    out[len - 4] = 0;
    return true;
}

static int add_language(const struct source *s, struct vocabulary_rules *r, const char *code,
                        int32_t id)
{
    struct language *more;

    if (r->language_count >= LANGUAGE_MAX)
        return err_set(s->err, ERR_MODEL, "the model lists over %d languages", LANGUAGE_MAX);
    more = realloc(r->languages, (r->language_count + 1) * sizeof(*more));
    if (!more)
        return err_set(s->err, ERR_NOMEM, "no memory for the languages");
    r->languages = more;
    more += r->language_count++;
    utf8_copy(more->code, sizeof(more->code), code);
    more->id = id;
    return 0;
}

static int listed_languages(const struct source *s, json_t *list, struct vocabulary_rules *r)
{
    const char *name;
    json_t *value;

    json_object_foreach(list, name, value)
    {
        int32_t id = -1, known = find_token_by_name(s, name);
        char code[16];
        int rc;

        if (!language_code(name, strlen(name), code))
            return err_set(s->err, ERR_MODEL, "lang_to_id names the language '%.40s'", name);
        if ((rc = take_id(s, value, "a language in lang_to_id", &id)))
            return rc;
        if (id < 0 || (known >= 0 && known != id))
            return err_set(s->err, ERR_MODEL,
                           "the language %.20s has the id %d in lang_to_id and %d in the tokenizer",
                           name, id, known);
        if ((rc = add_language(s, r, code, id)))
            return rc;
    }
    return 0;
}

static int spelled_languages(const struct source *s, struct vocabulary_rules *r)
{
    int32_t end = r->ids.transcribe;

    if (r->ids.translate >= 0 && r->ids.translate < end)
        end = r->ids.translate;
    for (int32_t id = r->ids.sot + 1; id < end; id++) {
        size_t len;
        const uint8_t *name = bpe_bytes(s->b, id, &len);
        char code[16];
        int rc;

        if (!name || !language_code((const char *)name, len, code))
            continue;
        if ((rc = add_language(s, r, code, id)))
            return rc;
    }
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const struct language *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static int read_languages(const struct source *s, struct vocabulary_rules *r)
{
    json_t *list = json_object_get(s->generation, "lang_to_id");
    int rc;

    r->ids.first_language = -1;
    if (!is_multilingual(s, &r->ids))
        return 0;
    rc = json_is_object(list) ? listed_languages(s, list, r) : spelled_languages(s, r);
    if (rc)
        return rc;
    if (!r->language_count || r->ids.transcribe < 0)
        return err_set(s->err, ERR_MODEL, "a multilingual model without %s token",
                       r->language_count ? "a <|transcribe|>" : "any language");
    qsort(r->languages, r->language_count, sizeof(*r->languages), by_id);
    for (size_t i = 1; i < r->language_count; i++)
        if (r->languages[i].id == r->languages[i - 1].id)
            return err_set(s->err, ERR_MODEL, "the languages %s and %s have the same id",
                           r->languages[i - 1].code, r->languages[i].code);
    r->ids.first_language = r->languages[0].id;
    return 0;
}

/* A list of ids that may be absent, null, or hold nulls and -1 (which name nothing). */
static int read_list(const struct source *s, const char *key, int32_t **ret, size_t *n)
{
    const json_t *list = json_object_get(s->generation, key);
    size_t len;

    if (!list)
        list = json_object_get(s->config, key);
    if (!list || json_is_null(list))
        return 0;
    len = json_array_size(list);
    if (!json_is_array(list) || len > LIST_MAX)
        return err_set(s->err, ERR_MODEL, "%s is not a list of token ids", key);
    *ret = calloc(len ? len : 1, sizeof(**ret));
    if (!*ret)
        return err_set(s->err, ERR_NOMEM, "no memory for %s", key);
    for (size_t i = 0; i < len; i++) {
        const json_t *value = json_array_get(list, i);
        int32_t id = -1;
        int rc;

        if (json_is_integer(value) && json_integer_value(value) == -1)
            continue;
        if ((rc = take_id(s, value, key, &id)))
            return rc;
        if (id >= 0)
            (*ret)[(*n)++] = id;
    }
    return 0;
}

/* Without any list, Whisper's own first suppressions: a lone blank and the end. */
static int default_begin(const struct source *s, struct vocabulary_rules *r)
{
    int32_t *blank = NULL, *list;
    size_t n = 0;
    int rc;

    if (r->begin_suppress || json_object_get(s->generation, "begin_suppress_tokens") ||
        json_object_get(s->config, "begin_suppress_tokens"))
        return 0;
    if ((rc = bpe_encode(s->b, " ", 1, &blank, &n, s->err)))
        return rc;
    list = realloc(blank, (n + 1) * sizeof(*list));
    if (!list) {
        free(blank);
        return err_set(s->err, ERR_NOMEM, "no memory for the first tokens");
    }
    list[n] = r->ids.eot;
    r->begin_suppress = list;
    r->begin_suppress_count = n + 1;
    return 0;
}

static int read_heads(const struct source *s, struct vocabulary_rules *r)
{
    const json_t *list = json_object_get(s->generation, "alignment_heads");
    size_t len = json_array_size(list);

    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list) || len > HEADS_MAX)
        return err_set(s->err, ERR_MODEL, "alignment_heads is not a list of pairs");
    r->heads = calloc(len ? len : 1, sizeof(*r->heads));
    if (!r->heads)
        return err_set(s->err, ERR_NOMEM, "no memory for the alignment heads");
    for (size_t i = 0; i < len; i++) {
        const json_t *pair = json_array_get(list, i);

        for (size_t k = 0; k < 2; k++) {
            const json_t *value = json_array_get(pair, k);
            json_int_t x = json_integer_value(value);
            if (json_array_size(pair) != 2 || !json_is_integer(value) || x < 0 || x > 65535)
                return err_set(s->err, ERR_MODEL, "alignment_heads[%zu] is not a layer and a head",
                               i);
            r->heads[i][k] = (int32_t)x;
        }
        r->head_count++;
    }
    return 0;
}

static int read_max_initial(const struct source *s, struct vocabulary_rules *r)
{
    const json_t *value = json_object_get(s->generation, "max_initial_timestamp_index");

    r->max_initial_timestamp_index = 50; /* one second, Whisper's own */
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > TIMESTAMP_STEPS)
        return err_set(s->err, ERR_MODEL, "max_initial_timestamp_index is not within 0..%d",
                       TIMESTAMP_STEPS);
    r->max_initial_timestamp_index = (int32_t)json_integer_value(value);
    return 0;
}

/* The bound on ids: the rows of the output matrix where config.json tells them. */
static int read_limit(struct source *s)
{
    const json_t *value = json_object_get(s->config, "vocab_size");

    s->limit = BPE_MAX_ID + TIMESTAMP_STEPS + 1;
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > BPE_MAX_ID)
        return err_set(s->err, ERR_MODEL, "vocab_size is not within 1..%d", BPE_MAX_ID);
    s->limit = (int32_t)json_integer_value(value);
    if (bpe_size(s->b) > s->limit)
        return err_set(s->err, ERR_MODEL,
                       "the tokenizer has %d ids but config.json's vocab_size is %d",
                       bpe_size(s->b), s->limit);
    return 0;
}

/* Whisper's, from generation and config: JSON objects or NULL. On error *ret holds nothing to free.
 */
static int vocabulary_rules_read(const struct bpe *b, const json_t *generation,
                                 const json_t *config, struct vocabulary_rules *ret,
                                 struct err *err)
{
    struct source s = {.b = b, .generation = generation, .config = config, .err = err};
    struct vocabulary_rules r = {0};
    int rc;

    if ((rc = read_limit(&s)) || (rc = read_specials(&s, &r.ids)) ||
        (rc = read_timestamps(&s, &r.ids)) || (rc = read_languages(&s, &r)) ||
        (rc = read_list(&s, "suppress_tokens", &r.suppress, &r.suppress_count)) ||
        (rc = read_list(&s, "begin_suppress_tokens", &r.begin_suppress, &r.begin_suppress_count)) ||
        (rc = default_begin(&s, &r)) || (rc = read_max_initial(&s, &r)) ||
        (rc = read_heads(&s, &r))) {
        vocabulary_rules_free(&r);
        return rc;
    }
    r.size = bpe_size(b);
    if (r.size <= r.ids.timestamp_end)
        r.size = r.ids.timestamp_end + 1;
    *ret = r;
    return 0;
}

void vocabulary_rules_free(struct vocabulary_rules *r)
{
    free(r->languages);
    free(r->suppress);
    free(r->begin_suppress);
    free(r->heads);
    *r = (struct vocabulary_rules){0};
}

/* ---- the vocabulary */

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
