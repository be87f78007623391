#include "tools/export/escape_html.h"

#include <string.h>

/* Chromium 156 and Firefox 153 take 'self' on file:// for any file of the disk, and refuse what
 * stands inline. Which files a page takes is what the program wrote into it. */
const char html_policy_folder[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
    "base-uri 'none'; form-action 'none'";
const char html_policy_alone[] =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

static void put(struct buf *out, const char *s) { buf_put(out, s, strlen(s)); }

/* What stands for the character in HTML; NULL: itself. */
static const char *entity(unsigned char c)
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
        const char *instead = entity((unsigned char)s[i]);
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
