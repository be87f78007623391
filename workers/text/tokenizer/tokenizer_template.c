#include "workers/text/tokenizer/tokenizer_template.h"

#include <stdbool.h>
#include <string.h>

#include "workers/text/tokenizer/bpe.h"

static int add_template_token(struct tokenizer_template *t, bool after, const json_t *id,
                              struct err *err)
{
    uint32_t *n = after ? &t->after_count : &t->before_count;
    int32_t *list = after ? t->after : t->before;
    json_int_t v = json_integer_value(id);

    if (!json_is_integer(id) || v < 0 || v >= BPE_MAX_ID)
        return err_set(err, ERR_MODEL, "the post_processor's tokens have no usable ids");
    if (*n == TOKENIZER_MAX_AROUND)
        return err_set(err, ERR_MODEL, "the post_processor puts over %d tokens around a text",
                       TOKENIZER_MAX_AROUND);
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

static int read_any(const json_t *j, struct tokenizer_template *t, int depth, struct err *err)
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
            rc = read_any(json_array_get(list, i), t, depth - 1, err);
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

int tokenizer_template_read(const json_t *json, struct tokenizer_template *ret, struct err *err)
{
    return json && !json_is_null(json) ? read_any(json, ret, 4, err) : 0;
}
