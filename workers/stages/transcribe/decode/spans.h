/* workers/stages/transcribe/decode/spans.h - from a window's tokens to its segments, and to where
 * the next window begins. Pure; openai-whisper's transcribe() with three differences, each for a
 * reason: times beyond the window's real audio are cut to it (they lie in the padding), and a
 * segment that begins beyond it joins the one before; a single segment keeps the start that the
 * model gave it; and the advance is never 0. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_SPANS_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_DECODE_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vocabulary_ids; /* workers/text/tokenizer/vocabulary.h */

struct span {
    int64_t start, end;  /* samples from the window's begin; start < end <= window */
    size_t first, count; /* its tokens, timestamps among them */
};

struct split {
    size_t count;    /* spans */
    int64_t advance; /* 1 .. window: where the next window begins */
    bool closed;     /* the window's text ends with a single timestamp: nothing follows in it */
};

/* tokens[0..n) of a window that holds `window` > 0 samples of audio; ids says which
 * of them are timestamps. Writes at most n spans (room for that many is the caller's); spans
 * without length are left out. whole: no other window hears the end of this one again, so text
 * behind the last finished segment is a segment up to the window's end; else it is left out, and
 * *advance lies before it. */
void spans_split(const int32_t *tokens, size_t n, const struct vocabulary_ids *ids, int64_t window,
                 bool whole, struct span *out, struct split *ret);

#endif
