/* rttm: speakers' turns. */
#include "tools/export/escape.h"
#include "tools/export/formats/writers.h"

#include <string.h>

/* Bytes of the blank or control character that s begins with; 0: none. Unicode's White_Space, by
 * which programs that read rttm part the fields, has U+00A0, U+1680, U+2000 to U+200A, U+2028,
 * U+2029, U+202F, U+205F and U+3000 beyond ASCII and C1. */
static size_t measure_blank(const char *s, size_t n)
{
    const unsigned char *c = (const unsigned char *)s;

    if (c[0] <= 0x20 || c[0] == 0x7F)
        return 1;
    if (n >= 2 && (escape_is_c1(s) || (c[0] == 0xC2 && c[1] == 0xA0)))
        return 2;
    if (n < 3)
        return 0;
    if (c[0] == 0xE2 && c[1] == 0x80)
        return c[2] <= 0x8A || c[2] == 0xA8 || c[2] == 0xA9 || c[2] == 0xAF ? 3 : 0;
    return (c[0] == 0xE2 && c[1] == 0x81 && c[2] == 0x9F) ||
                   (c[0] == 0xE1 && c[1] == 0x9A && c[2] == 0x80) ||
                   (c[0] == 0xE3 && c[1] == 0x80 && c[2] == 0x80)
               ? 3
               : 0;
}

/* A field of rttm: never empty, without blanks and control characters. */
static void put_field(struct buf *out, const char *s, size_t n)
{
    if (n == 0)
        escape_put(out, "_");
    for (size_t i = 0; i < n;) {
        size_t skip = measure_blank(s + i, n - i);

        buf_put(out, skip > 0 ? "_" : s + i, 1);
        i += skip > 0 ? skip : 1;
    }
}

WRITER(rttm)
{
    size_t len;
    const char *name = document_name(d, &len);

    (void)o;
    (void)err;
    for (size_t i = 0; i < d->turn_count; i++) {
        const struct document_turn *t = &d->turns[i];
        int64_t length_ms = t->end_ms - t->start_ms;

        escape_put(out, "SPEAKER ");
        put_field(out, name, len);
        buf_printf(out, " 1 %lld.%03d %lld.%03d <NA> <NA> ", (long long)(t->start_ms / 1000),
                   (int)(t->start_ms % 1000), (long long)(length_ms / 1000),
                   (int)(length_ms % 1000));
        put_field(out, t->speaker, strlen(t->speaker));
        escape_put(out, " <NA> <NA>\n");
    }
    return 0;
}
