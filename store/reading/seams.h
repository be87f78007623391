/* store/reading/seams.h - where a segment in which several people speak is parted.
 *
 * A run of words of one speaker is a part, where it is no crumb: it has SEAMS_WORDS words or lasts
 * SEAMS_MS. A crumb is said by whoever speaks on both its sides, else it goes to the side that is
 * nearer in time. And one must hand over to the other near the seam (overlap_changes, give or take
 * SEAMS_NEAR_MS): else what is shorter goes to what is longer. The least comes first, so that
 * several crumbs in a row become what they are together.
 *
 * Pure; any thread. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_READING_SEAMS_H
#define NIGHTSHIFT_STORE_READING_SEAMS_H

#include <stddef.h>
#include <stdint.h>

#include "store/reading/overlap.h"

#define SEAMS_WORDS 3
#define SEAMS_MS 800
#define SEAMS_NEAR_MS 500
#define SEAMS_WORDS_MOST 2000 /* no model writes so long a segment: it stays whole */

struct seams_word {
    int64_t start_ms, end_ms; /* as they come: not always in order */
    int64_t speaker;          /* 0: nobody */
};

struct seams_part {
    size_t first, count; /* words */
    int64_t speaker;     /* 0: nobody, only where nobody says any of it */
};

/* The parts of n words, in their order; each word is in one, and no two neighbours have one
 * speaker. ret: [n]. Returns how many: 0 only for no words. */
size_t seams_find(const struct seams_word *words, size_t n, const struct overlaps *turns,
                  struct seams_part *ret);

#endif
