/* store/reading/hunks.h - what differs between two texts, in words.
 *
 * A word is what stands between white space; in scripts without blanks (Chinese, Japanese, Thai
 * ...) it is a single code point. Words are compared byte for byte: case and punctuation make
 * another word. White space itself makes no difference. Pure; any thread. */
#ifndef NIGHTSHIFT_STORE_READING_HUNKS_H
#define NIGHTSHIFT_STORE_READING_HUNKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* ---- which characters part words, and which are words. Internal to store/ */

enum script {
    SCRIPT_BLANK,    /* white space */
    SCRIPT_UNPARTED, /* of a script that has no blanks between words */
    SCRIPT_OTHER,
};

/* The script of the character that begins here, which is not the NUL, and its length in bytes. A
 * byte that begins no character of UTF-8 is one of its own. */
enum script script_of(const char *s, size_t *bytes);
/* Is it a character between words that is no part of them? Blanks are, too. */
bool script_is_punctuation(const char *s, size_t *bytes);

struct hunk_word { /* bytes of its text */
    size_t at, len;
};

struct hunk { /* these words became those */
    size_t said_at, said_count;
    size_t meant_at, meant_count;
};

struct hunks { /* owned: hunks_free */
    struct hunk_word *said, *meant;
    size_t said_count, meant_count;
    /* In order, and not overlapping. A pure insertion takes a word beside it along, so said_count
     * is 0 only if `said` has no word at all. */
    struct hunk *list;
    size_t count;
};

/* A longest run of common words stays. Texts that differ in so much that this would take long are
 * one hunk from the first difference to the last. ERR_NOMEM. */
int hunks_make(const char *said, const char *meant, struct hunks *ret, struct err *err);
void hunks_free(struct hunks *h); /* a zeroed one is fine */

/* The words of a text, *ret the caller's. ERR_NOMEM. */
int hunk_words(const char *text, struct hunk_word **ret, size_t *count, struct err *err);

#endif
