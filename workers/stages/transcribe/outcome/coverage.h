/* workers/stages/transcribe/outcome/coverage.h - which speech of a window has a text.
 *
 * Voice activity says for every step whether somebody speaks. Texts cover the steps between their
 * times, and a little beside them, since timestamps are rough. Speech that no text covers is a gap:
 * it is decoded again by itself. Speech without text after that is missing. Steps are counted once,
 * so that
 *   speech = with text + dropped + missing.
 * Pure. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_COVERAGE_H
#define NIGHTSHIFT_WORKERS_STAGES_TRANSCRIBE_OUTCOME_COVERAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "workers/audio/speech.h"
#include "workers/models/asr_model.h"
#include "workers/results.h"

#define COVERAGE_STEPS_MAX ((ASR_WINDOW_MAX + SPEECH_STEP - 1) / SPEECH_STEP)

enum coverage_state {
    COVERAGE_QUIET,
    COVERAGE_MISSING, /* somebody speaks, and there is no text */
    COVERAGE_DROPPED, /* there was one, and it was dropped */
    COVERAGE_TEXT,
};

struct coverage {
    uint32_t steps;
    uint8_t state[COVERAGE_STEPS_MAX]; /* enum coverage_state */
};

/* Samples of the window. */
struct coverage_gap {
    int64_t start, end;
    uint32_t steps; /* with speech, in a row or with quiet between them */
};

/* voice: the probability of speech of each step of `samples` samples, at most a window's; from
 * `threshold` on somebody speaks. */
void coverage_begin(struct coverage *c, const float *voice, int64_t samples, float threshold);
/* A text stands from sample start to end. Steps with a text keep it; dropped steps may get one. */
void coverage_add(struct coverage *c, int64_t start, int64_t end, bool dropped);
/* The next gap at or behind sample `from`, before `to`, with at least `least` steps of speech: all
 * between two covered stretches, but for the quiet at its ends. false: there is none. */
bool coverage_next_gap(const struct coverage *c, int64_t from, int64_t to, uint32_t least,
                       struct coverage_gap *ret);
/* Gaps with fewer than `least` steps: beside a text they are its, for it was said a little longer
 * than its timestamps say; else they are too short to be speech. */
void coverage_close(struct coverage *c, uint32_t least);
/* Adds its steps. */
void coverage_count(const struct coverage *c, struct result_account *sum);

#endif
