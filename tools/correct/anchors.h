/* tools/correct/anchors.h - where two sequences surely belong together: what stands in each of them
 * exactly once. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_ANCHORS_H
#define NIGHTSHIFT_TOOLS_CORRECT_ANCHORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tools/correct/word_list.h"

struct anchor {
    size_t a, b; /* where `gram` words begin that are the same on both sides */
};
/* Of the runs of `gram` words that n words of a and m words of b have once each, the most that are
 * in the same order on both sides, in that order. Newly allocated; NULL where there is none. Time
 * grows as (n + m) log (n + m). ERR_NOMEM. */
int anchors_find(const struct word *a, size_t n, const struct word *b, size_t m, size_t gram,
                 struct anchor **ret, size_t *count, struct err *err);

#endif
