/* tools/cli/text.h - numbers, lengths and names as people read them, in columns. Pure; any thread.
 */
#ifndef NIGHTSHIFT_TOOLS_CLI_TEXT_H
#define NIGHTSHIFT_TOOLS_CLI_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define TEXT_LEN 32
/* Each writes to `out` and returns it, for use as an argument of printf. */
char *text_count(uint64_t n, char out[TEXT_LEN]);     /* "1,234,567" */
char *text_speed(double times, char out[TEXT_LEN]);   /* "2.5", "1,234" */
char *text_length(int64_t ms, char out[TEXT_LEN]);    /* "3 h 05 min", "4 min 09 s", "2.5 s" */
char *text_bytes(uint64_t bytes, char out[TEXT_LEN]); /* "7.8 MB"; thousands, as disks are sold */
char *text_since(int64_t ms, char out[TEXT_LEN]);     /* "just now", "5 min ago", "3 days ago" */
const char *text_plural(uint64_t n, const char *one, const char *many);

/* Columns that valid UTF-8 takes on a terminal: combining marks none, East Asian wide ones two. */
size_t text_width(const char *s);
/* Newly allocated, at most `width` columns: the middle is left out ("/a/b...z.wav"). Less than
 * TEXT_FIT_MIN is taken for that. NULL when out of memory. */
#define TEXT_FIT_MIN 8
char *text_fit(const char *s, size_t width);
/* Newly allocated: s in one line of at most `width` columns, or in two of them with '\n' between.
 * If s is longer, its first and last words stay, with "..." between them; a word that is too long
 * for a line loses its middle. `width` as in text_fit. NULL when out of memory. */
char *text_fit_lines(const char *s, size_t width);
/* Writes s to f in lines of at most `width` columns broken at blanks; lines after the first begin
 * with `indent` blanks, which count. The caller has written `column` columns of the first line:
 * over `indent`, a word, behind which a blank belongs. */
typedef void (*text_sink)(void *arg, const char *bytes, size_t n);
void text_to_file(void *file, const char *bytes, size_t n); /* a FILE */
void text_to_buf(void *buf, const char *bytes, size_t n);   /* a struct buf */
void text_wrap(text_sink sink, void *arg, const char *s, size_t column, size_t indent,
               size_t width);

/* Decimal with an optional unit: "90", "90s", "5m", "1h30m", "1.5h", "250ms", in milliseconds. -1
 * when it is none or over max. A bare number counts seconds. */
int64_t text_parse_length(const char *s, int64_t max_ms);

#endif
