#include "tools/cli/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

void text_to_file(void *file, const char *bytes, size_t n) { fwrite(bytes, 1, n, file); }

void text_to_buf(void *buf, const char *bytes, size_t n) { buf_put(buf, bytes, n); }

char *text_count(uint64_t n, char out[TEXT_LEN])
{
    char digits[24];
    size_t len = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
    size_t at = 0;

    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

char *text_speed(double times, char out[TEXT_LEN])
{
    if (times >= 9.95)
        return text_count((uint64_t)(times + 0.5), out);
    snprintf(out, TEXT_LEN, "%.1f", times);
    return out;
}

char *text_length(int64_t ms, char out[TEXT_LEN])
{
    char hours[TEXT_LEN];
    int64_t s;

    if (ms < 0)
        ms = 0;
    s = ms / 1000 + (ms % 1000 >= 500);
    if (ms < 9950)
        snprintf(out, TEXT_LEN, "%.1f s", (double)ms / 1000.0);
    else if (s < 60)
        snprintf(out, TEXT_LEN, "%lld s", (long long)s);
    else if (s < 3600)
        snprintf(out, TEXT_LEN, "%lld min %02lld s", (long long)(s / 60), (long long)(s % 60));
    else
        snprintf(out, TEXT_LEN, "%s h %02lld min", text_count((uint64_t)(s / 3600), hours),
                 (long long)(s / 60 % 60));
    return out;
}

char *text_bytes(uint64_t bytes, char out[TEXT_LEN])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double v = (double)bytes;
    size_t u = 0;

    while (v >= 999.5 && u + 1 < sizeof(units) / sizeof(units[0])) {
        v /= 1000.0;
        u++;
    }
    snprintf(out, TEXT_LEN, u > 0 && v < 99.95 ? "%.1f %s" : "%.0f %s", v, units[u]);
    return out;
}

char *text_since(int64_t ms, char out[TEXT_LEN])
{
    int64_t min = ms / 60000;

    if (min < 1)
        snprintf(out, TEXT_LEN, "just now");
    else if (min < 120)
        snprintf(out, TEXT_LEN, "%lld min ago", (long long)min);
    else if (min < 48 * 60)
        snprintf(out, TEXT_LEN, "%lld h ago", (long long)(min / 60));
    else
        snprintf(out, TEXT_LEN, "%lld days ago", (long long)(min / 1440));
    return out;
}

const char *text_plural(uint64_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

/* The code point at s and its length; a stray byte counts as one character. */
static uint32_t next_char(const char *s, size_t *len)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    uint32_t c = n == 1 ? p[0] : p[0] & (0xFFu >> (n + 1));

    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            *len = 1;
            return 0xFFFD;
        }
        c = c << 6 | (p[i] & 0x3Fu);
    }
    *len = n;
    return c;
}

