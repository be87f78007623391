#include "workers/text/tokenizer/folded.h"

#include <string.h>
#include <utf8proc.h>

enum kind { WORD, LEFT_OUT, BETWEEN };

static enum kind kind_of(int32_t c)
{
    if (c == '\'' || c == 0x2019 || c == 0x02BC)
        return LEFT_OUT;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return WORD;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
        return LEFT_OUT;
    default:
        return BETWEEN;
    }
}

/* The letter without case and marks. Hangul syllables stay whole: their parts are no marks. */
static int32_t fold_letter(int32_t c)
{
    utf8proc_int32_t parts[8];
    utf8proc_ssize_t n;
    int boundary = 0;

    c = utf8proc_tolower(c);
    if (c < 0xC0 || (c >= 0xAC00 && c <= 0xD7A3))
        return c;
    n = utf8proc_decompose_char(c, parts, 8, UTF8PROC_DECOMPOSE, &boundary);
    return n > 0 && n <= 8 ? parts[0] : c;
}

/* The code point at s and how many bytes to go on by; 0xFFFD, which parts words, for ill-formed. */
static int32_t decode_codepoint(const char *s, size_t *size)
{
    size_t capacity = strnlen(s, 4);
    utf8proc_int32_t c;
    utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)capacity, &c);

    *size = n > 0 ? (size_t)n : 1;
    return n > 0 ? c : 0xFFFD;
}

int32_t folded_next(struct folded_reader *r)
{
    while (*r->text) {
        size_t size;
        int32_t c = decode_codepoint(r->text, &size);
        enum kind kind = kind_of(c);

        r->text += size;
        if (kind == WORD) {
            r->in_word = true;
            return fold_letter(c);
        }
        if (kind == BETWEEN && r->in_word) {
            r->in_word = false;
            return ' ';
        }
    }
    if (!r->in_word)
        return 0;
    r->in_word = false;
    return ' ';
}

void folded_make(struct folded *f, const char *text)
{
    struct folded_reader r = {text, false};
    int32_t c;

    f->len = 0;
    while (f->len < FOLDED_MAX && (c = folded_next(&r)) != 0)
        f->at[f->len++] = c;
}
