/* store/reading/overlap.h - who says a stretch of a recording, by a diarization's turns.
 *
 * The speaker whose turns overlap it longest in sum; of equals, the one whose overlapping turn
 * begins first. If no turn overlaps it, the speaker of the nearest turn within OVERLAP_NEAR_MS; of
 * turns equally near, the earlier one. Else nobody: what a transcription hears in music is said by
 * no one. A stretch without length counts as one millisecond.
 *
 * Pure. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_READING_OVERLAP_H
#define NIGHTSHIFT_STORE_READING_OVERLAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Words lie some 0.1 s off, and a turn may begin after a breath: what is farther is not its. */
#define OVERLAP_NEAR_MS 1000

struct overlap_turn {
    int64_t start_ms, end_ms; /* end >= start */
    int64_t speaker;          /* any number */
};

struct overlaps; /* reads what it was made of; one thread */

/* Copies the turns, in any order, overlapping or not. ERR_NOMEM. */
int overlap_make(const struct overlap_turn *turns, size_t n, struct overlaps **ret,
                 struct err *err);
void overlap_free(struct overlaps *a); /* NULL is fine */
/* The speaker of [start_ms, end_ms), or `none`. Time grows with the turns that overlap it, and the
 * logarithm of all. */
int64_t overlap_speaker(struct overlaps *a, int64_t start_ms, int64_t end_ms, int64_t none);
/* Does one hand over to the other there: does a turn of `from` end, or one of `to` begin, at
 * start_ms, end_ms or between? */
bool overlap_changes(const struct overlaps *a, int64_t from, int64_t to, int64_t start_ms,
                     int64_t end_ms);

#endif
