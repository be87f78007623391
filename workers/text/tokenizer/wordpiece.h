/* workers/text/tokenizer/wordpiece.h - WordPiece: a word as the longest pieces that the vocabulary
 * has, from its front to its end (Wu et al. 2016; BERT's greedy form).
 *
 * Pieces that continue a word are written with a prefix ("##") in the vocabulary. A word with a
 * part that no piece begins, or of more characters than a bound, is one unknown token as a whole.
 * One owner while it is filled; any thread may read afterwards. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_WORDPIECE_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_WORDPIECE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/text/tokenizer/token_list.h"
#include "workers/text/tokenizer/token_map.h"

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
/* The ids of one word (valid UTF-8) behind those in out. */
void wordpiece_encode(const struct wordpiece *w, const char *word, size_t len,
                      struct token_list *out);

#endif
