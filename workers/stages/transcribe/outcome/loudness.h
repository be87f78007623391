/* workers/stages/transcribe/outcome/loudness.h - where a window's audio is loud, and words moved to
 * where it is.
 *
 * The decoder's attention tells which word is said near a place, but not to a tenth of a second if
 * the word begins after a pause or ends before one. In a long silence it may look seconds away from
 * the word that it writes. No word begins or ends in quiet beside its own sound: its edges are
 * moved there. Our own rule, after openai-whisper's have been applied to the attention alone.
 * Pure. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_LOUDNESS_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_LOUDNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/models/asr_model.h"
#include "workers/stages/transcribe/outcome/words.h"

#define LOUDNESS_STEP_S 0.01
#define LOUDNESS_MAX (ASR_WINDOW_MAX / 160) /* steps of a window */

struct loudness {
    uint32_t steps; /* 0: no use, everything is about as loud */
    bool loud[LOUDNESS_MAX];
};

/* pcm: n samples at 16 kHz in [-1, 1]; what is beyond ASR_WINDOW_MAX is left out. */
void loudness_measure(const float *pcm, size_t n, struct loudness *ret);
/* Share of [start, end) seconds that is loud; 0 of an empty one. */
float loudness_share(const struct loudness *l, float start, float end);

/* Moves the edges of words (n, of one segment, ascending; seconds in the window) that lie in quiet
 * to their sound, and ends that are followed by sound to its end, never past the neighbours.
 *   from, to:  what the segment's timestamps say. Words that were placed in quiet while there is
 *              sound between these are spread over it by their lengths in characters.
 *   before, after: where the words before and after these end and begin. */
void loudness_place(const struct loudness *l, struct word *words, uint32_t n, float from, float to,
                    float before, float after);

#endif
