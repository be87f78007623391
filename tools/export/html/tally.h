/* tools/export/html/tally.h - sums by name, and a chart of them as inline SVG. One thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_HTML_TALLY_H
#define NIGHTSHIFT_TOOLS_EXPORT_HTML_TALLY_H

#include "tools/export/keys.h"

struct tally { /* zero at first; owned: tally_free */
    struct keys keys;
    int64_t *sum; /* of each key */
    size_t capacity;
};
void tally_free(struct tally *t);
int tally_add(struct tally *t, const char *key, int64_t n, struct err *err); /* ERR_NOMEM */

enum tally_order { TALLY_LARGEST, TALLY_BY_NAME, TALLY_AS_ADDED };
struct tally_chart {
    const char *title;
    bool hours; /* the sums are milliseconds, else they are counted */
    enum tally_order order;
    size_t most; /* bars; of TALLY_BY_NAME the last ones, else the first; 0: all */
};
/* <figure> with a bar for each: its name and value as text, so that the drawing is not needed.
 * Nothing where nothing was added. */
void tally_put(const struct tally *t, const struct tally_chart *chart, struct buf *out);

#endif
