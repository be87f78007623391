#include "workers/text/clean.h"

#include <stdbool.h>
#include <string.h>
#include <utf8proc.h>

static bool is_blank(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);

    return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP ||
           k == UTF8PROC_CATEGORY_CC;
}

static bool breaks_line(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);

    return k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP || k == UTF8PROC_CATEGORY_CC;
}

size_t clean_text(char *text)
{
    size_t len = strlen(text), out = 0, keep = 0;

    for (size_t i = 0; i < len;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(len - i), &c);
        if (k <= 0) { /* ill-formed: not the caller's promise, but no reason to stop */
            i++;
            continue;
        }
        if (is_blank(c)) {
            if (out && breaks_line(c)) {
                text[out++] = ' ';
            } else if (out) {
                memmove(text + out, text + i, (size_t)k);
                out += (size_t)k;
            }
        } else {
            memmove(text + out, text + i, (size_t)k);
            out += (size_t)k;
            keep = out;
        }
        i += (size_t)k;
    }
    text[keep] = 0;
    return keep;
}
