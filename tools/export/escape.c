#include "tools/export/escape.h"

#include <math.h>
#include <string.h>

void escape_put(struct buf *out, const char *s) { buf_put(out, s, strlen(s)); }

bool escape_is_c1(const char *s)
{
    return (unsigned char)s[0] == 0xC2 && (unsigned char)s[1] >= 0x80 && (unsigned char)s[1] < 0xA0;
}

static bool is_noncharacter(const char *s)
{
    const unsigned char *c = (const unsigned char *)s;

    return c[0] == 0xEF && c[1] == 0xBF && (c[2] == 0xBE || c[2] == 0xBF);
}

/* A '>' of a text for SubRip: of the dashes before it one is left, whoever put them there. */
static void put_srt_end(struct buf *out)
{
    while (out->len > 1 && memcmp(out->data + out->len - 2, "--", 2) == 0)
        out->len--;
    buf_put_u8(out, '>');
}

void escape_line(struct buf *out, const char *s, enum escape how)
{
    bool marks = how == ESCAPE_VTT || how == ESCAPE_XML;

    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '\r' && s[1] == '\n')
            continue;
        if (c < 0x20 || c == 0x7F)
            escape_put(out, " ");
        else if (escape_is_c1(s)) {
            escape_put(out, " ");
            s++;
        } else if (how == ESCAPE_XML && is_noncharacter(s)) {
            escape_put(out, "\xEF\xBF\xBD");
            s += 2;
        } else if (how == ESCAPE_XML && c == '"')
            escape_put(out, "&quot;");
        else if (marks && c == '&')
            escape_put(out, "&amp;");
        else if (marks && c == '<')
            escape_put(out, "&lt;");
        else if (marks && c == '>')
            escape_put(out, "&gt;");
        else if (how == ESCAPE_SRT && c == '>')
            put_srt_end(out);
        else
            buf_put(out, s, 1);
    }
}

void escape_uri(struct buf *out, const char *s, size_t len, bool path)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '-' || c == '.' || c == '_' || c == '~' || (path && c == '/'))
            buf_put_u8(out, c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

static bool is_formula(const char *s) { return s[0] && strchr("=+-@", s[0]); }

void escape_tsv(struct buf *out, const char *s)
{
    escape_put(out, is_formula(s) ? " " : "");
    escape_line(out, s, ESCAPE_NONE);
}

void escape_csv(struct buf *out, const char *s)
{
    struct buf line = BUF_INIT;

    escape_line(&line, s, ESCAPE_NONE);
    escape_put(out, is_formula(s) ? "\" " : "\"");
    for (size_t i = 0; i < line.len; i++) {
        if (line.data[i] == '"')
            buf_put_u8(out, '"');
        buf_put_u8(out, line.data[i]);
    }
    buf_put_u8(out, '"');
    out->failed |= line.failed;
    buf_free(&line);
}

void escape_json(struct buf *out, const char *s)
{
    escape_put(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            escape_put(out, "\\n");
        else if (c == '\t')
            escape_put(out, "\\t");
        else if (c < 0x20 || c == 0x7F)
            buf_printf(out, "\\u%04x", c);
        else if (escape_is_c1(s)) /* its second byte is its number */
            buf_printf(out, "\\u%04x", (unsigned char)*++s);
        else
            buf_put(out, s, 1);
    }
    escape_put(out, "\"");
}

void escape_json_text(struct buf *out, const char *key, const char *value)
{
    buf_printf(out, ", \"%s\": ", key);
    escape_json(out, value);
}

void escape_json_number(struct buf *out, const char *key, double value)
{
    if (isfinite(value))
        buf_printf(out, ", \"%s\": %.6g", key, value);
    else
        buf_printf(out, ", \"%s\": null", key);
}

void escape_time(struct buf *out, int64_t ms, char point)
{
    if (ms < 0)
        ms = 0;
    buf_printf(out, "%02lld:%02d:%02d%c%03d", (long long)(ms / 3600000), (int)(ms / 60000 % 60),
               (int)(ms / 1000 % 60), point, (int)(ms % 1000));
}
