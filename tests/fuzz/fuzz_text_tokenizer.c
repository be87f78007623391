/* tokenizer.json of a text encoder from anywhere, and after a NUL a text to encode. What parses
 * must also encode, within the bound that is asked for and with ids that it has. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "workers/text/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct tokenizer *t, const char *text, size_t len, uint32_t max)
{
    uint32_t bound = max > tokenizer_specials(t) ? max : tokenizer_specials(t);
    struct err err;
    int32_t *ids;
    size_t n;

    if (tokenizer_encode(t, text, len, max, &ids, &n, &err))
        return;
    if (n > bound || n < tokenizer_specials(t))
        abort();
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= tokenizer_size(t))
            abort();
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t len = nul ? (size_t)(nul - data) : size;
    const char *text = nul ? (const char *)nul + 1 : "a b\xCC\x81 \xE6\x97\xA5!";
    size_t text_len = nul ? size - len - 1 : strlen(text);
    struct tokenizer *t;
    struct err err;

    if (tokenizer_parse((const char *)data, len, &t, &err))
        return 0;
    use(t, text, text_len, TOKENIZER_NO_BOUND);
    use(t, text, text_len, 3);
    tokenizer_free(t);
    return 0;
}
