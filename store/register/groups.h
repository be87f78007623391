/* store/register/groups.h - which voices without a name are probably the same person's. Pure; any
 * thread.
 *
 * Two groups (a voice alone is one, too) whose voices are alike enough on average, and each of
 * which is most like the other, are one: average linkage, by chains of nearest neighbours. Two
 * voices of one recording are never in one group: they were told apart there. New voices are put
 * beside groups that stay as they are, so that these keep their numbers and members; all at once,
 * in whatever order, give what linkage of all of them gives. (Single linkage would chain strangers
 * together; complete linkage wants all pairs, for somebody who is in every recording.)
 *
 * Memory is that of the vectors. A new voice costs two or three products with each group: n new
 * ones among n some n^2. */
#ifndef NIGHTSHIFT_STORE_REGISTER_GROUPS_H
#define NIGHTSHIFT_STORE_REGISTER_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct groups_voice {
    int64_t recording;
    int64_t group;       /* its number; 0: in none */
    const float *vector; /* [size], of length 1; borrowed */
    bool due;            /* to be placed; one in a group is never */
};

/* Places those that are due, and dissolves groups of one. from: the least mean likeness. *last: the
 * highest number that was ever given to a group. On error nothing changed. */
int groups_match(struct groups_voice *voices, size_t count, size_t size, double from, int64_t *last,
                 struct err *err);

#endif
