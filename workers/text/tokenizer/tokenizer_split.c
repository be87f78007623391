#include "workers/text/tokenizer/tokenizer_split.h"

#include <string.h>

#include "workers/text/tokenizer/tokenizer_normalize.h"

/* ---- splitting: each part's words are the next part's texts */

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

/* ---- reading */

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
