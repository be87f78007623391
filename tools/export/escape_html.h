/* tools/export/escape_html.h - text from outside as HTML, and what a page may do. Pure; any thread.
 *
 * A buffer that failed ignores what follows (base/buf.h). */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_ESCAPE_HTML_H
#define NIGHTSHIFT_TOOLS_EXPORT_ESCAPE_HTML_H

#include "base/buf.h"

/* Puts s, valid UTF-8, as text of an element or as an attribute's value between quotes of either
 * kind. Control characters become blanks; tab and newline stay. */
void html_text(struct buf *out, const char *s);
void html_text_bytes(struct buf *out, const char *s, size_t n);

/* As a JSON string with its quotes, which may stand inside <script>: '<', '>', '&' and the line
 * ends U+2028 and U+2029 are written as \u escapes, so that nothing in it ends the script. */
void html_json(struct buf *out, const char *s);

/* A path, raw bytes, as a relative reference: what is neither letter, digit nor one of "-._~/" is
 * percent-encoded. So it is neither scheme, query nor fragment, and needs no escaping. */
void html_url_path(struct buf *out, const void *path, size_t n);

/* <!doctype html> to <title>, with the content security policy: nothing from the network, styles
 * and scripts by `policy` alone. The page goes on in <head>. */
void html_begin(struct buf *out, const char *policy, const char *title);

/* Of a page with scripts and styles in files beside it. Of a page that is alone: its one <style> is
 * allowed inline, and there is no script. */
extern const char html_policy_folder[];
extern const char html_policy_alone[];

#endif
