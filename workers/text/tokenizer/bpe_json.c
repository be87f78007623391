#include "workers/text/tokenizer/bpe_json.h"

#include <string.h>

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

int bpe_read_json(struct bpe *b, const json_t *model, struct err *err)
{
    int rc = read_vocab(b, json_object_get(model, "vocab"), err);

    return rc ? rc : read_merges(b, json_object_get(model, "merges"), err);
}
