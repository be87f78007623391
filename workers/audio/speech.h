/* workers/audio/speech.h - from probabilities of voice to stretches of speech, and from these to
 * windows.
 *
 * The rules are those of Silero's get_speech_timestamps as faster-whisper uses it (v1.2), made to
 * work on a stream: the result does not depend on how the steps were fed. Pure. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_SPEECH_H
#define NIGHTSHIFT_WORKERS_AUDIO_SPEECH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SPEECH_STEP 512 /* samples at 16 kHz of one probability */

struct speech_params {
    float threshold;         /* speech begins at it */
    float neg_threshold;     /* and ends below this, which is never above threshold; negative:
                                threshold - 0.15, at least 0.01 */
    uint32_t min_speech_ms;  /* stretches that are no longer than this are left out */
    uint32_t max_speech_ms;  /* longer ones (with their padding) are cut at their last silence of
                                over 98 ms, else at once; 0: never */
    uint32_t min_silence_ms; /* shorter silences do not end a stretch */
    uint32_t pad_ms;         /* on both sides; neighbours share the gap */
};

struct speech_span {
    int64_t start, end; /* samples from the stream's begin; start < end */
    float prob;         /* mean probability over its steps without the padding */
};

struct speech;

/* The steps of a stream: always one more than the full ones, like the reference. The last is padded
 * with zeros, or nothing else. */
static inline int64_t speech_steps(int64_t samples) { return samples / SPEECH_STEP + 1; }

/* The threshold that ends speech: neg_threshold, or its default if negative; never above
 * threshold. */
float speech_neg_threshold(float threshold, float neg_threshold);
/* ERR_USAGE when a threshold is not a probability. */
int speech_new(const struct speech_params *p, struct speech **ret, struct err *err);
void speech_free(struct speech *s); /* NULL is fine */
/* The next n steps' probabilities; a NaN is silence. ERR_NOMEM: the stream is of no more use. */
int speech_feed(struct speech *s, const float *prob, size_t n, struct err *err);
/* The stream ends after so many samples, in the newest of the steps or at either end of it (all of
 * speech_steps() have been fed). Nothing may be fed any more. */
int speech_end(struct speech *s, int64_t samples, struct err *err);
/* The next finished stretch, in order: false when there is none yet (or no more). */
bool speech_next(struct speech *s, struct speech_span *ret);
/* No stretch that is still to come begins before this sample: audio before it may go. Never falls.
 */
int64_t speech_horizon(const struct speech *s);
/* Mean probability of the steps that [start, end) touches, of those fed in the last eight minutes
 * of audio; -1 when none of them is known (any more). */
float speech_mean(const struct speech *s, int64_t start, int64_t end);

/* ---- packs: stretches of speech put one behind the other into windows, and the way
 * back from a window's time to the recording's.
 *
 * Greedy, in order, as faster-whisper's collect_chunks: a stretch that would make the window longer
 * than `max` begins the next one. */

struct pack {
    struct speech_span *spans; /* owned, ascending, not overlapping */
    uint32_t count, capacity;
    int64_t samples; /* of all together */
};

void pack_free(struct pack *p); /* back to {0} */
/* Whether span fits a window of `max` samples beside what is there (an empty window takes any). */
bool pack_fits(const struct pack *p, const struct speech_span *span, int64_t max);
int pack_add(struct pack *p, const struct speech_span *span, struct err *err);
/* Samples [from, to) of `of`, as a window of their own. ret: {0}; the caller frees it. ERR_NOMEM.
 */
int pack_slice(const struct pack *of, int64_t from, int64_t to, struct pack *ret, struct err *err);

/* Sample `at` of the window (0 .. samples) in the recording. At a seam a beginning belongs to the
 * stretch after it, an end to the one before. Beyond the window: the last stretch's end. */
int64_t pack_time(const struct pack *p, int64_t at, bool is_end);
/* A piece [start, end) of the window in the recording, both ends in the stretch that holds its
 * middle where they would otherwise lie in different ones (a word is never torn over a silence). */
void pack_word(const struct pack *p, int64_t start, int64_t end, int64_t *from, int64_t *to);

/* Stretches of the window with less than `least` samples of the recording between them. */
struct pack_run {        /* all zero: before the first */
    int64_t start, end;  /* samples of the recording */
    int64_t at, samples; /* of the window */
    uint32_t next;       /* the stretch behind it */
};
/* To the next run; false: there is none. least > 0, the same for all of a window's. */
bool pack_next_run(const struct pack *p, int64_t least, struct pack_run *run);

#endif
