/* store/search/word_forms.h - other forms of an English word: its plural and the others that an
 * ending makes ("strike": strikes, striking), and its British or American spelling.
 *
 * By rules, without a dictionary: many results are no words, and whoever asks looks whether anybody
 * said them. What is another word although the rules fit (new, news) stays apart. Pure; any thread.
 */
#ifndef NIGHTSHIFT_STORE_SEARCH_WORD_FORMS_H
#define NIGHTSHIFT_STORE_SEARCH_WORD_FORMS_H

#include <stddef.h>

/* ---- British and American spellings of English words */

/* What may be the same word spelled the other way, for each rule that fits: "harbour" becomes
 * "harbor", and "harbor" "harbour". Of rules without a list of words some results are no words at
 * all ("advize"): whoever asks looks whether anybody said them. word: small letters a to z. What
 * has no room in a form is left out. */
#define SPELLING_BYTES 40

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
