/* workers/stages/transcribe/outcome/pauses.h - segments and the pauses that voice activity left out
 * of their window.
 *
 * In a packed window speech from both sides of a pause stands together, and the model may make one
 * segment of it, which in the recording would last over all of the pause. Such a segment is parted
 * there. The pause counts from PAUSES_LEAST_MS on, with what was kept of it at both ends.
 *
 * Engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_PAUSES_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_PAUSES_H

#include <stdint.h>

#include "base/err.h"
#include "workers/stages/transcribe/decode/spans.h"
#include "workers/stages/transcribe/lane.h"
#include "workers/stages/transcribe/yield.h"

#define PAUSES_LEAST_MS 1000

/* Mean voice activity over samples [start, end) of the window; -1: it was not measured. */
float pauses_voice(const struct lane_window *w, int64_t start, int64_t end);
/* How much of [start_ms, end_ms) of the recording the model has heard: all but such pauses. */
int64_t pauses_heard_ms(const struct lane_window *w, int64_t start_ms, int64_t end_ms);
/* Adds the segment, whose samples in the window are `span`'s, parted at the pauses that it lasts
 * over: by its words' times, or without words by how long somebody speaks on either side, at a
 * blank, better at the end of a sentence (text and time are then right but for a few words). Each
 * part keeps the whole segment's doubts. ERR_NOMEM. */
int pauses_yield(const struct lane_window *w, const struct span *span,
                 const struct result_segment *segment, struct yield *yield, struct err *err);
/* Adds samples [start, end) of the window as speech without text, parted in the same way: a dropped
 * segment for each side that has speech. ERR_NOMEM. */
int pauses_missing(const struct lane_window *w, int64_t start, int64_t end, struct yield *yield,
                   struct err *err);

#endif
