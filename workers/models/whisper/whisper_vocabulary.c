
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "workers/models/files/adapter.h"
#include "workers/models/files/formats/ggml_file.h"
#include "workers/models/files/weight_layout.h"
#include "workers/models/whisper/whisper.h"
#include "workers/text/json_file.h"
#include "workers/text/languages.h"
#include "workers/text/tokenizer/bpe.h"
#include "workers/text/tokenizer/vocabulary.h"

#define ENGLISH_VOCABULARY                                                \
    51864 /* the output rows of all English-only models, and of no others \
           */

/* ---- what is never said, where a model does not say it */

/* The symbols that OpenAI's program never lets a model say: a token that is one of them, or a blank
 * and one of them. A note of several tokens bans its first token, too. */
static const char *const symbols[] = {
    "\"",  "#",  "(",  ")",   "*",   "+",   "/",   ":",  ";",   "<",  "=",   ">",
    "@",   "[",  "\\", "]",   "^",   "_",   "`",   "{",  "|",   "}",  "~",   "「",
    "」",  "『", "』", "<<",  ">>",  "<<<", ">>>", "--", "---", "-(", "-[",  "('",
    "(\"", "((", "))", "(((", ")))", "[[",  "]]",  "{{", "}}",  "♪♪", "♪♪♪",
};
static const char *const notes[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};

/* Appends the token of `text`; `first`: of several, the first one. */
static int put_token(const struct vocabulary *v, const char *text, bool first, json_t *list,
                     struct err *err)
{
    int32_t *ids = NULL;
    size_t n = 0;
    int rc = vocabulary_encode(v, text, &ids, &n, err);

    if (rc == 0 && (n == 1 || (n && first)) && json_array_append_new(list, json_integer(ids[0])))
        rc = err_no_memory(err, "the vocabulary");
    free(ids);
    return rc;
}

static int put_symbol(const struct vocabulary *v, const char *symbol, bool first, json_t *list,
                      struct err *err)
{
    char spaced[16];
    int rc = put_token(v, symbol, first, list, err);

    snprintf(spaced, sizeof(spaced), " %s", symbol);
    return rc ? rc : put_token(v, spaced, first, list, err);
}

/* A new list of ids, as generation_config.json has it. */
static int unsaid_tokens(const struct vocabulary *v, json_t **ret, struct err *err)
{
    const struct vocabulary_ids *ids = vocabulary_ids(v);
    const int32_t specials[] = {ids->transcribe, ids->translate, ids->sot,
                                ids->sot_prev,   ids->sot_lm,    ids->no_speech};
    json_t *list = json_array();
    int rc = list ? 0 : err_no_memory(err, "the vocabulary");

    if (rc == 0)
        rc = put_token(v, " -", true, list, err);
    if (rc == 0)
        rc = put_token(v, " '", true, list, err);
    for (size_t i = 0; rc == 0 && i < sizeof(symbols) / sizeof(symbols[0]); i++)
        rc = put_symbol(v, symbols[i], false, list, err);
    for (size_t i = 0; rc == 0 && i < sizeof(notes) / sizeof(notes[0]); i++)
        rc = put_symbol(v, notes[i], true, list, err);
    for (size_t i = 0; rc == 0 && i < sizeof(specials) / sizeof(specials[0]); i++)
        if (specials[i] >= 0 && json_array_append_new(list, json_integer(specials[i])))
            rc = err_no_memory(err, "the vocabulary");
    if (rc != 0)
        json_decref(list);
    else
        *ret = list;
    return rc;
}

/* ---- from what a layout says */

struct reading {
    json_t *generation;              /* what generation_config.json would say */
    struct vocabulary_source source; /* its tokenizer or its tokens */
    char *config;                    /* owned; the number of output rows as config.json says it */
};

static int parse_once(struct reading *r, struct vocabulary **ret, struct err *err)
{
    char *generation = json_dumps(r->generation, JSON_COMPACT);
    int rc = generation ? 0 : err_no_memory(err, "the vocabulary");

    if (rc == 0) {
        r->source.generation = generation;
        r->source.generation_len = strlen(generation);
        rc = vocabulary_parse(&r->source, ret, err);
    }
    free(generation);
    return rc;
}

