/* tools/export/html/overview.h - the archive at a glance: sums, and the list of recordings. One
 * thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_HTML_OVERVIEW_H
#define NIGHTSHIFT_TOOLS_EXPORT_HTML_OVERVIEW_H

#include "store/read/read.h"
#include "tools/export/document.h"
#include "tools/export/html/tally.h"

struct overview { /* zero at first; owned: overview_free */
    struct tally languages, years, states, failures, doubts, speakers, sounds;
    struct buf rows;  /* of list.js */
    struct buf plain; /* of list.html */
    uint64_t recordings, pages;
    int64_t audio_ms;
};
void overview_free(struct overview *o);
/* d NULL and id "": it has no page. where: its path, `//` and its member. ERR_NOMEM. */
int overview_add(struct overview *o, const struct read_recording *r, const struct document *d,
                 const char *id, const char *where, struct err *err);

void overview_put_index(const struct overview *o, struct buf *out);
void overview_put_plain(const struct overview *o, struct buf *out); /* the list without a script */
void overview_put_list(const struct overview *o, struct buf *out);  /* `list([...])` */

#endif
