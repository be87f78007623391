/* workers/stages/transcribe/transcription.h - what a shard is heard from and what is heard in it:
 * values. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_TRANSCRIPTION_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_TRANSCRIPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/results.h"

/* The lane's audio. Positions are samples at 16 kHz in the recording. */
struct lane_source {
    /* Copies samples [at, at + n) to out, returns how many there are: n; fewer only when the lane's
     * end is known and reached; -1 when they have not been decoded yet (call again later). */
    int64_t (*read)(void *arg, int64_t at, size_t n, float *out);
    /* Audio before `at` is not needed any more. */
    void (*release)(void *arg, int64_t at);
    void *arg;
    bool again; /* another lane hears the same stretch: not to be counted as done once more */
};

struct lane_result {
    const char *language; /* "" when nobody spoke */
    float language_prob;
    int64_t end_sample;
    uint32_t windows;
    uint32_t segment_count;
    const struct result_segment *segments; /* ascending start; borrowed during the call */
    struct result_account account;
};

/* Called on the engine thread when a lane has ended: result on success, else err. The lane is gone
 * afterwards. */
typedef void (*lane_done)(void *arg, const struct lane_result *result, const struct err *err);

#endif
