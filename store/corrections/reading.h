/* store/corrections/reading.h - what is read of a recording: its words with the corrections in
 * them, and their times. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_CORRECTIONS_READING_H
#define NIGHTSHIFT_STORE_CORRECTIONS_READING_H

#include "store/corrections/place.h"

struct reading { /* owned: reading_free */
    struct match_word *words;
    size_t *segments; /* of each word: number in heard.segments */
    size_t count, cap;
    struct place_parts of;   /* what the words' texts lie in; and */
    struct rebuilt *rebuilt; /* [rebuilt_count] */
    size_t rebuilt_count;
};

/* With the corrections that have a place. Some words are those of h. */
int reading_make(const struct heard *h, const struct places *p, struct reading *ret,
                 struct err *err);
void reading_free(struct reading *r);

#endif
