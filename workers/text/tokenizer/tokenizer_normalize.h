/* workers/text/tokenizer/tokenizer_normalize.h - what a tokenizer.json does to a text before it
 * looks for words. Private to the tokenizer.
 *
 * Characters are classed by utf8proc's Unicode version. The tokenizers library classes marks and
 * format characters by Unicode 8: for those of later versions, which its models' vocabularies do
 * not have, ids may differ. Immutable after it was read; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKENIZER_NORMALIZE_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKENIZER_NORMALIZE_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/text/codepoints.h"

#define TOKENIZER_MAX_STEPS 32 /* of a normaliser, and of a split */

struct normalize_part; /* one step */

struct tokenizer_normalizer {
    struct normalize_part *parts; /* owned */
    uint32_t n;
};

/* From "normalizer", which may be NULL or null (nothing is done). ret is zeroed, and is
 * tokenizer_normalizer_free's after an error, too. ERR_MODEL. */
int tokenizer_normalizer_read(const json_t *json, struct tokenizer_normalizer *ret,
                              struct err *err);
void tokenizer_normalizer_free(struct tokenizer_normalizer *n);
/* text becomes what it is normalised; spare is working memory. ERR_NOMEM; ERR_MODEL when steps that
 * replace make it longer without bound. */
int tokenizer_normalize(const struct tokenizer_normalizer *n, struct codepoints *text,
                        struct codepoints *spare, struct err *err);

/* Unicode's White_Space. */
bool tokenizer_is_blank(int32_t c);
/* Characters at which BERT splits words: punctuation, and every ASCII character that is no letter
 * or digit. */
bool tokenizer_is_punctuation(int32_t c);
/* Letters, digits, marks and '_': a word for `single_word`. */
bool tokenizer_is_word(int32_t c);

#endif