/* Suppression lists depend on the tokens, so these are parsed first. */
static int parse_whisper_vocabulary(struct reading *r, struct vocabulary **ret, struct err *err)
{
    json_t *unsaid = NULL;
    int rc = parse_once(r, ret, err);

    if (rc != 0 || json_object_get(r->generation, "suppress_tokens"))
        return rc;
    rc = unsaid_tokens(*ret, &unsaid, err);
    vocabulary_free(*ret);
    *ret = NULL;
    if (rc == 0 && json_object_set_new(r->generation, "suppress_tokens", unsaid))
        rc = err_no_memory(err, "the vocabulary");
    return rc != 0 ? rc : parse_once(r, ret, err);
}

/* The number of output rows decides which languages there are, and bounds the ids. */
static int begin_vocabulary_reading(struct reading *r, uint32_t rows, struct err *err)
{
    json_t *config = json_pack("{s:I}", "vocab_size", (json_int_t)rows);

    r->generation = json_pack("{s:b}", "is_multilingual", (int)(rows != ENGLISH_VOCABULARY));
    r->config = config ? json_dumps(config, JSON_COMPACT) : NULL;
    json_decref(config);
    if (!r->generation || !r->config)
        return err_no_memory(err, "the vocabulary");
    r->source.config = r->config;
    r->source.config_len = strlen(r->config);
    return 0;
}

static void free_vocabulary_reading(struct reading *r)
{
    json_decref(r->generation);
    free(r->config);
}

/* ---- CTranslate2 */

/* A folder's tokens, each as GPT-2 writes it. */
struct token_list {
    struct buf text;                /* vocabulary.txt */
    json_t *json;                   /* vocabulary.json */
    struct vocabulary_token *token; /* owned, not what it points to */
    size_t count;
};

static int from_json(struct token_list *l, struct err *err)
{
    size_t n = json_array_size(l->json);

    l->token = calloc(n + 1, sizeof(*l->token));
    if (!l->token)
        return err_no_memory(err, "the vocabulary");
    for (; l->count < n; l->count++) {
        const json_t *t = json_array_get(l->json, l->count);

        if (!json_is_string(t))
            return err_set(err, ERR_MODEL, "vocabulary.json: token %zu is no text", l->count);
        l->token[l->count] = (struct vocabulary_token){json_string_value(t), json_string_length(t)};
    }
    return 0;
}

/* A line for each token; an empty one is a token, too. */
static int from_lines(struct token_list *l, struct err *err)
{
    const char *at = (const char *)l->text.data, *last = at + l->text.len, *stop;
    size_t lines = 1;

    for (const char *p = at; p < last; p++)
        lines += *p == '\n';
    l->token = calloc(lines, sizeof(*l->token));
    if (!l->token)
        return err_no_memory(err, "the vocabulary");
    for (; at < last; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(last - at));
        if (!stop)
            stop = last;
        l->token[l->count++] = (struct vocabulary_token){at, (size_t)(stop - at)};
    }
    return 0;
}

static int read_list(const char *dir, struct token_list *l, struct err *err)
{
    int rc = json_file_read_list(dir, "vocabulary.json", &l->json, err);

    if (rc == 0)
        return from_json(l, err);
    if (rc == ERR_MISSING)
        rc = json_file_slurp(dir, "vocabulary.txt", &l->text, err);
    if (rc == 0)
        return from_lines(l, err);
    if (rc == ERR_MISSING)
        rc = err_set(err, ERR_MODEL,
                     "it has no tokenizer.json, vocabulary.json or vocabulary.txt; fetch the "
                     "model's files again");
    return rc;
}

static void list_free(struct token_list *l)
{
    free(l->token);
    json_decref(l->json);
    buf_free(&l->text);
}

