/* store/vectors/vector_scan.h - the rows of an index of vectors that may be among the best.
 * Internal to store/ and the benchmark.
 *
 * A row's product with the query is known up to a bound: with x = s * i8 + rest and q = t * i16 +
 * part,  |q . x - s * t * (i16 . i8)| <= |q| |rest| + |part| (|x| + |rest|). So a row whose product
 * is at most below the `limit` best ones' least is not among the best, whatever it is exactly; all
 * others are handed out. Nothing is lost, and the caller ranks a few with exact vectors. */
#ifndef NIGHTSHIFT_STORE_VECTORS_VECTOR_SCAN_H
#define NIGHTSHIFT_STORE_VECTORS_VECTOR_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "store/vectors/vector_file.h"
#include "store/vectors/vector_rows.h"

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
