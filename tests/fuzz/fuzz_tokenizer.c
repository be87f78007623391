/* Model files from anywhere: tokenizer.json, generation_config.json and config.json, parted by NUL
 * bytes, and after a third NUL a text to encode. What parses must also encode and decode. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "workers/text/tokenizer/vocabulary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes the bytes up to the next NUL off the front; NULL when there are none left. */
static const char *take(const uint8_t **data, size_t *size, size_t *len)
{
    const uint8_t *p = *data, *nul = *size ? memchr(p, 0, *size) : NULL;

    *len = nul ? (size_t)(nul - p) : *size;
    *data = nul ? nul + 1 : p + *size;
    *size -= nul ? *len + 1 : *len;
    return *len ? (const char *)p : NULL;
}

static void use(const struct vocabulary *v, const char *text)
{
    struct err err;
    int32_t *ids;
    size_t n, count = vocabulary_size(v);
    char *back;

    if (vocabulary_encode(v, text, &ids, &n, &err) == 0) {
        for (size_t i = 0; i < n; i++)
            if (ids[i] < 0 || (size_t)ids[i] >= count)
                abort();
        if (vocabulary_decode(v, ids, n, &back, &err) == 0)
            free(back);
        free(ids);
    }
    for (uint32_t i = 0; i < vocabulary_language_count(v); i++)
        if (!vocabulary_language_code(v, vocabulary_language_at(v, i)))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vocabulary_source s = {0};
    struct vocabulary *v;
    struct err err;
    size_t len;
    char *text;
    const char *rest;

    s.tokenizer = take(&data, &size, &s.tokenizer_len);
    s.generation = take(&data, &size, &s.generation_len);
    s.config = take(&data, &size, &s.config_len);
    rest = take(&data, &size, &len);
    if (vocabulary_parse(&s, &v, &err))
        return 0;
    text = strndup(rest ? rest : "a b", rest ? len : 3);
    if (text)
        use(v, text);
    free(text);
    vocabulary_free(v);
    return 0;
}
