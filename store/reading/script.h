/* store/reading/script.h - which characters part words, and which are words. Internal to
 * store/. Pure; any thread. */
#ifndef NIGHTSHIFT_STORE_READING_SCRIPT_H
#define NIGHTSHIFT_STORE_READING_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

enum script {
    SCRIPT_BLANK,    /* white space */
    SCRIPT_UNPARTED, /* of a script that has no blanks between words */
    SCRIPT_OTHER,
};

/* Of the character that begins here, which is not the NUL, and how many bytes it has. A byte that
 * begins no character of UTF-8 is one of its own. */
enum script script_of(const char *s, size_t *bytes);
/* What stands around words, and is no part of them: blanks too. */
bool script_is_punctuation(const char *s, size_t *bytes);

#endif
