/* store/vectors/vectors.h - the vectors of a stage most like one: exact search by cosine.
 *
 * Those that are current, so of each recording once. While a transcription is replaced by another
 * one, they are of two stages with one model, which differ in what was embedded, and both are
 * searched; what is left of the older one is less every hour.
 *
 * Over everything it goes through an index in a file beside the catalog
 * (store/vectors/vector_file.h), made when there is none and made anew when it does not fit the
 * catalog: another catalog's, of another stage, older than a deletion, cut short, damaged. Newer
 * vectors are compared one by one, until they are more than a fraction of it. If no file can be
 * written, all vectors are compared one by one. A search within a scope first finds the scope's
 * rows. Few rows are compared one by one; many are looked up in the index, which skips other
 * rows. Either way, the ranking is that of the catalog's own vectors.
 *
 * Any store_mode, the store's thread; the reading uses threads of its own while it lasts. */
#ifndef NIGHTSHIFT_STORE_VECTORS_VECTORS_H
#define NIGHTSHIFT_STORE_VECTORS_VECTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/read/scope.h"

struct vectors_query {
    int64_t stage_id;    /* and others of its name and model */
    const float *values; /* [size], any length but 0 */
    uint32_t size;
    struct scope scope; /* only recordings in it */
    size_t limit;       /* at least 1 */
    bool no_file;       /* neither read nor write an index */
};
struct vectors_hit {
    int64_t embedding_id;
    double cosine;
};
/* *ret: newly allocated, best first; of equals the lower id. Vectors of another size, or that are
 * no numbers, are left out. ERR_INPUT: the query is no vector. */
int vectors_search(struct store *st, const struct vectors_query *q, struct vectors_hit **ret,
                   size_t *n, struct err *err);
/* The path of a stage's index: newly allocated; NULL when out of memory. */
char *vectors_path(const struct store *st, int64_t stage_id);
/* Removes the indexes of all stages, or of those alone that have no task any more: whoever searches
 * makes them anew. A file that cannot be removed stays. */
int vectors_remove(struct store *st, bool all, struct err *err);

#endif
