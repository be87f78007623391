/* tools/score/normalize_english.h - the English normaliser. Private to normalize.c. */
#ifndef NIGHTSHIFT_TOOLS_SCORE_NORMALIZE_ENGLISH_H
#define NIGHTSHIFT_TOOLS_SCORE_NORMALIZE_ENGLISH_H

#include "tools/score/spellings.h"
#include "workers/text/codepoints.h"

/* ---- the steps that normalisers are made of. Private to them.
 *
 * A step puts what becomes of `in` behind `out`; a chain of them swaps the two. */

typedef void (*normalize_step)(struct codepoints *out, const struct codepoints *in);
/* text becomes step(text); spare is working memory. */
void normalize_apply(normalize_step step, struct codepoints *text, struct codepoints *spare);

void normalize_drop_bracketed(struct codepoints *out, const struct codepoints *in);
void normalize_drop_parenthesised(struct codepoints *out, const struct codepoints *in);
void normalize_one_blank(struct codepoints *out, const struct codepoints *in);
/* Marks, punctuation and symbols become blanks; letters keep the marks that Unicode composes with
 * them (NFKC). */
void normalize_drop_symbols(struct codepoints *out, const struct codepoints *in);
/* Symbols and punctuation become blanks, marks (and what the Latin letters ø, ł, æ ... have of
 * them) go, but for the ASCII or currency signs in `keep` (ends with 0). */
void normalize_drop_symbols_and_diacritics(struct codepoints *out, const struct codepoints *in,
                                           const int32_t *keep);

/* In place, of a text in lower case without what was bracketed; spare is working memory. spellings
 * NULL: spellings stay as they are. */
void normalize_english(struct codepoints *text, struct codepoints *spare,
                       const struct spellings *spellings);

#endif
