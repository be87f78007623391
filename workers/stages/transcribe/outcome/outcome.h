/* workers/stages/transcribe/outcome/outcome.h - what a window's decoding comes to: its segments in
 * the window's own time, with words where they are asked for, and from them segments in the
 * recording's. Engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_OUTCOME_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/stages/transcribe/decode/decoding.h"
#include "workers/stages/transcribe/lane.h"
#include "workers/stages/transcribe/decode/spans.h"
#include "workers/stages/transcribe/outcome/words.h"

/* A segment on its way: samples from the window's begin. */
struct draft {
    struct span span;
    char *text;                 /* owned; NULL: there is nothing to read */
    uint32_t texts;             /* of its tokens that are text; with words */
    uint32_t first_word, words; /* in the outcome's */
    float start, end;           /* seconds; with words: as they say */
    bool beside_silence;        /* invented there (timing.h): it is going to be dropped */
    bool dropped;               /* not believed; known once it was yielded */
};

struct outcome { /* all zero: empty */
    struct draft *drafts;
    uint32_t count;
    struct words words;
    int64_t advance; /* 1 .. the window's samples: where the next window may begin */
    int64_t
        speech_end; /* sample after the last word; -1: no words were asked for, or there are none */
    bool closed;    /* as of spans_split */
};

/* Without words, which are asked for later (timing.h). ERR_NOMEM. */
int outcome_make(const struct lane_window *w, const struct decoding_result *r, struct outcome *ret,
                 struct err *err);
void outcome_free(struct outcome *o);
/* Its segments, with what is to be thought of them, go to the end of `yield`; their drafts are
 * marked. Times ascend, and lie in the window's piece of the recording. */
int outcome_yield(struct outcome *o, const struct lane_window *w, const struct decoding_result *r,
                  struct yield *yield, struct err *err);
/* One draft's times and words in the recording, none before after_ms: into s, as by outcome_yield.
 * Its words lie in `words`, which has room for all of o's; their texts are o's. Once for each. */
void outcome_place(const struct outcome *o, uint32_t draft, const struct lane_window *w,
                   int64_t after_ms, struct result_word *words, struct result_segment *s);
/* After outcome_yield: notes which of the window's speech its texts cover; `coverage` is of the
 * whole that it is a piece of, or its own. */
void outcome_cover(const struct outcome *o, const struct lane_window *w, struct coverage *coverage);
/* Adds what no text covers of a whole window, `least` steps of speech or more together, as dropped
 * segments without text, RESULT_MISSING, one on each side of a pause that was left out. ERR_NOMEM.
 */
int outcome_missing(const struct lane_window *w, uint32_t least, struct yield *yield,
                    struct err *err);
/* After outcome_yield: what of it tells that somebody spoke. */
struct outcome_text {
    uint32_t kept, dropped; /* drafts with a text */
};
struct outcome_text outcome_text(const struct outcome *o);
/* Whether the window is to be taken for speech: for its text that was kept; else, unless all that
 * was said was dropped, for its no-speech probability. */
bool outcome_is_speech(const struct outcome *o, const struct lane_window *w,
                       const struct decoding_result *r);

#endif
