/* workers/text/tokenizer/tokenizer_split.h - where a tokenizer.json splits a text: at the tokens
 * that were added to its vocabulary, and what lies between them into words. Private to the
 * tokenizer. Immutable after it was read; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKENIZER_SPLIT_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKENIZER_SPLIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/text/codepoints.h"
#include "workers/text/tokenizer/tokenizer_normalize.h"

/* ---- added tokens: recognised in a text before anything else ("<mask>", "[SEP]") */

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

/* ---- words */

#define TOKENIZER_MAX_SPLITS 8

enum split_kind {
    SPLIT_BLANKS,      /* at blanks, which go */
    SPLIT_PUNCTUATION, /* each punctuation character by itself */
    SPLIT_METASPACE,   /* a visible sign for each blank, perhaps one more in front; before each */
};

enum split_prefix { PREFIX_ALWAYS, PREFIX_FIRST, PREFIX_NEVER };

struct split_part {
    enum split_kind kind;
    int32_t sign; /* METASPACE: stands for a blank */
    enum split_prefix prefix;
    bool whole; /* METASPACE: nothing is split */
};

struct tokenizer_split {
    struct split_part parts[TOKENIZER_MAX_SPLITS];
    uint32_t n;
    bool byte_level;   /* GPT-2's words are split off by the encoder */
    bool prefix_blank; /* byte_level: a blank comes before a text that begins with none */
};

/* From "pre_tokenizer", which may be NULL or null (a text is one word). ERR_MODEL. */
int tokenizer_split_read(const json_t *json, struct tokenizer_split *ret, struct err *err);

/* Calls fn for each word, none of them empty. first: the text's beginning is in it. False, at once,
 * when fn gives false or memory is out. */
typedef bool (*tokenizer_word_fn)(void *arg, const int32_t *word, size_t len);
bool tokenizer_split(const struct tokenizer_split *s, const int32_t *text, size_t len, bool first,
                     tokenizer_word_fn fn, void *arg);

#endif
