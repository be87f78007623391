#include "tools/search/search_place.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "tools/cli/text.h"

#define INDENT "  "
#define DOTS "..."

/* Bytes of the character that stands first in valid UTF-8, and the columns it takes. */
static size_t first_character(const char *s, size_t *width)
{
    char one[5] = {0};
    size_t n = 1;

    while (((unsigned char)s[n] & 0xC0) == 0x80 && n < 4)
        n++;
    memcpy(one, s, n);
    *width = text_width(one);
    return n;
}

/* The longest end of s that takes no more than `most` columns. */
static const char *end_of(const char *s, size_t most)
{
    for (size_t all = text_width(s), width; all > most; all -= width)
        s += first_character(s, &width);
    return s;
}

/* Bytes from the beginning of s that take no more than `most` columns. */
static size_t fit_columns(const char *s, size_t most)
{
    size_t n = 0, all = 0, width;

    while (s[n]) {
        size_t bytes = first_character(s + n, &width);

        if (all + width > most)
            break;
        all += width;
        n += bytes;
    }
    return n;
}

static void put_lines(struct buf *out, const char *before, const char *behind, size_t columns)
{
    size_t capacity = columns - strlen(INDENT), used;
    const char *shown =
        text_width(before) > capacity / 2 ? end_of(before, capacity / 2 - strlen(DOTS)) : before;

    used = text_width(shown) + (shown > before ? strlen(DOTS) : 0);
    buf_printf(out, INDENT "%s%s", shown > before ? DOTS : "", shown);
    if (text_width(behind) <= capacity - used)
        buf_printf(out, "%s\n", behind);
    else
        buf_printf(out, "%.*s" DOTS "\n", (int)fit_columns(behind, capacity - used - strlen(DOTS)),
                   behind);
    buf_printf(out, INDENT "%*s^\n", (int)used, "");
}

char *search_place(const char *text, size_t at, size_t columns)
{
    char *before = utf8_display(text, at);
    char *behind = utf8_display(text + at, strlen(text + at));
    struct buf out = BUF_INIT;

    if (before && behind)
        put_lines(&out, before, behind, columns);
    free(before);
    free(behind);
    if (!buf_cstr(&out) || out.len == 0) {
        buf_free(&out);
        return NULL;
    }
    return (char *)out.data;
}
