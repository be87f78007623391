/* workers/stages/transcribe/outcome/timing.h - the words of windows' segments: asked of the model
 * while the windows are in their slots. Engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_TIMING_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/stages/transcribe/decode/decoding.h"
#include "workers/stages/transcribe/outcome/outcome.h"

struct asr_model;
struct asr_session;
struct timing;

/* Borrows the model. ERR_USAGE when it cannot tell words' times. */
int timing_new(const struct asr_model *model, struct timing **ret, struct err *err);
void timing_free(struct timing *t); /* NULL is fine */

#define TIMING_WINDOWS 16 /* that are asked for together at most */

/* Windows are asked for together: timing_begin, timing_add for each, timing_align for all, then
 * timing_words for each by its number, from 0. They stay in their slots until timing_align is
 * done; a window's audio is needed by timing_add alone. */
void timing_begin(struct timing *t);
/* Sets texts of o's drafts. False: there is no room for it beside the others; alone there is. */
bool timing_add(struct timing *t, const struct asr_session *session, uint32_t slot,
                const struct lane_window *w, const struct decoding_result *r, struct outcome *o);
/* As asr_ops.align. */
int timing_align(struct timing *t, struct asr_session *session, struct err *err);
/* Gives o's drafts their words, fits both to each other, and says where the next window may begin
 * by them, as openai-whisper does; with hallucination_silence_threshold drafts that seem invented
 * are taken out. ERR_NOMEM. */
int timing_words(const struct timing *t, uint32_t number, const struct lane_window *w,
                 struct outcome *o, struct err *err);

/* ---- text that seems invented next to silence, by its words' times
 *
 * openai-whisper's rule for hallucination_silence_threshold: a segment is odd when its words are
 * improbable, too short or too long; odd ones between silences are left out, and listening goes on
 * behind the silence. Pure. */

/* Seconds; all but `begin` from the window's begin. */
struct hallucination_rule {
    double threshold;   /* > 0: a silence */
    double begin;       /* of the window in the recording */
    double length;      /* of the window's audio, */
    double window;      /*   and of the model's windows */
    double last_speech; /* end of the speech before; may be negative */
    bool at_end;        /* no audio follows it */
};

/* How many of o's drafts are kept. All: *seek is untouched; else where to listen again. */
uint32_t hallucination_find(const struct hallucination_rule *rule, const struct outcome *o,
                            double *seek);

#endif
