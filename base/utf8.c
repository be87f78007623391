#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* The length of the well-formed character at p, or 0. When 0, *bad is the length of the maximal
 * ill-formed prefix (Unicode 15, table 3-7), which is replaced by one U+FFFD. */
static size_t measure_utf8_char(const uint8_t *p, size_t n, size_t *bad)
{
    uint8_t lo = 0x80, hi = 0xBF;
    size_t want, i;

    *bad = 1;
    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xC2 && p[0] <= 0xDF)
        want = 2;
    else if (p[0] >= 0xE0 && p[0] <= 0xEF)
        want = 3;
    else if (p[0] >= 0xF0 && p[0] <= 0xF4)
        want = 4;
    else
        return 0;
    if (p[0] == 0xE0)
        lo = 0xA0;
    if (p[0] == 0xED)
        hi = 0x9F;
    if (p[0] == 0xF0)
        lo = 0x90;
    if (p[0] == 0xF4)
        hi = 0x8F;
    for (i = 1; i < want; i++) {
        if (i >= n || p[i] < lo || p[i] > hi) {
            *bad = i;
            return 0;
        }
        lo = 0x80;
        hi = 0xBF;
    }
    return want;
}

bool utf8_valid(const void *data, size_t len)
{
    const uint8_t *p = data;
    size_t bad;

    for (size_t i = 0; i < len;) {
        size_t k = measure_utf8_char(p + i, len - i, &bad);
        if (!k)
            return false;
        i += k;
    }
    return true;
}

/* C0, DEL and C1 controls: a terminal would act on them. The bidirectional controls U+202A-202E and
 * U+2066-2069 as well: a name could show another ending than it has. */
static bool is_control(const uint8_t *p, size_t k)
{
    if (k == 1)
        return p[0] < 0x20 || p[0] == 0x7F;
    if (k == 2)
        return p[0] == 0xC2 && p[1] < 0xA0;
    if (k != 3 || p[0] != 0xE2)
        return false;
    return (p[1] == 0x80 && p[2] >= 0xAA && p[2] <= 0xAE) ||
           (p[1] == 0x81 && p[2] >= 0xA6 && p[2] <= 0xA9);
}

size_t utf8_printable(const void *data, size_t len)
{
    size_t bad, k = len > 0 ? measure_utf8_char(data, len, &bad) : 0;

    return k > 0 && !is_control(data, k) ? k : 0;
}

/* \n, \t or \xHH: at most four bytes. Returns where the next one goes. */
static char *put_escape(char *q, uint8_t byte)
{
    static const char hex[] = "0123456789ABCDEF";

    *q++ = '\\';
    if (byte == '\n' || byte == '\t') {
        *q++ = byte == '\n' ? 'n' : 't';
        return q;
    }
    *q++ = 'x';
    *q++ = hex[byte >> 4];
    *q++ = hex[byte & 15];
    return q;
}

/* Writes as much of the printable form as `capacity` bytes hold with a NUL. It cuts no character or
 * escape. */
static void put_display(char *out, size_t capacity, const uint8_t *p, size_t len)
{
    char *q = out, *end = out + capacity - 1;
    size_t bad;

    for (size_t i = 0; i < len;) {
        size_t k = measure_utf8_char(p + i, len - i, &bad);
        bool plain = k && !is_control(p + i, k);
        size_t n = k ? k : bad; /* of which each is four bytes at most as an escape */

        if ((size_t)(end - q) < (plain ? n : 4 * n))
            break;
        if (plain) {
            memcpy(q, p + i, n);
            q += n;
            i += n;
        }
        for (; !plain && n; n--, i++)
            q = put_escape(q, p[i]);
    }
    *q = 0;
}

char *utf8_display(const void *data, size_t len)
{
    char *out = malloc(len * 4 + 1);

    if (out)
        put_display(out, len * 4 + 1, data, len);
    return out;
}

void utf8_display_err(struct err *err)
{
    char was[sizeof(err->msg)];

    memcpy(was, err->msg, sizeof(was));
    put_display(err->msg, sizeof(err->msg), (const uint8_t *)was, strlen(was));
}

char *utf8_display_nth(const void *data, size_t len, uint32_t nth)
{
    char *name = utf8_display(data, len), *ret = NULL;

    if (!name || nth == 0)
        return name;
    if (asprintf(&ret, "%s (%llu)", name, (unsigned long long)nth + 1) < 0)
        ret = NULL;
    free(name);
    return ret;
}

void utf8_copy(char *dst, size_t capacity, const char *s)
{
    size_t n = strlen(s);

    if (n > capacity - 1) {
        n = capacity - 1;
        while (n && ((uint8_t)s[n] & 0xC0) == 0x80)
            n--;
    }
    memcpy(dst, s, n);
    dst[n] = 0;
}

char *utf8_repair(const void *data, size_t len)
{
    const uint8_t *p = data;
    char *out = malloc(len * 3 + 1), *q = out;
    size_t bad;

    if (!out)
        return NULL;
    for (size_t i = 0; i < len;) {
        size_t k = measure_utf8_char(p + i, len - i, &bad);
        if (k) {
            memcpy(q, p + i, k);
            q += k;
            i += k;
        } else {
            memcpy(q, "\xEF\xBF\xBD", 3);
            q += 3;
            i += bad;
        }
    }
    *q = 0;
    return out;
}
