/* tools/foresee.h - what a walk would bring to the catalog, counted as the catalog would, without a
 * change to it. Memory: 16 bytes for each place, content and row that was met. One thread. */
#ifndef NIGHTSHIFT_TOOLS_FORESEE_H
#define NIGHTSHIFT_TOOLS_FORESEE_H

#include "store/requests/request.h"

struct foresee;

/* known: borrowed, or NULL: there is no catalog, and everything is new. */
int foresee_new(struct store *known, struct foresee **ret, struct err *err);
void foresee_free(struct foresee *f); /* NULL is fine */

/* As an ADD of it, added to *counts. */
int foresee_found(struct foresee *f, const struct store_found *found,
                  struct store_enqueue_counts *counts, struct err *err);
/* As a SAME, but for the counts. */
int foresee_same(struct foresee *f, const int64_t *place_ids, uint32_t n, struct err *err);
/* As the END, when all else was told: vanished and gone of *counts. */
int foresee_end(struct foresee *f, const struct request *end, struct store_enqueue_counts *counts,
                struct err *err);

#endif