static size_t char_width(uint32_t c)
{
    if ((c >= 0x300 && c <= 0x36F) || (c >= 0x200B && c <= 0x200F) || (c >= 0xFE00 && c <= 0xFE0F))
        return 0;
    if ((c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) ||
        (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
        (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
        (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD))
        return 2;
    return 1;
}

size_t text_width(const char *s)
{
    size_t width = 0, n;

    for (; *s; s += n)
        width += char_width(next_char(s, &n));
    return width;
}

char *text_fit(const char *s, size_t width)
{
    size_t total = text_width(s), at = 0, head, tail, n, w;
    const char *end, *from = s;
    char *out;

    if (width < TEXT_FIT_MIN)
        width = TEXT_FIT_MIN;
    if (total <= width)
        return strdup(s);
    head = (width - 3) / 3;
    tail = width - 3 - head;
    for (end = s; *end; end += n) {
        w = char_width(next_char(end, &n));
        if (at + w > head)
            break;
        at += w;
    }
    for (at = total; at > tail; from += n)
        at -= char_width(next_char(from, &n));
    return asprintf(&out, "%.*s...%s", (int)(end - s), s, from) < 0 ? NULL : out;
}

/* Puts what begins at s and ends at `end`, without its middle where it is too wide. */
static void put_fit(struct buf *b, const char *s, const char *end, size_t width)
{
    char *word = strndup(s, (size_t)(end - s)), *fit = word ? text_fit(word, width) : NULL;

    if (fit)
        buf_printf(b, "%s", fit);
    else
        b->failed = true;
    free(word);
    free(fit);
}

static size_t width_between(const char *s, const char *end)
{
    size_t width = 0, n;

    for (; s < end; s += n)
        width += char_width(next_char(s, &n));
    return width;
}

/* The end of the first line of s, behind a word. */
static const char *first_line_end(const char *s, size_t width)
{
    const char *end = s + strcspn(s, " "), *next;

    for (; *end; end = next) {
        next = end + 1 + strcspn(end + 1, " ");
        if (width_between(s, next) > width)
            break;
    }
    return end;
}

/* The beginning of the last line of s, which holds at least the last word. */
static const char *last_line_begin(const char *s, size_t width)
{
    const char *begin = NULL, *word = s + strlen(s);

    while (word > s) {
        for (word--; word > s && word[-1] != ' '; word--)
            ;
        if (begin && text_width(word) > width)
            break;
        begin = word;
    }
    return begin ? begin : s;
}

char *text_fit_lines(const char *s, size_t width)
{
    static const char gap[] = "... ";
    const char *end, *last;
    struct buf b = BUF_INIT;

    if (width < TEXT_FIT_MIN + sizeof(gap))
        width = TEXT_FIT_MIN + sizeof(gap);
    end = first_line_end(s, width);
    put_fit(&b, s, end, width);
    if (*end) {
        last = last_line_begin(end + 1, width);
        if (last > end + 1) { /* words between are left out, and saying so takes room */
            width -= strlen(gap);
            last = last_line_begin(end + 1, width);
        }
        buf_printf(&b, "\n%s", last > end + 1 ? gap : "");
        put_fit(&b, last, last + strlen(last), width);
    }
    if (!buf_cstr(&b))
        buf_free(&b);
    return (char *)b.data;
}

void text_wrap(text_sink sink, void *arg, const char *s, size_t column, size_t indent, size_t width)
{
    bool behind = column > indent; /* a word of this line */

    while (*s) {
        const char *word, *end;
        size_t bytes, cols, n;

        while (*s == ' ')
            s++;
        word = s;
        for (cols = 0, end = s; *end && *end != ' '; end += n)
            cols += char_width(next_char(end, &n));
        bytes = (size_t)(end - word);
        if (bytes == 0)
            break;
        if (behind && column + 1 + cols > width) {
            sink(arg, "\n", 1);
            for (column = 0; column < indent; column++)
                sink(arg, " ", 1);
        } else if (behind) {
            sink(arg, " ", 1);
            column++;
        }
        sink(arg, word, bytes);
        column += cols;
        behind = true;
        s = end;
    }
}

static double unit_ms(const char *s, size_t *len)
{
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"ms", 1},    {"min", 60000}, {"s", 1000},
                 {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strncmp(s, units[i].name, strlen(units[i].name)) == 0) {
            *len = strlen(units[i].name);
            return units[i].ms;
        }
    *len = 0;
    return 0;
}

int64_t text_parse_length(const char *s, int64_t max_ms)
{
    double total = 0;

    if (*s == 0)
        return -1;
    while (*s) {
        char *end;
        double v, unit;
        size_t len;

        if (*s < '0' || *s > '9')
            return -1;
        errno = 0;
        v = strtod(s, &end);
        if (errno != 0 || s[1] == 'x' || s[1] == 'X')
            return -1;
        unit = unit_ms(end, &len);
        if (len == 0 && *end != 0)
            return -1;
        total += v * (len == 0 ? 1000.0 : unit);
        if (!(total <= (double)max_ms))
            return -1;
        s = end + len;
    }
    return (int64_t)(total + 0.5);
}
