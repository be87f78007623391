/* store/search/near_words.h - where a search found nothing: words that were said, and are spelled
 * nearly like one of the query that nobody said. The store's thread, any store_mode. */
#ifndef NIGHTSHIFT_STORE_SEARCH_NEAR_WORDS_H
#define NIGHTSHIFT_STORE_SEARCH_NEAR_WORDS_H

#include "store/search/word_forms.h"
#include "store/store.h"

#define NEAR_WORDS_MOST 3

struct near_words {
    char typed[SPELLING_BYTES]; /* as the index has it; "": nothing is near */
    struct near_word {
        char word[SPELLING_BYTES];
        int64_t segments;    /* that have it */
    } list[NEAR_WORDS_MOST]; /* the nearest first, and of equals the most frequent */
    size_t count;
};
/* Suggests similar words for one word of the text: among the first words that no segment has in any
 * form, the first that has similar ones. Words of one letter and very long words have none. In the
 * first half of a word one slip among the letters a to z is found; in the second half there may be
 * several, with any letters. The number of index words compared is limited, so a large catalog
 * takes no longer than a small one. */
int near_words(struct store *st, const char *text, struct near_words *ret, struct err *err);

/* ---- how much of the archive a search can know of.
 *
 * Any store_mode, the store's thread. */

/* Recordings that are somewhere now, each counted once: for the best of a stage's tasks for it. */
struct coverage {
    uint64_t done, left; /* left: pending, whatever it waits for */
    uint64_t failed, cancelled;
    uint64_t never;     /* asked for */
    uint64_t forgotten; /* asked for where they lie: removed, or left out */
};
/* Counts over all stages of a name. path: at or below it, as read_filter; NULL: all. Reads all
 * recordings in question. */
int coverage_read(struct store *st, const char *stage, const char *path, struct coverage *ret,
                  struct err *err);

#endif
