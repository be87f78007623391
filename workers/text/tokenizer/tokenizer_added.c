#include "workers/text/tokenizer/tokenizer_added.h"

#include <stdlib.h>
#include <string.h>

#include "workers/text/tokenizer/bpe.h"

/* Each is compared with the text at each of its characters. */
#define MAX_CONTENT_BYTES 256

struct added_token {
    int32_t id;
    bool normalized, single_word, left, right; /* left, right: takes the blanks there, too */
    struct codepoints content;                 /* as it is looked for */
    char *name;                                /* as the file has it; owned */
};

/* ---- reading */

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

/* ---- looking for them */

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
