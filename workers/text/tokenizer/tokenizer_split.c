#include "workers/text/tokenizer/tokenizer_split.h"

#include <stdlib.h>
#include <string.h>

#include "workers/text/tokenizer/bpe.h"
#include "workers/text/tokenizer/tokenizer_normalize.h"

/* Each is compared with the text at each of its characters. */
#define MAX_CONTENT_BYTES 256

struct added_token {
    int32_t id;
    bool normalized, single_word, left, right; /* left, right: takes the blanks there, too */
    struct codepoints content;                 /* as it is looked for */
    char *name;                                /* as the file has it; owned */
};

/* ---- added tokens: reading */

static int read_content(struct added_token *t, const json_t *content,
                        const struct tokenizer_normalizer *normalizer, struct err *err)
{
    struct codepoints spare = {0};
    int rc = 0;

    t->name = strdup(json_string_value(content));
    codepoints_put_utf8(&t->content, json_string_value(content), json_string_length(content));
    if (!t->name || t->content.failed)
        return err_set(err, ERR_NOMEM, "no memory for a tokenizer");
    if (t->normalized)
        rc = tokenizer_normalize(normalizer, &t->content, &spare, err);
    codepoints_free(&spare);
    return rc;
}

static int read_one(const json_t *j, const struct tokenizer_normalizer *normalizer,
                    struct tokenizer_added *a, struct err *err)
{
    const json_t *id = json_object_get(j, "id"), *content = json_object_get(j, "content");
    struct added_token *t = &a->tokens[a->n];
    int rc;

    if (!json_is_string(content) || !json_string_length(content) || !json_is_integer(id) ||
        json_integer_value(id) < 0 || json_integer_value(id) >= BPE_MAX_ID)
        return err_set(err, ERR_MODEL, "added token %u lacks its id or its content", a->n);
    if (json_string_length(content) > MAX_CONTENT_BYTES)
        return err_set(err, ERR_MODEL, "added token %u is %zu bytes long", a->n,
                       json_string_length(content));
    a->n++; /* from here on it is freed */
    t->id = (int32_t)json_integer_value(id);
    t->normalized = json_is_true(json_object_get(j, "normalized"));
    t->single_word = json_is_true(json_object_get(j, "single_word"));
    t->left = json_is_true(json_object_get(j, "lstrip"));
    t->right = json_is_true(json_object_get(j, "rstrip"));
    if ((rc = read_content(t, content, normalizer, err)))
        return rc;
    if (t->content.len)
        a->begins[t->normalized][t->content.at[0] & 255] = true;
    a->size = t->id >= a->size ? t->id + 1 : a->size;
    return 0;
}

int tokenizer_added_read(const json_t *json, const struct tokenizer_normalizer *normalizer,
                         struct tokenizer_added *ret, struct err *err)
{
    size_t n = json_array_size(json);
    int rc = 0;

    if (!json || json_is_null(json))
        return 0;
    if (!json_is_array(json) || n > TOKENIZER_MAX_ADDED)
        return err_set(err, ERR_MODEL, "added_tokens is not a list of at most %d",
                       TOKENIZER_MAX_ADDED);
    ret->tokens = calloc(n + 1, sizeof(*ret->tokens));
    if (!ret->tokens)
        return err_set(err, ERR_NOMEM, "no memory for a tokenizer");
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = read_one(json_array_get(json, i), normalizer, ret, err);
    return rc;
}

void tokenizer_added_free(struct tokenizer_added *a)
{
    for (uint32_t i = 0; i < a->n; i++) {
        codepoints_free(&a->tokens[i].content);
        free(a->tokens[i].name);
    }
    free(a->tokens);
    *a = (struct tokenizer_added){0};
}

int32_t tokenizer_added_at(const struct tokenizer_added *a, uint32_t i, const char **name)
{
    *name = i < a->n ? a->tokens[i].name : NULL;
    return i < a->n ? a->tokens[i].id : -1;
}

/* ---- added tokens: looking for them */

/* The longest token that begins there; NULL when none does. */
static const struct added_token *longest_at(const struct tokenizer_added *a, bool normalized,
                                            const int32_t *text, size_t len)
{
    const struct added_token *found = NULL;

    if (!a->begins[normalized][text[0] & 255])
        return NULL;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct added_token *t = &a->tokens[i];
        size_t n = t->content.len;

        if (t->normalized == normalized && n > 0 && n <= len &&
            (!found || n > found->content.len) &&
            memcmp(t->content.at, text, n * sizeof(*text)) == 0)
            found = t;
    }
    return found;
}

static bool stands_alone(const int32_t *text, size_t len, size_t from, size_t end)
{
    return (from == 0 || !tokenizer_is_word(text[from - 1])) &&
           (end == len || !tokenizer_is_word(text[end]));
}

