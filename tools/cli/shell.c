#include "tools/cli/shell.h"

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"

/* C1 controls, too: some terminals obey them. */
static bool is_control(const unsigned char *s, size_t left)
{
    return s[0] < 0x20 || s[0] == 0x7F || (s[0] == 0xC2 && left > 1 && s[1] < 0xA0);
}

/* Bytes of the character that may be shown as it stands here; 0: none. */
static size_t measure_printable(const unsigned char *s, size_t left)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;

    return n <= left && !is_control(s, left) && utf8_valid(s, n) ? n : 0;
}

static bool is_plain(const unsigned char *s, size_t len)
{
    for (size_t i = 0, n; i < len; i += n)
        if ((n = measure_printable(s + i, len - i)) == 0)
            return false;
    return true;
}

static void put_plain(struct buf *out, const char *s, size_t len)
{
    buf_put(out, "'", 1);
    for (size_t i = 0; i < len; i++)
        if (s[i] == '\'')
            buf_printf(out, "'\\''");
        else
            buf_put(out, s + i, 1);
    buf_put(out, "'", 1);
}

/* Three digits always: what follows is none of them. */
static void put_escaped(struct buf *out, const unsigned char *s, size_t len)
{
    buf_printf(out, "$'");
    for (size_t i = 0, n; i < len; i += n) {
        n = measure_printable(s + i, len - i);
        if (n == 0) {
            buf_printf(out, "\\%03o", s[i]);
            n = 1;
        } else {
            if (s[i] == '\'' || s[i] == '\\')
                buf_put(out, "\\", 1);
            buf_put(out, s + i, n);
        }
    }
    buf_put(out, "'", 1);
}

void shell_quote(struct buf *out, const void *bytes, size_t len)
{
    if (is_plain(bytes, len))
        put_plain(out, bytes, len);
    else
        put_escaped(out, bytes, len);
}
