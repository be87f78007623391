/* store/vectors/vector_scan.h - the rows of an index of vectors that may be among the best.
 * Internal to store/ and the benchmark.
 *
 * A row's product with the query is known up to a bound: with x = s * i8 + rest and q = t * i16 +
 * part,  |q . x - s * t * (i16 . i8)| <= |q| |rest| + |part| (|x| + |rest|). So a row whose product
 * is at most below the `limit` best ones' least is not among the best, whatever it is exactly; all
 * others are handed out. Nothing is lost, and the caller ranks a few with exact vectors. */
#ifndef NIGHTSHIFT_STORE_VECTORS_VECTOR_SCAN_H
#define NIGHTSHIFT_STORE_VECTORS_VECTOR_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/read/scope.h"
#include "store/vectors/vector_file.h"

/* ---- the vectors of a scope, as ranges of their numbers. Internal to store/ and the benchmark.
 *
 * Numbers are given in the order in which shards are committed, so a recording's are a few ranges:
 * they are read from an index of the table that has no vectors in it. */

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

struct vector_near {
    int64_t id;
    float least, most; /* of the product with the query */
};

/* query: [size], of length 1; rows are taken to be of length 1, too. threads: 0: as many as there
 * are processors. rows: only what they mean; NULL: all. *ret: newly allocated, in no order.
 * ERR_CORRUPT: make the file anew. */
int vector_scan(const struct vector_file *f, const float *query, size_t limit, uint32_t threads,
                const struct vector_rows *rows, struct vector_near **ret, size_t *n,
                struct err *err);

#endif
