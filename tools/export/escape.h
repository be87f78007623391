/* tools/export/escape.h - texts from outside as a format has them. Into a buffer; any thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_ESCAPE_H
#define NIGHTSHIFT_TOOLS_EXPORT_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

void escape_put(struct buf *out, const char *s); /* as it is */

/* A control character of two bytes (U+0080 to U+009F)? Terminals act on them, too. */
bool escape_is_c1(const char *s);

/* On one line: line breaks and control characters become blanks. */
enum escape {
    ESCAPE_NONE,
    ESCAPE_SRT, /* "-->" becomes "->": SubRip has no escape, and some readers take it for a time */
    ESCAPE_VTT, /* &, < and > */
    ESCAPE_XML, /* the same and quotes; what XML cannot have, U+FFFE and U+FFFF, becomes U+FFFD */
};
void escape_line(struct buf *out, const char *s, enum escape how);

/* Percent-encoded, as a part of a URI; a '/' stays when `path`. */
void escape_uri(struct buf *out, const char *s, size_t len, bool path);

/* A field of RFC 4180's CSV, on one line. A blank goes before text that a spreadsheet would take
 * for a formula. */
void escape_csv(struct buf *out, const char *s);
/* The same between tabs, where there are no quotes. */
void escape_tsv(struct buf *out, const char *s);

/* A JSON string with its quotes. */
void escape_json(struct buf *out, const char *s);
/* Another entry of an object, behind one that is there: ", "key": value". Not finite: null. */
void escape_json_text(struct buf *out, const char *key, const char *value);
void escape_json_number(struct buf *out, const char *key, double value);

/* HH:MM:SS and the milliseconds behind `point`; hours grow as they must, and what is negative is 0.
 */
void escape_time(struct buf *out, int64_t ms, char point);

/* ---- text from outside as HTML, and what a page may do
 *
 * A buffer that failed ignores what follows (base/buf.h). */

/* Puts s, valid UTF-8, as text of an element or as an attribute's value between quotes of either
 * kind. Control characters become blanks; tab and newline stay. */
void html_text(struct buf *out, const char *s);
void html_text_bytes(struct buf *out, const char *s, size_t n);

/* Puts a JSON string with its quotes, safe inside <script>: '<', '>', '&' and the line ends U+2028
 * and U+2029 become \u escapes, so that nothing in it ends the script. */
void html_json(struct buf *out, const char *s);

/* A path, raw bytes, as a relative reference: what is neither letter, digit nor one of "-._~/" is
 * percent-encoded. So it is neither scheme, query nor fragment, and needs no escaping. */
void html_url_path(struct buf *out, const void *path, size_t n);

/* <!doctype html> to <title>, with the content security policy: nothing from the network, styles
 * and scripts by `policy` alone. The page goes on in <head>. */
void html_begin(struct buf *out, const char *policy, const char *title);

/* Policies: one for a page with scripts and styles in files beside it, one for a page that is
 * alone. The latter allows one inline <style> and no script. */
extern const char html_policy_folder[];
extern const char html_policy_alone[];

#endif
