/* workers/text/tokenizer/unigram.h - the Unigram model: a text as the tokens whose probabilities
 * have the largest product (Kudo 2018), found with Viterbi's algorithm.
 *
 * A character that is no token of its own may always stand alone as the unknown token, 10 below the
 * smallest log-probability there is; unknown ones that follow each other are one token. One owner
 * while it is filled; any thread may read afterwards. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_UNIGRAM_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_UNIGRAM_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/text/tokenizer/token_list.h"

struct unigram;

/* From the "model" of a tokenizer.json. ERR_MODEL. */
int unigram_read(const json_t *model, struct unigram **ret, struct err *err);
void unigram_free(struct unigram *u);          /* NULL is fine */
int32_t unigram_size(const struct unigram *u); /* highest id + 1 */
/* -1: there is no such token. */
int32_t unigram_find(const struct unigram *u, const char *token, size_t len);
/* The ids of a piece of text (valid UTF-8) behind those in out; out->failed without memory. */
void unigram_encode(const struct unigram *u, const char *text, size_t len, struct token_list *out);

#endif
