/* store/vectors/vector_rows.h - the vectors of a scope, as ranges of their numbers. Internal to
 * store/ and the benchmark.
 *
 * Numbers are given in the order in which shards are committed, so a recording's are a few ranges:
 * they are read from an index of the table that has no vectors in it. */
#ifndef NIGHTSHIFT_STORE_VECTORS_VECTOR_ROWS_H
#define NIGHTSHIFT_STORE_VECTORS_VECTOR_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/read/scope.h"

struct vector_range {
    int64_t first, last; /* every number in between is there */
};
struct vector_rows {           /* owned: vector_rows_free */
    struct vector_range *list; /* rising, none touches another */
    size_t count;
    uint64_t rows; /* in all ranges */
    bool out;      /* what is meant is all but these */
};
/* The rows of a stage with a number above 0: of the recordings of a scope, the current ones; or,
 * of all recordings, those that are not current, to be left out (`out`): none costs a look. */
int vector_rows_find(struct store *st, int64_t stage_id, const struct scope *scope,
                     struct vector_rows *ret, struct err *err);
int vector_rows_superseded(struct store *st, int64_t stage_id, struct vector_rows *ret,
                           struct err *err);
void vector_rows_free(struct vector_rows *r);
/* The first range that ends at id or behind it; count: none. */
size_t vector_rows_at(const struct vector_rows *r, int64_t id);

#endif
