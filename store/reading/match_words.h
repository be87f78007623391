/* store/reading/match_words.h - finds words again: where a transcription has what another one
 * had.
 *
 * Words are compared without case and without the punctuation around them (MATCH_BARE), or without
 * marks on letters and any punctuation, too (MATCH_FOLDED). Pure; one thread. Internal to store/.
 */
#ifndef NIGHTSHIFT_STORE_READING_MATCH_WORDS_H
#define NIGHTSHIFT_STORE_READING_MATCH_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MATCH_NEAR_MS 2000 /* how far from its time something is looked for */

enum match_kind { MATCH_FOLDED, MATCH_BARE };

struct match_word {   /* one word (hunks.h) of a recording */
    const char *text; /* borrowed; not NUL-terminated */
    size_t len;
    int64_t start_ms, end_ms;
};

struct match_wanted {           /* borrowed */
    const char *words;          /* some, one behind the other; none: it is not found */
    const char *before, *after; /* what should stand around them */
    int64_t start_ms;
};

struct match_place {    /* words [word, word + words) */
    size_t word, words; /* words 0: nowhere */
};

struct match_found {
    struct match_place at;
    int64_t away_ms; /* from the time that was looked for */
    int around;      /* words around it that are those that were to be */
};

struct word_matcher; /* borrows the texts of words until match_free */
/* ERR_NOMEM. */
int match_make(const struct match_word *words, size_t n, enum match_kind kind,
               struct word_matcher **ret, struct err *err);
void match_free(struct word_matcher *m); /* NULL is fine */

/* Gives each wanted its place: those whose words begin within MATCH_NEAR_MS of its time. If
 * there are several, the nearest one wins, unless they are less than a fifth of a second apart:
 * then the words around decide. The same rule decides between several that want the same words.
 * No two get the same words, and none gets words in `taken`, to which new ones are added; NULL:
 * they may share. ret: [n]. ERR_NOMEM. */
int match(struct word_matcher *m, const struct match_wanted *wanted, size_t n, bool *taken,
          struct match_found *ret, struct err *err);
/* Is a the better place? A place that was not found is never better; among equals the longer one
 * is. */
bool match_better(const struct match_found *a, const struct match_found *b);

#endif
