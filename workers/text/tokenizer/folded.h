/* workers/text/tokenizer/folded.h - text reduced to its words: to be compared and counted, not
 * shown.
 *
 * Lower case, letters without their marks, nothing but letters and numbers; each word is followed
 * by one blank. Apostrophes, combining marks and invisible characters are left out, all else parts
 * words. Text in scripts without blanks is one word from punctuation to punctuation. Nothing is
 * allocated. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_FOLDED_H
#define NIGHTSHIFT_WORKERS_TEXT_TOKENIZER_FOLDED_H

#include <stdbool.h>
#include <stdint.h>

#define FOLDED_MAX 2048 /* more than a window of half a minute ever has */

struct folded {
    int32_t at[FOLDED_MAX]; /* code points */
    uint32_t len;           /* what a longer text has beyond FOLDED_MAX is not there */
};

void folded_make(struct folded *f, const char *text);

/* The same, one code point after the other. */
struct folded_reader {
    const char *text; /* UTF-8, borrowed; bytes that are none part words */
    bool in_word;     /* false to begin with */
};

/* 0 at the end. */
int32_t folded_next(struct folded_reader *r);

#endif