/* Tokens before the end token are text. */
static int take_list(struct reading *r, const struct token_list *l, struct err *err)
{
    static const char stop[] = "<|endoftext|>";
    size_t i = 0;

    while (i < l->count &&
           (l->token[i].len != strlen(stop) || memcmp(l->token[i].text, stop, strlen(stop)) != 0))
        i++;
    if (i == l->count)
        return err_set(err, ERR_MODEL, "its vocabulary has no %s; is this a Whisper model?", stop);
    r->source.tokens = l->token;
    r->source.token_count = l->count;
    r->source.text_count = i;
    r->source.spelled = true;
    return 0;
}

/* Copies config.json's keys under the names of generation_config.json. */
static int take_ct2_config(struct reading *r, const char *dir, struct err *err)
{
    static const char *const keys[][2] = {{"suppress_ids", "suppress_tokens"},
                                          {"suppress_ids_begin", "begin_suppress_tokens"},
                                          {"alignment_heads", "alignment_heads"}};
    json_t *config = NULL;
    int rc = json_file_need(dir, "config.json", &config, err);

    for (size_t i = 0; rc == 0 && i < sizeof(keys) / sizeof(keys[0]); i++) {
        json_t *value = json_object_get(config, keys[i][0]);

        if (value && json_object_set(r->generation, keys[i][1], value))
            rc = err_no_memory(err, "the vocabulary");
    }
    json_decref(config);
    return rc;
}

static int read_ct2(const char *dir, struct vocabulary **ret, struct err *err)
{
    struct buf tokenizer = BUF_INIT;
    struct whisper_config sizes;
    struct token_list list = {.text = BUF_INIT};
    struct reading r = {0};
    int rc = whisper_read_sizes(dir, &sizes, err);

    if (rc == 0)
        rc = begin_vocabulary_reading(&r, sizes.vocab_size, err);
    if (rc == 0)
        rc = take_ct2_config(&r, dir, err);
    if (rc != 0)
        goto out;
    rc = json_file_slurp(dir, "tokenizer.json", &tokenizer, err);
    r.source.tokenizer = (const char *)tokenizer.data;
    r.source.tokenizer_len = tokenizer.len;
    if (rc == ERR_MISSING) {
        rc = read_list(dir, &list, err);
        if (rc == 0)
            rc = take_list(&r, &list, err);
    }
    if (rc == 0)
        rc = parse_whisper_vocabulary(&r, ret, err);
out:
    free_vocabulary_reading(&r);
    list_free(&list);
    buf_free(&tokenizer);
    return rc != 0 ? err_prefix(err, "model %s", dir) : 0;
}

/* ---- whisper.cpp */

#define TIMESTAMPS 1501 /* <|0.00|> to <|30.00|>, every 20 ms */
#define NAME_BYTES 16

/* The tokens of a file: its texts, then the special ones in the order that all Whisper models have.
 */
struct ggml_list {
    struct vocabulary_token *token;
    char (*name)[NAME_BYTES]; /* of languages and timestamps */
    size_t count, names;
};

static void put_special(struct ggml_list *l, const char *name)
{
    l->token[l->count++] = (struct vocabulary_token){name, strlen(name)};
}

static void put_all_specials(struct ggml_list *l, size_t languages)
{
    static const char *const tasks[] = {"<|translate|>",   "<|transcribe|>", "<|startoflm|>",
                                        "<|startofprev|>", "<|nospeech|>",   "<|notimestamps|>"};

    put_special(l, "<|endoftext|>");
    put_special(l, "<|startoftranscript|>");
    for (size_t i = 0; i < languages; i++) {
        snprintf(l->name[l->names], NAME_BYTES, "<|%s|>", language_token(i));
        put_special(l, l->name[l->names++]);
    }
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++)
        put_special(l, tasks[i]);
    for (unsigned i = 0; i < TIMESTAMPS; i++) {
        snprintf(l->name[l->names], NAME_BYTES, "<|%u.%02u|>", i / 50, i % 50 * 2);
        put_special(l, l->name[l->names++]);
    }
}

