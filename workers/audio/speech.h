/* workers/audio/speech.h - from probabilities of voice to stretches of speech.
 *
 * The rules are those of Silero's get_speech_timestamps as faster-whisper uses it (v1.2), made to
 * work on a stream: what is found does not depend on how the steps were fed. Pure. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_SPEECH_H
#define NIGHTSHIFT_WORKERS_AUDIO_SPEECH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SPEECH_STEP 512 /* samples at 16 kHz of one probability */

struct speech_params {
    float threshold;        /* speech begins at it */
    float neg_threshold;    /* and ends below this */
    uint32_t min_speech_ms; /* shorter stretches are left out */
    uint32_t
        max_speech_ms; /* longer ones are cut at their last silence of >= 98 ms, else at once */
    uint32_t min_silence_ms; /* shorter silences do not end a stretch */
    uint32_t pad_ms;         /* on both sides; neighbours share the gap */
};

struct speech_span {
    int64_t start, end; /* samples from the stream's begin; start < end */
    float prob;         /* mean probability over its steps without the padding */
};

struct speech;

int speech_new(const struct speech_params *p, struct speech **ret, struct err *err);
void speech_free(struct speech *s); /* NULL is fine */
/* The next n steps' probabilities. ERR_NOMEM. */
int speech_feed(struct speech *s, const float *prob, size_t n, struct err *err);
/* The stream ends after so many samples (all of whose steps have been fed). */
int speech_end(struct speech *s, int64_t samples, struct err *err);
/* The next finished stretch, in order: false when there is none yet (or no more). */
bool speech_next(struct speech *s, struct speech_span *ret);
/* No stretch that is still to come begins before this sample: audio before it may go. Never falls.
 */
int64_t speech_horizon(const struct speech *s);
/* Mean probability of the steps in [start, end), of what was fed in the last 60 s and later; -1
 * when nothing of it is known any more. */
float speech_mean(const struct speech *s, int64_t start, int64_t end);

#endif
