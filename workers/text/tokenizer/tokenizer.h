/* workers/text/tokenizer/tokenizer.h - text to token ids for encoders of text, from a model's
 * tokenizer.json.
 *
 * The file is that of Hugging Face's tokenizers library, and ids are those that it gives. Read:
 * WordPiece (BERT), Unigram (XLM-RoBERTa; SentencePiece's own normaliser included) and byte-level
 * BPE (RoBERTa), their normalisers, the split into words, added tokens, and the special tokens that
 * stand around a text. Anything else in a file is an error, because nearly right ids would give
 * vectors that are silently wrong. (Whisper's own vocabulary.h reads more files than this one, and
 * leaves special tokens in a text alone.) Immutable after load; any thread may read. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKENIZER_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TOKENIZER_NO_BOUND UINT32_MAX

struct tokenizer;

/* DIR/tokenizer.json. ERR_MODEL with what is wrong in it. */
int tokenizer_load(const char *dir, struct tokenizer **ret, struct err *err);
/* The same from the file's bytes (borrowed during the call). */
int tokenizer_parse(const char *json, size_t len, struct tokenizer **ret, struct err *err);
void tokenizer_free(struct tokenizer *t); /* NULL is fine */

uint32_t tokenizer_size(const struct tokenizer *t); /* highest id + 1 */
/* Special tokens that every text gets ([CLS] and [SEP]: 2). */
uint32_t tokenizer_specials(const struct tokenizer *t);

/* Ids of a text with its special tokens, at most `max` of them: a longer text is cut at its end,
 * the special tokens stay (with a max below tokenizer_specials, only they are there). text: UTF-8;
 * ill-formed bytes count as U+FFFD. *ret newly allocated; NULL with *n 0 when there is none.
 * ERR_NOMEM; ERR_LIMIT when the text is longer than 2^27 bytes. */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, uint32_t max,
                     int32_t **ret, size_t *n, struct err *err);

#endif
