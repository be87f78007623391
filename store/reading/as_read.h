/* store/reading/as_read.h - what is read of a recording: its words with the corrections in
 * them, and their times. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_READING_AS_READ_H
#define NIGHTSHIFT_STORE_READING_AS_READ_H

#include "store/reading/place.h"

struct as_read { /* owned: as_read_free */
    struct match_word *words;
    size_t *segments; /* of each word: number in heard.segments */
    size_t count, cap;
    struct place_parts of;   /* what the words' texts lie in; and */
    struct rebuilt *rebuilt; /* [rebuilt_count] */
    size_t rebuilt_count;
};

/* With the corrections that have a place. Some words are those of h. */
int as_read_make(const struct heard *h, const struct places *p, struct as_read *ret,
                 struct err *err);
void as_read_free(struct as_read *r);

#endif
