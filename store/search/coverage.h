/* store/search/coverage.h - how much of the archive a search can know of.
 *
 * Any store_mode, the store's thread. */
#ifndef NIGHTSHIFT_STORE_SEARCH_COVERAGE_H
#define NIGHTSHIFT_STORE_SEARCH_COVERAGE_H

#include "store/store.h"

/* Recordings that are somewhere now, each counted once: for the best of a stage's tasks for it. */
struct coverage {
    uint64_t done, left; /* left: pending, whatever it waits for */
    uint64_t failed, cancelled;
    uint64_t never;     /* asked for */
    uint64_t forgotten; /* asked for where they lie: removed, or left out */
};
/* Of all stages of a name. path: at or below it, as read_filter; NULL: all. Reads all recordings
 * that are asked about. */
int coverage_read(struct store *st, const char *stage, const char *path, struct coverage *ret,
                  struct err *err);

#endif
