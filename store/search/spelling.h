/* store/search/spelling.h - British and American spellings of English words. Pure; any thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_SPELLING_H
#define NIGHTSHIFT_STORE_SEARCH_SPELLING_H

#include <stddef.h>

/* What may be the same word spelled the other way, for each rule that fits: "harbour" becomes
 * "harbor", and "harbor" "harbour". Of rules without a list of words some results are no words at
 * all ("advize"): whoever asks looks whether anybody said them. word: small letters a to z. What
 * has no room in a form is left out. */
#define SPELLING_BYTES 40
void spelling_each(const char *word, void (*give)(void *arg, const char *other), void *arg);

#endif
