/* workers/text/tokenizer/subword.h - the two models of encoders of text beside byte-pair encoding:
 * WordPiece and Unigram.
 *
 * A model has one owner while it is filled; any thread may read afterwards. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_SUBWORD_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_SUBWORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"

/* Token ids, one after the other: one owner, one thread. A list that runs out of memory sets
 * `failed` and ignores what follows. */
struct token_list {
    int32_t *at; /* owned; NULL while empty */
    size_t n, capacity;
    bool failed;
};

static inline void token_list_put(struct token_list *l, int32_t id)
{
    if (l->n == l->capacity && !l->failed) {
        size_t capacity = l->capacity * 2 + 64;
        int32_t *at = realloc(l->at, capacity * sizeof(*at));

        l->failed = at == NULL;
        l->at = at ? at : l->at;
        l->capacity = at ? capacity : l->capacity;
    }
    if (!l->failed)
        l->at[l->n++] = id;
}

/* From a token's bytes to its id. A zeroed map is an empty one. */
struct token_map {
    struct token_entry *entries; /* in the order in which they were put */
    uint64_t seed;
    uint32_t *slots; /* open addressing: index of an entry + 1, 0: free */
    uint32_t count, capacity, slot_count;
    uint32_t longest; /* bytes of the longest token */
    struct buf bytes; /* all tokens, one behind the other */
};

/* ---- WordPiece: a word as the longest pieces that the vocabulary has, from its front to its end
 * (Wu et al. 2016; BERT's greedy form).
 *
 * Pieces that continue a word are written with a prefix ("##") in the vocabulary. A word with a
 * part that no piece begins, or of more characters than a bound, is one unknown token as a
 * whole. */

struct wordpiece {
    struct token_map begins;    /* every token, as it is written */
    struct token_map continues; /* those with the prefix, without it */
    int32_t unknown;
    int32_t size;       /* highest id + 1 */
    uint32_t max_chars; /* of a word */
};

/* From the "model" of a tokenizer.json into a zeroed struct, which is wordpiece_free's after an
 * error, too. ERR_MODEL. */
int wordpiece_read(struct wordpiece *w, const json_t *model, struct err *err);
void wordpiece_free(struct wordpiece *w);
/* -1: there is no such token. */
int32_t wordpiece_find(const struct wordpiece *w, const char *token, size_t len);
/* The ids of one word (valid UTF-8) behind those in out. */
void wordpiece_encode(const struct wordpiece *w, const char *word, size_t len,
                      struct token_list *out);

/* ---- Unigram: a text as the tokens whose probabilities have the largest product (Kudo 2018),
 * found with Viterbi's algorithm.
 *
 * A character that is no token of its own may always stand alone as the unknown token, 10 below the
 * smallest log-probability there is; unknown ones that follow each other are one token. */

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
