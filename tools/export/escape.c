#include "tools/export/escape.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"

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

/* ---- text from outside as HTML, and what a page may do */

/* Chromium 156 and Firefox 153 take 'self' on file:// for any file of the disk, and refuse what
 * stands inline. Which files a page takes is what the program wrote into it. */
const char html_policy_folder[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
    "base-uri 'none'; form-action 'none'";
const char html_policy_alone[] =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

static void put(struct buf *out, const char *s) { buf_put(out, s, strlen(s)); }

/* The character's HTML entity; NULL: it needs none. */
static const char *find_html_entity(unsigned char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    case '\t':
    case '\n':
        return NULL;
    default:
        return c < 0x20 || c == 0x7F ? " " : NULL;
    }
}

void html_text_bytes(struct buf *out, const char *s, size_t n)
{
    size_t from = 0;

    for (size_t i = 0; i < n; i++) {
        const char *instead = find_html_entity((unsigned char)s[i]);
        /* U+0080 to U+009F: HTML reads them as other characters. */
        const bool c1 = i + 1 < n && (unsigned char)s[i] == 0xC2 && (unsigned char)s[i + 1] < 0xA0;

        if (!instead && !c1)
            continue;
        buf_put(out, s + from, i - from);
        put(out, c1 ? " " : instead);
        i += c1;
        from = i + 1;
    }
    buf_put(out, s + from, n - from);
}

void html_text(struct buf *out, const char *s) { html_text_bytes(out, s, strlen(s)); }

void html_json(struct buf *out, const char *s)
{
    put(out, "\"");
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7F || c == '<' || c == '>' || c == '&')
            buf_printf(out, "\\u%04x", c);
        else if (strncmp(s, "\xE2\x80\xA8", 3) == 0 || strncmp(s, "\xE2\x80\xA9", 3) == 0) {
            buf_printf(out, "\\u20%02x", (unsigned char)s[2] - 0x80);
            s += 2;
        } else
            buf_put(out, s, 1);
    }
    put(out, "\"");
}

static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != 0 && strchr("-._~/", c));
}

void html_url_path(struct buf *out, const void *path, size_t n)
{
    const unsigned char *p = path;

    for (size_t i = 0; i < n; i++)
        if (is_plain(p[i]))
            buf_put(out, p + i, 1);
        else
            buf_printf(out, "%%%02X", p[i]);
}

void html_begin(struct buf *out, const char *policy, const char *title)
{
    buf_printf(out,
               "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
               "<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n"
               "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
               "<meta name=\"referrer\" content=\"no-referrer\">\n"
               "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
               policy);
    html_text(out, title);
    put(out, "</title>\n");
}
