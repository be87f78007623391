/* workers/stages/transcribe/outcome/timing.h - the words of a window's segments: asked of the model
 * while the window is in its slot. Engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_TIMING_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_TIMING_H

#include <stdint.h>

#include "base/err.h"
#include "workers/stages/transcribe/decode/decoding.h"
#include "workers/stages/transcribe/outcome/outcome.h"

struct asr_model;
struct timing;

/* Borrows the model. ERR_USAGE when it cannot tell words' times. */
int timing_new(const struct asr_model *model, struct timing **ret, struct err *err);
void timing_free(struct timing *t); /* NULL is fine */

/* Gives o's drafts their words, fits both to each other, and says where the next window may begin
 * by them, as openai-whisper does; with hallucination_silence_threshold drafts that seem invented
 * are taken out. */
int timing_words(struct timing *t, struct asr_session *session, uint32_t slot,
                 const struct lane_window *w, const struct decoding_result *r, struct outcome *o,
                 struct err *err);

#endif
