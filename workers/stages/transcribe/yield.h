/* workers/stages/transcribe/yield.h - a list of segments that owns their texts, reasons and words.
 *
 * A window yields one, and a lane gathers one. Engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_YIELD_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_YIELD_H

#include <stdint.h>

#include "base/err.h"
#include "workers/stages/transcribe/transcription.h"

struct yield { /* all zero: empty */
    struct result_segment *segments;
    uint32_t count, capacity;
};

void yield_free(struct yield *y); /* back to {0} */
/* Copies text, reason, words and their texts; language stays borrowed. ERR_NOMEM. */
int yield_add(struct yield *y, const struct result_segment *segment, struct err *err);
/* The words of a segment that a list has, so far borrowed, become its own. ERR_NOMEM: it has none.
 */
int yield_own_words(struct result_segment *s, struct err *err);
/* Moves all segments of `from` to the end of `to`. ERR_NOMEM: nothing has moved. */
int yield_move(struct yield *to, struct yield *from, struct err *err);
/* By when they begin; of those that begin together, those that were there first. */
void yield_sort(struct yield *y);

#endif
