/* tools/score/normalize.h - text made comparable: the two normalisers of Whisper's error rates.
 *
 * Error rates of Whisper models are always told of normalised texts, and are comparable only when
 * the same rules made them. The rules here are those of openai-whisper, its oddities included
 * (tests/unit/text/normalize.tsv holds its answers).
 *
 * NORMALIZE_BASIC, for any language: lower case; what stands in brackets [] <> or parentheses is
 * left out; symbols, marks and punctuation become blanks, runs of blanks one.
 * NORMALIZE_ENGLISH, for English: also fillers ("uh", "mhm") are left out, contractions ("won't",
 * "she's been", "gonna") and titles ("dr") written in full, diacritics dropped, and numbers,
 * currencies and percentages written in digits ("nineteen eighty four" 1984, "two and a half
 * million dollars" $2500000, "double oh seven" 007, "twenty first" 21st, "five per cent" 5%,
 * "$2 and 7 cents" $2.07). British spellings become American ones when a table of them is given.
 *
 * Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_SCORE_NORMALIZE_H
#define NIGHTSHIFT_TOOLS_SCORE_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "tools/score/spellings.h"

enum normalizer { NORMALIZE_NONE, NORMALIZE_BASIC, NORMALIZE_ENGLISH };

/* -1 when the name is none of "none", "basic", "english". */
int normalizer_from_name(const char *name);
const char *normalizer_name(enum normalizer n);

struct normalize_options {
    enum normalizer normalizer;
    bool remove_diacritics;            /* basic: letters lose their marks, too */
    bool split_letters;                /* basic: a blank between any two characters */
    const struct spellings *spellings; /* english; borrowed; NULL: spellings stay as they are */
};

/* Newly allocated and valid UTF-8. A blank may be left at either end, as in Whisper's. Bytes that
 * are no UTF-8 count as U+FFFD. ERR_NOMEM. NORMALIZE_NONE copies. */
int normalize(const struct normalize_options *o, const char *text, size_t len, char **ret,
              struct err *err);

/* Is this language ("ja", "yue") written without blanks between words, so that words are no
 * measure and Whisper's rates are of characters? */
bool normalize_wants_letters(const char *language);

#endif
