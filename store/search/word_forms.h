/* store/search/word_forms.h - other forms of an English word: its plural and the others that an
 * ending makes ("strike": strikes, striking), and its British or American spelling.
 *
 * It uses rules, without a dictionary. Many results are no words, so callers check whether
 * anybody said them. Different words that fit the rules (new, news) stay apart. Pure; any
 * thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_WORD_FORMS_H
#define NIGHTSHIFT_STORE_SEARCH_WORD_FORMS_H

#include <stddef.h>

/* ---- British and American spellings of English words */

/* Gives possible other spellings of a word, one for each rule that fits: "harbour" becomes
 * "harbor", and "harbor" "harbour". Rules without a list of words also give results that are no
 * words ("advize"), so callers check whether anybody said them. word: small letters a to z. Forms
 * that are too long are left out. */
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
