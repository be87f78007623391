/* workers/stages/transcribe/outcome/words.h - when each word of a window was said.
 *
 * openai-whisper's timing.py behind its dynamic time warping (asr_ops.align): tokens joined to
 * words, punctuation merged into its neighbours, the lengths of doubtful words cut. Pure. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_WORDS_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/models/asr_model.h"
#include "workers/text/tokenizer/vocabulary.h"

#define WORDS_PREPEND "\"'“¿([{-"
#define WORDS_APPEND "\"'.。,，!！?？:：”)]}、"
#define WORDS_LONGEST_MEDIAN 0.7f /* seconds: no language has longer words in the middle */

struct word {
    float start, end;      /* seconds in the window; start <= end */
    char *text;            /* owned; valid UTF-8, with its leading blank; as the model wrote it, so
                              that it may hold control characters */
    uint32_t first, count; /* its tokens among the text tokens (timestamps not counted) */
    float probability;     /* mean of its tokens', merged punctuation not counted */
};

struct words {
    struct word *words; /* owned; their token ranges follow each other without gaps */
    uint32_t count;
    float median; /* seconds: of the lengths before punctuation was merged, words without length
                     left out; at most WORDS_LONGEST_MEDIAN; 0 when there is none; words_fit uses
                     it */
};

void words_free(struct words *w); /* back to {0} */

/* The words that text tokens (no timestamps, no specials) make in this language ("en"): at blanks,
 * or at every character in languages written without them (zh, ja, th, lo, my, yue); probabilities
 * and times are 0. Words joined are the text as vocabulary_decode gives it. ERR_NOMEM. */
int words_split(const struct vocabulary *v, const char *language, const int32_t *tokens, uint32_t n,
                struct words *ret, struct err *err);

/* Marks in WORDS_PREPEND join the word after them, marks in WORDS_APPEND the word before. The word
 * keeps its times and probability. ERR_NOMEM: w is good for words_free alone. */
int words_merge_punctuation(struct words *w, struct err *err);

/* All of it for one window's n text tokens (no timestamps): first_frame [n + 1] and logprob [n] as
 * asr_ops.align gave them, the end's frame last. Punctuation is merged; overlong words at the begin
 * and end of sentences are cut (to twice the median). No tokens: no words. ERR_NOMEM. */
int words_align(const struct vocabulary *v, const char *language, const int32_t *tokens, uint32_t n,
                const uint32_t *first_frame, const double *logprob, float frames_per_second,
                struct words *ret, struct err *err);

/* Fits n >= 1 words of one segment and the segment to each other, as openai-whisper does: the first
 * two words after a pause are cut (attention wanders in silence, so they tend to reach into it),
 * and at either end the segment's time holds where the word's is more than half a second off, else
 * the word's. *start and *end are the segment's, changed in place. All in seconds from the window's
 * begin; median as in struct words; last_speech: end of the segment before (may be negative);
 * window: where the window begins in the recording. */
void words_fit(struct word *words, uint32_t n, float median, double last_speech, double window,
               float *start, float *end);

/* ---- where a window's audio is loud, and words moved to where it is
 *
 * The decoder's attention tells which word is said near a place, but not to a tenth of a second if
 * the word begins after a pause or ends before one. In a long silence it may look seconds away from
 * the word that it writes. No word begins or ends in quiet beside its own sound: its edges are
 * moved there. Our own rule, after openai-whisper's have been applied to the attention alone.
 * Pure. */

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
