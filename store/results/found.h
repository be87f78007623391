/* store/results/found.h - what a shard brings beside segments: sounds, vectors and voices. Internal
 * to store/. */
#ifndef NIGHTSHIFT_STORE_RESULTS_FOUND_H
#define NIGHTSHIFT_STORE_RESULTS_FOUND_H

#include "store/db.h"

#define FOUND_MAX_SIZE 65536u /* values of a vector */

/* ERR_INPUT: impossible values. */
int found_check(const struct store_shard_result *r, struct err *err);
/* Within db_enter / db_leave, behind the shard's row. */
int found_put(struct store *st, const struct store_shard_result *r, struct err *err);
/* Is every value a finite number? */
bool found_finite(const float *values, size_t n);

#endif
