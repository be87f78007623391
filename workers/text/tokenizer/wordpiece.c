#include "workers/text/tokenizer/wordpiece.h"

#include <string.h>

#include "workers/text/tokenizer/bpe.h"

/* BERT's is 100. A word's cost grows with the square of its length. */
#define MAX_CHARS 1000
#define MAX_TOKEN_BYTES 4096

static int add_wordpiece_token(struct wordpiece *w, const char *prefix, const char *token,
                               const json_t *value, struct err *err)
{
    size_t len = strlen(token), skip = strlen(prefix);
    json_int_t id = json_integer_value(value);
    int rc;

    if (!json_is_integer(value) || id < 0 || id >= BPE_MAX_ID)
        return err_set(err, ERR_MODEL, "the id of token '%.40s' is not within 0..%d", token,
                       BPE_MAX_ID - 1);
    if (len == 0 || len > MAX_TOKEN_BYTES)
        return err_set(err, ERR_MODEL, "token %lld is %zu bytes long", (long long)id, len);
    if ((rc = token_map_put(&w->begins, token, len, (int32_t)id, err)))
        return rc;
    w->size = id >= w->size ? (int32_t)id + 1 : w->size;
    if (len > skip && memcmp(token, prefix, skip) == 0)
        return token_map_put(&w->continues, token + skip, len - skip, (int32_t)id, err);
    return 0;
}

int wordpiece_read(struct wordpiece *w, const json_t *model, struct err *err)
{
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    const char *prefix = json_string_value(json_object_get(model, "continuing_subword_prefix"));
    const json_t *longest = json_object_get(model, "max_input_chars_per_word");
    json_t *vocab = json_object_get(model, "vocab"), *value;
    const char *token;
    int rc;

    if (!json_is_object(vocab) || !json_object_size(vocab))
        return err_set(err, ERR_MODEL, "model.vocab is missing or empty");
    json_object_foreach(vocab, token, value)
    {
        if ((rc = add_wordpiece_token(w, prefix ? prefix : "##", token, value, err)))
            return rc;
    }
    w->max_chars = 100;
    if (longest && (!json_is_integer(longest) || json_integer_value(longest) < 1 ||
                    json_integer_value(longest) > MAX_CHARS))
        return err_set(err, ERR_MODEL, "max_input_chars_per_word is not within 1..%d", MAX_CHARS);
    if (longest)
        w->max_chars = (uint32_t)json_integer_value(longest);
    unknown = unknown ? unknown : "[UNK]";
    w->unknown = token_map_find(&w->begins, unknown, strlen(unknown));
    if (w->unknown < 0)
        return err_set(err, ERR_MODEL, "the unknown token '%.40s' is not in the vocabulary",
                       unknown);
    return 0;
}

void wordpiece_free(struct wordpiece *w)
{
    token_map_free(&w->begins);
    token_map_free(&w->continues);
}

static bool begins_character(char c) { return ((unsigned char)c & 0xC0) != 0x80; }

/* The longest token that begins there; its length in *ret. -1: none does. */
static int32_t longest_at(const struct token_map *m, const char *at, size_t len, size_t *ret)
{
    for (size_t n = len < m->longest ? len : m->longest; n > 0; n--) {
        int32_t id = n == len || begins_character(at[n]) ? token_map_find(m, at, n) : -1;

        if (id >= 0) {
            *ret = n;
            return id;
        }
    }
    return -1;
}

void wordpiece_encode(const struct wordpiece *w, const char *word, size_t len,
                      struct token_list *out)
{
    size_t first = out->n, chars = 0, n = 0;

    for (size_t i = 0; i < len; i++)
        chars += begins_character(word[i]);
    for (size_t at = 0; at < len && chars <= w->max_chars; at += n) {
        int32_t id = longest_at(at ? &w->continues : &w->begins, word + at, len - at, &n);

        if (id < 0) {
            chars = SIZE_MAX;
            break;
        }
        token_list_put(out, id);
    }
    if (chars > w->max_chars) {
        out->n = first;
        token_list_put(out, w->unknown);
    }
}
