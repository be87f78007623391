/* tools/describe/csv.h - a table of text as RFC 4180 has it, and as programs of the office write
 * it: with quotes, newlines within them, a byte order mark, lines that end in any way, and comma,
 * semicolon or tab between the columns, whichever the first line has most of.
 *
 * Hostile input is refused with its line, whatever it is. One thread. Reads in place: the text is
 * the caller's, is changed, and must outlive what the rows point to. */
#ifndef NIGHTSHIFT_TOOLS_DESCRIBE_CSV_H
#define NIGHTSHIFT_TOOLS_DESCRIBE_CSV_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CSV_COLUMNS_MAX 1000
#define CSV_FIELD_MAX ((size_t)1 << 20) /* bytes of one field */

struct csv {
    char *at, *end; /* what is left of the text */
    char separator;
    uint64_t line;  /* that `at` is in, 1 ... */
    char **columns; /* owned: of the row read last; NUL-terminated, valid UTF-8, not trimmed */
    size_t count, capacity;
    uint64_t row_line; /* where that row begins */
};

/* text[len] is writable and becomes the end's NUL. ERR_INPUT: it is no text of that kind. */
int csv_begin(struct csv *c, char *text, size_t len, struct err *err);
/* 1: c has the next row that is not blank; 0: there is none. ERR_INPUT: what is wrong with which
 * line; then only csv_free. */
int csv_next(struct csv *c, struct err *err);
void csv_free(struct csv *c); /* a zeroed one is fine */

#endif