bool tokenizer_added_split(const struct tokenizer_added *a, bool normalized, const int32_t *text,
                           size_t len, const struct added_calls *calls)
{
    size_t done = 0;

    for (size_t i = 0; i < len;) {
        const struct added_token *t = longest_at(a, normalized, text + i, len - i);
        size_t from = i, end = i + (t ? t->content.len : 1);

        i = end;
        if (!t || (t->single_word && !stands_alone(text, len, from, end)))
            continue;
        while (t->left && from > done && tokenizer_is_blank(text[from - 1]))
            from--;
        while (t->right && end < len && tokenizer_is_blank(text[end]))
            end++;
        if (from > done && !calls->part(calls->arg, text + done, from - done, done))
            return false;
        if (!calls->token(calls->arg, t->id))
            return false;
        done = i = end;
    }
    return done == len || calls->part(calls->arg, text + done, len - done, done);
}

/* ---- words: each part's words are the next part's texts */

struct splitter {
    const struct tokenizer_split *split;
    tokenizer_word_fn fn;
    void *arg;
};

static bool from_part(const struct splitter *s, uint32_t part, const int32_t *text, size_t len,
                      bool first);

static bool at_blanks(const struct splitter *s, uint32_t part, const int32_t *text, size_t len,
                      bool first)
{
    for (size_t i = 0, end; i < len; i = end) {
        while (i < len && tokenizer_is_blank(text[i]))
            i++;
        for (end = i; end < len && !tokenizer_is_blank(text[end]);)
            end++;
        if (!from_part(s, part + 1, text + i, end - i, first && i == 0))
            return false;
    }
    return true;
}

static bool at_punctuation(const struct splitter *s, uint32_t part, const int32_t *text, size_t len,
                           bool first)
{
    for (size_t i = 0, end; i < len; i = end) {
        for (end = i + 1; end < len && !tokenizer_is_punctuation(text[i]);) {
            if (tokenizer_is_punctuation(text[end]))
                break;
            end++;
        }
        if (!from_part(s, part + 1, text + i, end - i, first && i == 0))
            return false;
    }
    return true;
}

static bool at_signs(const struct splitter *s, uint32_t part, const struct codepoints *t,
                     bool first)
{
    int32_t sign = s->split->parts[part].sign;

    if (s->split->parts[part].whole)
        return from_part(s, part + 1, t->at, t->len, first);
    for (size_t i = 0, end; i < t->len; i = end) {
        for (end = i + 1; end < t->len && t->at[end] != sign;)
            end++;
        if (!from_part(s, part + 1, t->at + i, end - i, first && i == 0))
            return false;
    }
    return true;
}

static bool split_at_metaspace(const struct splitter *s, uint32_t part, const int32_t *text,
                               size_t len, bool first)
{
    const struct split_part *p = &s->split->parts[part];
    struct codepoints t = {0};
    bool ok;

    if (text[0] != ' ' && text[0] != p->sign &&
        (p->prefix == PREFIX_ALWAYS || (p->prefix == PREFIX_FIRST && first)))
        codepoints_put(&t, p->sign);
    for (size_t i = 0; i < len && !t.failed; i++)
        codepoints_put(&t, text[i] == ' ' ? p->sign : text[i]);
    ok = !t.failed && at_signs(s, part, &t, first);
    codepoints_free(&t);
    return ok;
}

static bool from_part(const struct splitter *s, uint32_t part, const int32_t *text, size_t len,
                      bool first)
{
    if (len == 0)
        return true;
    if (part == s->split->n)
        return s->fn(s->arg, text, len);
    switch (s->split->parts[part].kind) {
    case SPLIT_BLANKS:
        return at_blanks(s, part, text, len, first);
    case SPLIT_PUNCTUATION:
        return at_punctuation(s, part, text, len, first);
    default:
        return split_at_metaspace(s, part, text, len, first);
    }
}

static bool byte_level(const struct splitter *s, const int32_t *text, size_t len)
{
    struct codepoints t = {0};
    bool ok;

    if (!s->split->prefix_blank || text[0] == ' ')
        return s->fn(s->arg, text, len);
    codepoints_put(&t, ' ');
    for (size_t i = 0; i < len && !t.failed; i++)
        codepoints_put(&t, text[i]);
    ok = !t.failed && s->fn(s->arg, t.at, t.len);
    codepoints_free(&t);
    return ok;
}

bool tokenizer_split(const struct tokenizer_split *s, const int32_t *text, size_t len, bool first,
                     tokenizer_word_fn fn, void *arg)
{
    const struct splitter splitter = {s, fn, arg};

    if (len == 0)
        return true;
    return s->byte_level ? byte_level(&splitter, text, len)
                         : from_part(&splitter, 0, text, len, first);
}

