/* tools/search/search_print.h - hits of a search on standard output, one after the other.
 *
 * Main thread. */
#ifndef NIGHTSHIFT_TOOLS_SEARCH_SEARCH_PRINT_H
#define NIGHTSHIFT_TOOLS_SEARCH_SEARCH_PRINT_H

#include "base/buf.h"
#include "tools/search/search_result.h"

struct search_page { /* zero at first but for the first four; owned: both buffers */
    struct store *store;
    const char *path; /* only there; NULL: everywhere */
    bool json;
    uint64_t limit; /* hits that are shown; 0: all */
    uint64_t shown;
    bool more, heard; /* heard: something like the sound, which a text is to be near */
    struct err err;   /* why a hit could not be printed */
    struct buf hits;  /* what is shown, for search_last.h */
    struct buf last;  /* the recording whose name was printed last */
};

/* With the place that was asked about, of a recording that lies in several. 1: enough are shown,
 * and this one is not; negative: err of the page. */
int search_print(struct search_page *page, const struct search_result *r);

#endif
