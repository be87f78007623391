/* workers/stages/transcribe/transcription.h - what a shard is heard from and what is heard in it:
 * values. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_TRANSCRIPTION_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_TRANSCRIPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct transcribe_word {
    int64_t start_ms, end_ms; /* in the recording; start <= end */
    const char *text;         /* valid UTF-8, with its punctuation and its leading blank, as the
                                 model wrote it: a segment's words joined are its text */
    float probability;
};

struct transcribe_segment {
    int64_t start_ms, end_ms; /* in the recording */
    const char *text;         /* valid UTF-8, surrounding blanks removed, never empty */
    const char *language;     /* of its window: "en"; "" unknown */
    float avg_logprob, no_speech_prob, compression_ratio, temperature;
    uint32_t attempts;  /* temperatures tried, 1 .. */
    float speech_prob;  /* mean voice activity over it, 0 .. 1; -1: not measured */
    bool dropped;       /* not believed: kept apart from the transcript */
    const char *reason; /* why it was tried again, doubted or dropped (doubt.h); "" = good at
                           once */
    uint32_t word_count;
    const struct transcribe_word *words; /* NULL unless word_timestamps */
};

/* The lane's audio. Positions are samples at 16 kHz in the recording. */
struct lane_source {
    /* Copies samples [at, at + n) to out, returns how many there are: n; fewer only when the lane's
     * end is known and reached; -1 when they have not been decoded yet (call again later). */
    int64_t (*read)(void *arg, int64_t at, size_t n, float *out);
    /* Audio before `at` is not needed any more. */
    void (*release)(void *arg, int64_t at);
    void *arg;
};

struct lane_result {
    const char *language; /* "" when nobody spoke */
    float language_prob;
    int64_t end_sample;
    uint32_t windows;
    uint32_t segment_count;
    const struct transcribe_segment *segments; /* ascending start; borrowed during the call */
};

/* Called on the engine thread when a lane has ended: result on success, else err. The lane is gone
 * afterwards. */
typedef void (*lane_done)(void *arg, const struct lane_result *result, const struct err *err);

#endif
