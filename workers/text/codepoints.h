/* workers/text/codepoints.h - text for rules that look at characters: an array of code points, its
 * words alone, one clean line.
 *
 * An array has one owner and is used by one thread. A writer that runs out of memory or past `max`
 * sets `failed` and ignores what follows, so that a chain of rules may run to its end and test
 * `failed` once. The classes of characters are those of Python's str and re, which Whisper's own
 * normalisers are defined by. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_CODEPOINTS_H
#define NIGHTSHIFT_WORKERS_TEXT_CODEPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct codepoints {
    int32_t *at; /* owned; NULL while empty */
    size_t len, capacity;
    size_t max; /* bound on len; 0: none */
    bool failed;
};

void codepoints_free(struct codepoints *t); /* empty again */
void codepoints_put(struct codepoints *t, int32_t c);
void codepoints_put_ascii(struct codepoints *t, const char *s);
/* Behind what is there. Bytes that are no UTF-8 become U+FFFD. */
void codepoints_put_utf8(struct codepoints *t, const char *s, size_t len);
/* Newly allocated, NUL-terminated; U+0000 becomes a blank. NULL when out of memory or failed. */
char *codepoints_utf8(const struct codepoints *t);

/* Behind `out`: `in` in lower case, with Unicode's rules of more than one character. */
void codepoints_lower(struct codepoints *out, const struct codepoints *in);
/* Behind `out`: the compatibility decomposition (NFKD) in canonical order, or, composed, NFKC.
 * Time grows with the length alone, however many marks are heaped on one letter. */
void codepoints_decompose(struct codepoints *out, const struct codepoints *in, bool composed);
/* The same with the canonical decomposition: NFD, or, composed, NFC. */
void codepoints_canonical(struct codepoints *out, const struct codepoints *in, bool composed);

bool codepoint_is_blank(int32_t c); /* Python's str.isspace */
bool codepoint_is_word(int32_t c);  /* letters, numbers of any kind, '_' */
int codepoint_digit(int32_t c);     /* 0 to 9 for a decimal digit of any script, else -1 */

/* ---- folded: text reduced to its words, to be compared and counted, not shown.
 *
 * Lower case, letters without their marks, nothing but letters and numbers; each word is followed
 * by one blank. Apostrophes, combining marks and invisible characters are left out, all else parts
 * words. Text in scripts without blanks is one word from punctuation to punctuation. Nothing is
 * allocated. Pure; any thread. */

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

/* ---- clean */

/* Makes one line of display text out of valid UTF-8, in place: control characters (a
 * model can produce any byte) and line or paragraph separators become blanks, blanks at both ends
 * go. Runs of blanks inside are kept: they are the model's. Returns the new length. Pure; any
 * thread. */
size_t clean_text(char *text);

#endif
