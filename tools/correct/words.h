/* tools/correct/words.h - the words of a transcript, or of a file, as they are aligned.
 *
 * They are those of store/corrections/hunks.h. Words that differ in case, marks and punctuation
 * alone have one number. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_WORDS_H
#define NIGHTSHIFT_TOOLS_CORRECT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define WORDS_MAX 2000000 /* of one side: a week of talking has some 1,500,000 */

struct word {
    const char *s; /* borrowed from its text, not NUL-terminated */
    uint32_t len, part, id;
    bool joined;               /* no blank stands in front of it */
    int64_t ms;                /* about when it is said; -1: not known */
    size_t folded, folded_len; /* in `folded` */
};
struct words { /* zero at first; owned: words_free */
    struct word *list;
    size_t count, room;
    struct buf folded;
};
void words_free(struct words *w);

/* Appends the words of a text that lasts from start_ms to end_ms (-1: not known), as part number
 * `part`: parts are added in order. The text stays where it is. ERR_NOMEM; ERR_LIMIT: more than
 * WORDS_MAX. */
int words_add(struct words *w, uint32_t part, const char *text, int64_t start_ms, int64_t end_ms,
              struct err *err);
/* Gives the words of both sides their numbers. ERR_NOMEM. */
int words_number(struct words *a, struct words *b, struct err *err);

bool words_equal(const struct word *a, const struct word *b); /* byte for byte */

#endif
