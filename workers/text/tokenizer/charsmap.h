/* workers/text/tokenizer/charsmap.h - SentencePiece's compiled normaliser: strings and their
 * replacements.
 *
 * In a tokenizer.json it is a string in base64: the size of a trie in bytes, the trie (a double
 * array of 32-bit units, as darts-clone builds it), and the replacements, each ended by a NUL.
 * Immutable after it was read; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_CHARSMAP_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_CHARSMAP_H

#include <stddef.h>

#include "base/err.h"
#include "workers/text/codepoints.h"

struct charsmap;

/* ERR_MODEL. */
int charsmap_read(const char *base64, struct charsmap **ret, struct err *err);
void charsmap_free(struct charsmap *c); /* NULL is fine */

/* Behind `out`: `in` as the tokenizers library normalises it, which is not quite as SentencePiece
 * does: a grapheme cluster of fewer than six bytes becomes what the shortest entry that it begins
 * with becomes (and the rest of it is lost); of a longer one, or without such an entry, each
 * character by itself becomes what its entry says. */
void charsmap_apply(const struct charsmap *c, struct codepoints *out, const struct codepoints *in);

#endif
