#include "tools/correct/replace.h"

#include <stdbool.h>
#include <string.h>
#include <utf8proc.h>

#include "base/buf.h"
#include "store/reading/hunks.h"
#include "workers/text/codepoints.h"

static bool is_blank(const char *s, size_t *bytes)
{
    *bytes = 0;
    return *s && script_of(s, bytes) == SCRIPT_BLANK;
}

static size_t count_blank_bytes(const char *s)
{
    size_t n = 0, bytes;

    while (is_blank(s + n, &bytes))
        n += bytes;
    return n;
}

/* Is the letter that begins at s part of a word that goes on beside it? */
static bool goes_on(const char *s)
{
    utf8proc_int32_t c = 0;
    utf8proc_category_t kind;
    size_t bytes;

    if (*s == 0 || utf8proc_iterate((const utf8proc_uint8_t *)s, -1, &c) <= 0)
        return false;
    kind = utf8proc_category(c);
    return (codepoint_is_word(c) || kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC) &&
           script_of(s, &bytes) != SCRIPT_UNPARTED;
}

static const char *letter_before(const char *text, const char *s)
{
    if (s > text)
        do
            s--;
        while (s > text && (*s & 0xC0) == 0x80);
    return s;
}

/* How many bytes of the text at s are `what`; 0: none. */
static size_t match_phrase_at(const char *text, const char *s, const char *what)
{
    const char *at = s, *w = what;

    while (*w) {
        size_t between = count_blank_bytes(w), here = between > 0 ? count_blank_bytes(at) : 0;

        if (between > 0 ? here == 0 : *at != *w)
            return 0;
        at += between > 0 ? here : 1;
        w += between > 0 ? between : 1;
    }
    if ((s > text && goes_on(letter_before(text, s)) && goes_on(what)) ||
        (goes_on(letter_before(what, w)) && goes_on(at)))
        return 0;
    return (size_t)(at - s);
}

int replace_words(const char *text, const char *what, const char *with, char **ret, size_t *count,
                  struct err *err)
{
    struct buf out = BUF_INIT;

    *ret = NULL;
    *count = 0;
    for (const char *s = text; *s;) {
        size_t n = (*s & 0xC0) != 0x80 && *what ? match_phrase_at(text, s, what) : 0;

        if (n > 0)
            buf_put(&out, with, strlen(with));
        else
            buf_put(&out, s, 1);
        *count += n > 0;
        s += n > 0 ? n : 1;
    }
    if (*count > 0)
        *ret = buf_cstr(&out);
    if (*count == 0 || !*ret)
        buf_free(&out);
    return *count > 0 && !*ret ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}
