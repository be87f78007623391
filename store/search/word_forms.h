/* store/search/word_forms.h - other forms of an English word: its plural and the others that an
 * ending makes ("strike": strikes, striking), and its British or American spelling.
 *
 * By rules, without a dictionary: many results are no words, and whoever asks looks whether anybody
 * said them. What is another word although the rules fit (new, news) stays apart. Pure; any thread.
 */
#ifndef NIGHTSHIFT_STORE_SEARCH_WORD_FORMS_H
#define NIGHTSHIFT_STORE_SEARCH_WORD_FORMS_H

#include <stddef.h>

#include "store/search/spelling.h"

#define WORD_FORMS_MOST 40

struct word_forms {
    char list[WORD_FORMS_MOST][SPELLING_BYTES]; /* small letters; each once, and never the word */
    size_t count;                               /* what there is no room for is left out */
};
/* word: as the index has it, in small letters and without accents. None for one that has other
 * characters than a to z, that is shorter than three letters or too long, and for the most common
 * words ("that"). */
void word_forms(const char *word, struct word_forms *ret);

#endif