/* ---- words: reading */

static int add_part(struct tokenizer_split *s, struct split_part part, struct err *err)
{
    if (s->n == TOKENIZER_MAX_SPLITS)
        return err_set(err, ERR_MODEL, "the pre_tokenizer has over %d steps", TOKENIZER_MAX_SPLITS);
    s->parts[s->n++] = part;
    return 0;
}

/* Files of before 2024 have add_prefix_space alone. */
static int read_metaspace(const json_t *j, struct tokenizer_split *s, struct err *err)
{
    const char *sign = json_string_value(json_object_get(j, "replacement"));
    const char *scheme = json_string_value(json_object_get(j, "prepend_scheme"));
    struct split_part part = {.kind = SPLIT_METASPACE};
    struct codepoints c = {0};
    bool failed;

    codepoints_put_utf8(&c, sign ? sign : "", sign ? strlen(sign) : 0);
    if (c.len == 1)
        part.sign = c.at[0];
    failed = c.failed;
    codepoints_free(&c);
    if (failed)
        return err_set(err, ERR_NOMEM, "no memory for a tokenizer");
    if (part.sign == 0)
        return err_set(err, ERR_MODEL, "the pre_tokenizer's replacement is not one character");
    if (scheme && strcmp(scheme, "always") != 0 && strcmp(scheme, "first") != 0 &&
        strcmp(scheme, "never") != 0)
        return err_set(err, ERR_MODEL, "the pre_tokenizer's prepend_scheme '%.40s' is not known",
                       scheme);
    if (scheme)
        part.prefix = scheme[0] == 'a'   ? PREFIX_ALWAYS
                      : scheme[0] == 'f' ? PREFIX_FIRST
                                         : PREFIX_NEVER;
    if (json_is_false(json_object_get(j, "add_prefix_space")))
        part.prefix = PREFIX_NEVER;
    part.whole = json_is_false(json_object_get(j, "split"));
    return add_part(s, part, err);
}

static int read_byte_level(const json_t *j, struct tokenizer_split *s, struct err *err)
{
    if (json_is_false(json_object_get(j, "use_regex")))
        return err_set(err, ERR_MODEL, "the pre_tokenizer's use_regex: false is not supported");
    s->byte_level = true;
    s->prefix_blank = !json_is_false(json_object_get(j, "add_prefix_space"));
    return 0;
}

static int read_punctuation(const json_t *j, struct tokenizer_split *s, struct err *err)
{
    const char *behavior = json_string_value(json_object_get(j, "behavior"));

    if (behavior && strcmp(behavior, "Isolated") != 0)
        return err_set(err, ERR_MODEL, "the pre_tokenizer's behavior '%.40s' is not supported",
                       behavior);
    return add_part(s, (struct split_part){.kind = SPLIT_PUNCTUATION}, err);
}

static int read_any(const json_t *j, struct tokenizer_split *s, int depth, struct err *err)
{
    const char *type = json_string_value(json_object_get(j, "type"));
    const json_t *list = json_object_get(j, "pretokenizers");
    int rc;

    if (!type)
        return err_set(err, ERR_MODEL, "a pre_tokenizer has no type");
    if (strcmp(type, "BertPreTokenizer") == 0) {
        rc = add_part(s, (struct split_part){.kind = SPLIT_BLANKS}, err);
        return rc ? rc : add_part(s, (struct split_part){.kind = SPLIT_PUNCTUATION}, err);
    }
    if (strcmp(type, "WhitespaceSplit") == 0)
        return add_part(s, (struct split_part){.kind = SPLIT_BLANKS}, err);
    if (strcmp(type, "Punctuation") == 0)
        return read_punctuation(j, s, err);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(j, s, err);
    if (strcmp(type, "ByteLevel") == 0)
        return read_byte_level(j, s, err);
    if (strcmp(type, "Sequence") != 0 || depth == 0 || !json_is_array(list))
        return err_set(err, ERR_MODEL, "the pre_tokenizer '%.40s' is not supported", type);
    for (size_t i = 0; i < json_array_size(list); i++)
        if ((rc = read_any(json_array_get(list, i), s, depth - 1, err)))
            return rc;
    return 0;
}

int tokenizer_split_read(const json_t *json, struct tokenizer_split *ret, struct err *err)
{
    int rc = json && !json_is_null(json) ? read_any(json, ret, 4, err) : 0;

    if (rc == 0 && ret->byte_level && ret->n)
        rc = err_set(err, ERR_MODEL, "a ByteLevel pre_tokenizer beside others is not supported");
    return rc;
}
