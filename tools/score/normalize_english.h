/* tools/score/normalize_english.h - the English normaliser. Private to normalize.c. */
#ifndef NIGHTSHIFT_TOOLS_SCORE_NORMALIZE_ENGLISH_H
#define NIGHTSHIFT_TOOLS_SCORE_NORMALIZE_ENGLISH_H

#include "tools/score/spellings.h"
#include "workers/text/codepoints.h"

/* In place, of a text in lower case without what was bracketed; spare is working memory. spellings
 * NULL: spellings stay as they are. */
void normalize_english(struct codepoints *text, struct codepoints *spare,
                       const struct spellings *spellings);

#endif
