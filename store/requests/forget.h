/* store/requests/forget.h - what REQUEST_FORGET would remove. Any store_mode, the store's thread.
 */
#ifndef NIGHTSHIFT_STORE_REQUESTS_FORGET_H
#define NIGHTSHIFT_STORE_REQUESTS_FORGET_H

#include "store/store.h"

struct forget_row { /* what goes of one stage; borrowed during the call */
    int64_t stage_id;
    const char *stage, *model, *params_json;
    uint64_t recordings; /* with results of it */
    uint64_t undone;     /* and of which nothing was done */
    uint64_t segments, vectors;
    uint64_t names; /* of speakers, given by people */
    uint64_t bytes; /* about */
};
typedef int (*forget_fn)(void *arg, const struct forget_row *row);
/* By stage; none: nothing would go. stage_id and path as in struct request; path NULL: all. A
 * callback's value other than 0 ends it and is returned. Goes through all that would be removed. */
int forget_preview(struct store *st, int64_t stage_id, const char *path, forget_fn fn, void *arg,
                   struct err *err);

#endif
