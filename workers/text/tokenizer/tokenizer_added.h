/* workers/text/tokenizer/tokenizer_added.h - tokens that are recognised in a text before anything
 * else ("<mask>", "[SEP]"). Private to the tokenizer. Immutable after it was read; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKENIZER_ADDED_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKENIZER_ADDED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/text/codepoints.h"
#include "workers/text/tokenizer/tokenizer_normalize.h"

#define TOKENIZER_MAX_ADDED 4096 /* text models of sentences have five; T5, a hundred */

struct added_token;

struct tokenizer_added {
    struct added_token *tokens; /* owned */
    uint32_t n;
    bool begins[2]
               [256]; /* may a token (plain, normalised) begin with a character of this low byte? */
    int32_t size;     /* highest id + 1 */
};

/* From "added_tokens", which may be NULL or null. Tokens with the flag `normalized` are normalised
 * and searched in the normalised text. ret is zeroed, and is tokenizer_added_free's after an error,
 * too. ERR_MODEL. */
int tokenizer_added_read(const json_t *json, const struct tokenizer_normalizer *normalizer,
                         struct tokenizer_added *ret, struct err *err);
void tokenizer_added_free(struct tokenizer_added *a);
/* The id of a token, and the token as the file has it (borrowed); -1 and NULL past the end. */
int32_t tokenizer_added_at(const struct tokenizer_added *a, uint32_t i, const char **name);

/* Calls `part` for what lies between tokens, none of it empty (at: where in the text), and `token`
 * for each token, in order; where several begin, the longest. False at once when one gives false.
 */
struct added_calls {
    bool (*part)(void *arg, const int32_t *text, size_t len, size_t at);
    bool (*token)(void *arg, int32_t id);
    void *arg;
};
bool tokenizer_added_split(const struct tokenizer_added *a, bool normalized, const int32_t *text,
                           size_t len, const struct added_calls *calls);

#endif
