/* base/utf8.h - names and text that come from outside, made safe to store and to print. */
#ifndef NIGHTSHIFT_BASE_UTF8_H
#define NIGHTSHIFT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Well-formed UTF-8 (no surrogates, no overlong forms, nothing past U+10FFFF)? */
bool utf8_valid(const void *data, size_t len);

/* Bytes of the well-formed character at the beginning; 0: there is none, or it is a control
 * character, also one of those that turn the direction of writing. */
size_t utf8_printable(const void *data, size_t len);

/* A newly allocated, always valid and always printable form of a name: bytes that are no UTF-8 and
 * control characters become \xHH (newline \n, tab \t). Text without either comes back unchanged,
 * backslashes too, so the form is for people; raw bytes are kept beside it where identity matters.
 * NULL when out of memory. */
char *utf8_display(const void *data, size_t len);

/* Like utf8_display, for the nth (0 ...) of several things with one name: appends " (2)" to the
 * name of the second, " (3)" to that of the third. */
char *utf8_display_nth(const void *data, size_t len, uint32_t nth);

/* Makes a message that quotes a file printable; the file may hold anything. Cuts it to its
 * capacity. Allocates nothing. */
struct err;
void utf8_display_err(struct err *err);

/* Copies at most cap-1 bytes of s, never cutting a character; always terminates. */
void utf8_copy(char *dst, size_t capacity, const char *s);

/* Ill-formed sequences become U+FFFD, as Python's errors="replace" does. Newly allocated, NULL when
 * out of memory. Control characters are kept. */
char *utf8_repair(const void *data, size_t len);

#endif
