/* tools/export/html/page.h - the page of one recording. Pure; one thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_HTML_PAGE_H
#define NIGHTSHIFT_TOOLS_EXPORT_HTML_PAGE_H

#include "base/buf.h"
#include "base/err.h"
#include "tools/export/document.h"

struct page {
    const struct document *document;
    const char *id;     /* of its files' names */
    const char *name;   /* of its file or member, with its ending */
    const char *where;  /* path and member as they are shown */
    const char *source; /* what is played, as a reference from the page; "": nothing */
    const char *second; /* another one, if the first is not there; "" */
    const char *silent; /* why nothing is played; "" */
    const char *media;  /* what was asked for to be played: a word (html_format.h) */
    bool film, waveform, unfinished;
};
/* Behind what is in `out`. ERR_NOMEM. */
int page_put(const struct page *p, struct buf *out, struct err *err);
/* Its texts for the search, as a script: `texts("ID",[[seconds,"text"],...])`. */
void page_put_texts(const struct page *p, struct buf *out);

#endif
