/* store/results/overlap.h - who says a stretch of a recording, by a diarization's turns.
 *
 * The speaker whose turns overlap it longest in sum; of equals, the one whose overlapping turn
 * begins first. Where no turn overlaps it, the speaker of the nearest turn, however far; of turns
 * equally near, the earlier one. A stretch without length counts as one millisecond.
 *
 * Pure. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_RESULTS_OVERLAP_H
#define NIGHTSHIFT_STORE_RESULTS_OVERLAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct overlap_turn {
    int64_t start_ms, end_ms; /* end >= start */
    int64_t speaker;          /* any number */
};

struct overlaps; /* reads what it was made of; one thread */

/* Copies the turns, in any order, overlapping or not. ERR_NOMEM. */
int overlap_make(const struct overlap_turn *turns, size_t n, struct overlaps **ret,
                 struct err *err);
void overlap_free(struct overlaps *a); /* NULL is fine */
/* The speaker of [start_ms, end_ms), or `none` when there are no turns. Time grows with the turns
 * that overlap it, and the logarithm of all. */
int64_t overlap_speaker(struct overlaps *a, int64_t start_ms, int64_t end_ms, int64_t none);

#endif
