/* store/assign.h - who says a stretch of a recording, by a diarization's turns.
 *
 * The speaker whose turns overlap it longest in sum; of equals, the one whose overlapping turn
 * begins first. Where no turn overlaps it, the speaker of the nearest turn, however far; of turns
 * equally near, the earlier one. A stretch without length counts as one millisecond.
 *
 * Pure. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_ASSIGN_H
#define NIGHTSHIFT_STORE_ASSIGN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct assign_turn {
    int64_t start_ms, end_ms; /* end >= start */
    int64_t speaker;          /* any number */
};

struct assign; /* reads what it was made of; one thread */

/* Copies the turns, in any order, overlapping or not. ERR_NOMEM. */
int assign_make(const struct assign_turn *turns, size_t n, struct assign **ret, struct err *err);
void assign_free(struct assign *a); /* NULL is fine */
/* The speaker of [start_ms, end_ms), or `none` when there are no turns. Time grows with the turns
 * that overlap it, and the logarithm of all. */
int64_t assign_speaker(struct assign *a, int64_t start_ms, int64_t end_ms, int64_t none);

#endif
