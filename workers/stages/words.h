/* workers/stages/words.h - when each word of a window was said.
 *
 * openai-whisper's timing.py: dynamic time warping over the alignment heads' attention
 * (gpu/backend.h: align makes the matrix), tokens joined to words, punctuation merged into its
 * neighbours, the lengths of doubtful words cut. Pure. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_WORDS_H
#define NIGHTSHIFT_WORKERS_STAGES_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/text/vocabulary.h"

#define WORDS_PREPEND "\"'“¿([{-"
#define WORDS_APPEND "\"'.。,，!！?？:：”)]}、"

struct word {
    float start, end;      /* seconds in the window */
    char *text;            /* owned; with its leading blank */
    uint32_t first, count; /* its tokens among the text tokens (timestamps not counted) */
    float probability;     /* mean of its tokens' */
};

struct words {
    struct word *words; /* owned */
    uint32_t count;
};

void words_free(struct words *w); /* back to {0} */

/* Dynamic time warping of cost[n][m] (row-major; low is good): path[i] for each row i is the first
 * column at which the path is in that row. n, m >= 1; ERR_NOMEM. O(n m) time and bytes. */
int words_dtw(const float *cost, uint32_t n, uint32_t m, uint32_t *first_column, struct err *err);

/* The words that text tokens (no timestamps, no specials) make in this language ("en"): at blanks,
 * or at every character in languages written without them (zh, ja, th, lo, my, yue); probabilities
 * and times are 0. */
int words_split(const struct vocabulary *v, const char *language, const int32_t *tokens, uint32_t n,
                struct words *ret, struct err *err);

/* All of it for one window: matrix [rows][frames] and logprob [rows] as whisper_align gave them for
 * prompt_len prompt tokens, n text tokens (no timestamps) and the end: rows = prompt_len + n + 1.
 * Punctuation is merged; overlong words at the begin and end of sentences are cut (median of
 * lengths, at most 0.7 s). */
int words_align(const struct vocabulary *v, const char *language, const int32_t *tokens, uint32_t n,
                const float *matrix, const double *logprob, uint32_t prompt_len, uint32_t frames,
                struct words *ret, struct err *err);

/* The decoder's heads to look at: the model's own, or, where it names none, all heads of the upper
 * half of the layers. Writes at most max pairs (layer, head); returns how many there are. */
uint32_t words_heads(const struct vocabulary *v, uint32_t layers, uint32_t heads,
                     uint32_t (*ret)[2], uint32_t max);

#endif
