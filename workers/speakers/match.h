/* workers/speakers/match.h - who belongs to whom, one to one, so that the sum of the gains is as
 * large as it can be: the assignment problem, by shortest augmenting paths (Jonker and Volgenant
 * 1987, for rectangles as in Crouse 2016). Gains may be negative; as many pairs are made as the
 * smaller side has members. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_MATCH_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_MATCH_H

#include <stdint.h>

#include "base/err.h"

#define MATCH_NONE (-1)

struct matcher; /* memory that is used again; one thread. owned: matcher_free */

/* Allocates for problems of up to rows x columns, and of columns x rows. */
int matcher_new(uint32_t rows, uint32_t columns, struct matcher **ret, struct err *err);
void matcher_free(struct matcher *m); /* NULL is fine */

/* gain: [rows][columns], finite. column_of[rows]: its column, or MATCH_NONE where there are fewer
 * columns than rows. */
void matcher_run(struct matcher *m, const double *gain, uint32_t rows, uint32_t columns,
                 int32_t *column_of);

#endif