/* How many languages fill what is between the texts and the output rows. */
static int count_languages(const struct ggml_token *t, size_t *texts, uint32_t rows, size_t *ret,
                           struct err *err)
{
    static const char stop[] = "<|endoftext|>";
    const size_t others = 2 + 6 + TIMESTAMPS;

    /* In the file of a fine-tune it may be among the texts. */
    if (*texts && t[*texts - 1].len == strlen(stop) &&
        memcmp(t[*texts - 1].bytes, stop, strlen(stop)) == 0)
        --*texts;
    if (rows < *texts + others + 1 || rows > *texts + others + LANGUAGE_TOKENS_MAX)
        return err_set(err, ERR_MODEL,
                       "it has %zu text tokens and %u output rows: with Whisper's special tokens "
                       "that leaves no 1 to %d languages",
                       *texts, rows, LANGUAGE_TOKENS_MAX);
    *ret = rows - *texts - others;
    return 0;
}

static int take_ggml_tokens(struct ggml_list *l, struct reading *r, const struct ggml_file *g,
                            uint32_t rows, struct err *err)
{
    size_t texts, languages = 0;
    const struct ggml_token *t = ggml_file_tokens(g, &texts);
    int rc = count_languages(t, &texts, rows, &languages, err);

    if (rc != 0)
        return rc;
    l->token = calloc(rows, sizeof(*l->token));
    l->name = calloc(languages + TIMESTAMPS, sizeof(*l->name));
    if (!l->token || !l->name)
        return err_no_memory(err, "the vocabulary");
    for (; l->count < texts; l->count++)
        l->token[l->count] =
            (struct vocabulary_token){(const char *)t[l->count].bytes, t[l->count].len};
    put_all_specials(l, languages);
    r->source.tokens = l->token;
    r->source.token_count = l->count;
    r->source.text_count = texts;
    return 0;
}

static int put_known_heads(struct reading *r, const struct whisper_config *sizes, struct err *err)
{
    size_t n;
    const uint8_t(*heads)[2] = whisper_known_heads(sizes, &n);
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("[i, i]", heads[i][0], heads[i][1]));
    if (json_array_size(list) != n ||
        json_object_set_new(r->generation, "alignment_heads", list) != 0)
        return err_no_memory(err, "the vocabulary");
    return 0;
}

static int read_ggml(const char *file, struct vocabulary **ret, struct err *err)
{
    struct ggml_list list = {0};
    struct ggml_file *g = NULL;
    struct whisper_config sizes;
    struct reading r = {0};
    int rc = whisper_read_sizes(file, &sizes, err);

    if (rc == 0)
        rc = ggml_file_open(file, &g, err);
    if (rc == 0)
        rc = begin_vocabulary_reading(&r, sizes.vocab_size, err);
    if (rc == 0)
        rc = put_known_heads(&r, &sizes, err);
    if (rc == 0)
        rc = take_ggml_tokens(&list, &r, g, sizes.vocab_size, err);
    if (rc == 0)
        rc = parse_whisper_vocabulary(&r, ret, err);
    free_vocabulary_reading(&r);
    free(list.token);
    free(list.name);
    ggml_file_close(g);
    return rc != 0 ? err_prefix(err, "model %s", file) : 0;
}

/* ---- whichever it is */

static int read_any(const char *model, struct vocabulary **ret, struct err *err)
{
    switch (weight_layout_format(model)) {
    case WEIGHT_FORMAT_CT2:
        return read_ct2(model, ret, err);
    case WEIGHT_FORMAT_GGML:
        return read_ggml(model, ret, err);
    default:
        return vocabulary_load(model, ret, err); /* which names the model itself */
    }
}

int whisper_vocabulary(const char *model, struct vocabulary **ret, struct err *err)
{
    char *base = NULL;
    int rc = adapter_base(model, &base, err);

    if (rc == 0)
        rc = read_any(base, ret, err);
    free(base);
    if (rc != 0) {
        utf8_display_err(err);
        if (rc != ERR_NOMEM)
            rc = err->code = ERR_MODEL; /* whatever it was, this model cannot be used */
    }
    return rc;
}
