/* workers/stages/segments.h - from a window's tokens to its segments, and to where the next window
 * begins. Pure; openai-whisper's transcribe() with three differences, each for a reason:
 * times beyond the window's real audio are cut to it (they lie in the padding), and a segment that
 * begins beyond it joins the one before; a single segment keeps the start that the model gave it;
 * and the advance is never 0. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_SEGMENTS_H
#define NIGHTSHIFT_WORKERS_STAGES_SEGMENTS_H

#include <stddef.h>
#include <stdint.h>

#define TIMESTAMP_SAMPLES 320 /* 20 ms at 16 kHz */

struct span {
    int64_t start, end;  /* samples from the window's begin; start < end <= window */
    size_t first, count; /* its tokens, timestamps among them */
};

/* tokens[0..n) of a window that holds `window` > 0 samples of audio; ids from timestamp_begin on
 * are timestamps. Writes at most n spans (room for that many is the caller's), *count how many;
 * spans without length are left out. *advance: 1..window, where the next window begins. */
void segments_split(const int32_t *tokens, size_t n, int32_t timestamp_begin, int64_t window,
                    struct span *out, size_t *count, int64_t *advance);

#endif
